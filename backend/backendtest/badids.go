package backendtest

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// badIDChecks put slots and block ids into device memory that lie outside the
// cache. A device may do the rest of the call or nothing of it; it writes
// nowhere else, and reports where its Caps say that it does.
func badIDChecks[B backend.Buffer]() []check[B] {
	out := []check[B]{{"convert blocks outside the cache", checkConvertOutside[B]}}
	for _, c := range []struct {
		name string
		run  func(r *rig[B], f backend.Format)
	}{
		{"append to slots outside the cache", checkAppendOutside[B]},
		{"rotate slots outside the cache", checkRotateOutside[B]},
		{"move slots outside the cache", checkMoveOutside[B]},
		{"copy blocks outside the cache", checkCopyOutside[B]},
		{"gather blocks outside the cache", checkGatherOutside[B]},
		{"attend over blocks outside the cache", checkAttendOutside[B]},
		{"attention scores of blocks outside the cache", checkAttendMassOutside[B]},
	} {
		out = append(out, check[B]{c.name, func(r *rig[B]) { c.run(r, r.plain()) }},
			check[B]{c.name + ", quantized", func(r *rig[B]) { c.run(r, r.quantized()) }})
	}
	return append(out, badViewChecks[B]()...)
}

// outside are slots that no cache of the suite has.
func outside(c geometry) []int64 {
	return []int64{int64(c.slots()), -2, math.MaxInt64, math.MinInt64, 1 << 32}
}

// reported checks that a call told of bad ids, at once or at the stream's end, if
// the device does so.
func (r *rig[B]) reported(err error) {
	if err == nil {
		err = r.s.Sync()
	}
	if r.be.Caps().ChecksIDs {
		require.Error(r, err, "Caps.ChecksIDs promises a report")
	} else {
		require.NoError(r, err)
	}
}

// either takes rows over into the image that the call was free to write or not.
func (p *plane[B]) either(r *rig[B], got stored, slot int, written func(head int) []float32) {
	for head := range p.kvHeads {
		before := p.now().clone()
		p.put(slot, head, written(head))
		if !p.same(got, p.now(), slot, head) {
			require.True(r, p.same(got, before, slot, head), "slot %d, head %d is neither old nor new", slot, head)
			p.take(before, slot, slot, head)
		}
	}
}

func checkAppendOutside[B backend.Buffer](r *rig[B], f backend.Format) {
	kDim, vDim := r.dims(64, 64)
	a := newAppend(r, appendSpec{kvHeads: 2, kDim: kDim, vDim: vDim, block: r.blockSize(16), blocks: 3, tokens: 9, format: f})
	a.slots = append([]int64{5, 6}, outside(a.cache.geometry)...)
	a.slots = append(a.slots, 7, 8)
	a.params.Slots = constant(r, "slots outside", backend.I64, a.slots).buf
	r.push()
	r.reported(r.be.Append(r.s, a.params))
	gotK, gotV := r.content(a.cache.k), r.content(a.cache.v)
	for i, slot := range a.slots {
		if slot >= 5 && slot <= 8 {
			a.cache.k.either(r, gotK, int(slot), func(h int) []float32 {
				return decode(f.Act, a.k.part(a.k.image, i*a.k.stride+h*kDim, kDim))
			})
			a.cache.v.either(r, gotV, int(slot), func(h int) []float32 {
				return decode(f.Act, a.v.part(a.v.image, i*a.v.stride+h*vDim, vDim))
			})
		}
	}
	r.verify()
}

func checkRotateOutside[B backend.Buffer](r *rig[B], f backend.Format) {
	c := r.smallCache(f)
	slots := outside(c.geometry)
	p := rotateParams(r, c, rotary{10000, c.kDim, backend.HalfSplit, 1}, slots, make([]int32, len(slots)))
	r.push()
	r.reported(r.be.Rotate(r.s, p))
	r.verify()
}

func checkMoveOutside[B backend.Buffer](r *rig[B], f backend.Format) {
	c := r.smallCache(f)
	var pairs []int64
	for _, slot := range outside(c.geometry) {
		pairs = append(pairs, slot, 1, 2, slot)
	}
	p := backend.MoveSlotsParams[B]{Cache: c.view(), Scores: c.massOperand(), Pairs: constant(r, "pairs", backend.I64, pairs).buf, N: len(pairs) / 2}
	r.push()
	r.reported(r.be.MoveSlots(r.s, p))
	r.verify()
}

func checkCopyOutside[B backend.Buffer](r *rig[B], f backend.Format) {
	c := r.smallCache(f)
	more := c.geometry
	more.blocks += 2
	larger := r.cache(more).fill(r)
	larger.addMass(r)
	for _, way := range [][2]*cache[B]{{c, c}, {c, larger}, {larger, c}} {
		from, to := way[0], way[1]
		pairs := []uint32{uint32(from.blocks), 1, 2, uint32(to.blocks), math.MaxUint32 - 1, 3, 0, math.MaxUint32}
		p := backend.CopyBlocksParams[B]{From: from.view(), To: to.view(), FromScores: from.massOperand(), ToScores: to.massOperand(),
			Pairs: constant(r, "pairs", backend.U32, pairs).buf, N: len(pairs) / 2}
		r.push()
		r.reported(r.be.CopyBlocks(r.s, p))
		r.verify()
	}
}

func checkGatherOutside[B backend.Buffer](r *rig[B], f backend.Format) {
	c := r.smallCache(f)
	k := r.region("gathered K", gatherable(f.K), 0, c.kvHeads*3*c.block*c.kDim)
	k.scratch = true
	p := backend.GatherParams[B]{Cache: c.view(), Len: 3 * c.block, K: backend.Some(k.buf),
		Table: backend.Some(constant(r, "block table", backend.U32, []uint32{1, math.MaxUint32, uint32(c.blocks)}).buf)}
	r.push()
	r.reported(r.be.Gather(r.s, p))
	r.verify()
}

func checkConvertOutside[B backend.Buffer](r *rig[B]) {
	kDim, vDim := r.dims(64, 64)
	for _, unpack := range []bool{false, true} {
		a := newConvert(r, convertSpec{format: r.quantized(), kDim: kDim, vDim: vDim, unpack: unpack, mass: true})
		pairs := []uint32{uint32(a.from.blocks), 1, 2, uint32(a.to.blocks), math.MaxUint32 - 1, 3, 0, math.MaxUint32}
		a.params.Pairs, a.params.N = constant(r, "pairs outside", backend.U32, pairs).buf, len(pairs)/2
		r.push()
		r.reported(r.be.ConvertBlocks(r.s, a.params))
		r.verify()
	}
}

// newAttendOutside is a case whose table names no block of the cache.
func newAttendOutside[B backend.Buffer](r *rig[B], f backend.Format, o outputSpec) *attendRun[B] {
	s := small("ids outside", sequence{3, 40}, sequence{1, 40})
	s.format, s.layout.block, s.output = f, r.blockSize(16), o
	s.kDim, s.vDim = r.dims(64, 64)
	a := newAttend(r, s)
	ids := make([]uint32, 2*a.params.Batch.TableStride)
	for i := range ids {
		ids[i] = []uint32{uint32(a.cache.blocks), math.MaxUint32, 1 << 31}[i%3]
	}
	a.params.Batch.Table.Buf = constant(r, "table outside", backend.U32, ids).buf
	return a
}

func checkAttendMassOutside[B backend.Buffer](r *rig[B], f backend.Format) {
	a := newAttendOutside(r, f, outputSpec{mass: true})
	a.given.set(0, encode(backend.F32, make([]float32, a.given.n)))
	a.mass.scratch = true
	r.push()
	r.reported(r.be.AttendScores(r.s, weighing(&a.params, a.given.buf, givenOffset)))
	r.verify()
}

func checkAttendOutside[B backend.Buffer](r *rig[B], f backend.Format) {
	a := newAttendOutside(r, f, outputSpec{lse: true})
	a.out.scratch, a.lse.scratch = true, true
	a.lse.lead, a.lse.n = 0, a.lse.lead+a.lse.n
	r.push()
	r.reported(r.be.Attend(r.s, a.params))
	r.verify()
}
