package check

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// fake is a buffer without memory.
type fake struct {
	dt backend.DType
	n  int
}

func (f *fake) Len() int             { return f.n }
func (f *fake) DType() backend.DType { return f.dt }
func (f *fake) Bytes() int64         { size, _ := f.dt.Size(f.n); return size }

func buf(dt backend.DType, n int) *fake                 { return &fake{dt, n} }
func some(dt backend.DType, n int) backend.Opt[*fake]   { return backend.Some(buf(dt, n)) }
func dense(dt backend.DType, n int) backend.Rows[*fake] { return backend.Dense(buf(dt, n)) }

var (
	f16  = backend.Format{Act: backend.F16, K: backend.F16, V: backend.F16}
	i8   = backend.Format{Act: backend.F16, K: backend.Int8, V: backend.Int4}
	caps = backend.Caps{Formats: []backend.Format{f16, i8}, HeadDims: [][2]int{{8, 6}}, BlockSizes: []int{4, 16},
		Chunk: true, Views: true, TreeWords: 2}
)

// Every valid call below needs exactly what its buffers have: one element less is
// an error.
func view(f backend.Format) backend.CacheView[*fake] {
	const rows = 5 * 2 * 4
	v := backend.CacheView[*fake]{Blocks: 5, KVHeads: 2, BlockSize: 4,
		K: backend.Plane[*fake]{Data: buf(f.K, rows*8), Dim: 8}, V: backend.Plane[*fake]{Data: buf(f.V, rows*6), Dim: 6}}
	if f.K.Quantized() {
		v.K.Scales, v.K.Hadamard = some(backend.F32, rows), true
		v.V.Scales = some(backend.U32, rows)
	}
	return v
}

// scaleBuffers are the scales of a view, if it has any.
func scaleBuffers(v backend.CacheView[*fake]) []*fake {
	if !v.K.Scales.Set {
		return nil
	}
	return []*fake{v.K.Scales.Buf, v.V.Scales.Buf}
}

func appendParams(f backend.Format) backend.AppendParams[*fake] {
	return backend.AppendParams[*fake]{Cache: view(f), Tokens: 3, K: dense(f.Act, 3*16), V: dense(f.Act, 3*12), Slots: buf(backend.I64, 3),
		Rotary:    backend.RotaryTable[*fake]{Table: some(backend.F32, 7*4), Positions: 7, Dims: 4, Magnitude: 1},
		Positions: some(backend.U32, 3), QHeads: 4, Q: backend.Rows[*fake]{Buf: buf(f.Act, 5+2*40+32), Offset: 5, Stride: 40}}
}

func attendParams(f backend.Format) backend.AttendParams[*fake] {
	return backend.AttendParams[*fake]{Cache: view(f), QHeads: 4, Scale: 1, Q: dense(f.Act, 3*32),
		Batch: backend.Ragged[*fake]{Seqs: 2, Tokens: 3, Table: some(backend.U32, 2*3), TableStride: 3, ContextLens: buf(backend.U32, 2), QueryOffsets: some(backend.U32, 3),
			Views: some(backend.U32, 6), Tree: some(backend.U32, 6), TreeWords: 2},
		Mask: backend.Mask[*fake]{Window: 9, SinkTokens: 2, SoftCap: 3, ALiBi: some(backend.F32, 4), SinkLogits: some(backend.F32, 4)},
		Out:  backend.Outputs[*fake]{Rows: dense(f.Act, 3*24), LSE: some(backend.F32, 2+12), LSEOffset: 2, Scores: some(backend.F32, 5*2*4)},
		Plan: backend.AttendPlan{Work: make([]uint32, 9), Items: 1, Workspace: 11, Scores: true},
		Work: some(backend.U32, 9), Workspace: some(backend.F32, 11)}
}

func attendMassParams(f backend.Format) backend.AttendScoresParams[*fake] {
	p := attendParams(f)
	return backend.AttendScoresParams[*fake]{Cache: p.Cache, Batch: p.Batch, Q: p.Q, QHeads: p.QHeads, Scale: p.Scale, Mask: p.Mask,
		LSE: p.Out.LSE.Buf, LSEOffset: p.Out.LSEOffset, Scores: p.Out.Scores.Buf, Plan: p.Plan, Work: p.Work}
}

func mergeParams() backend.MergeParams[*fake] {
	return backend.MergeParams[*fake]{Parts: 2, Tokens: 3, Heads: 4, Dim: 6, In: buf(backend.F32, 2*3*24), LSE: buf(backend.F32, 2*12),
		Out: dense(backend.F16, 3*24), OutLSE: some(backend.F32, 12)}
}

func gatherParams(f backend.Format) backend.GatherParams[*fake] {
	k := f.K
	if k.Quantized() {
		k = backend.F32
	}
	return backend.GatherParams[*fake]{Cache: view(f), Table: some(backend.U32, 1+3), TableOffset: 1, Begin: 3, Len: 6,
		K: some(k, 2*6*8), V: some(backend.F32, 2*6*6), CacheScores: some(backend.F32, 5*2*4), Scores: some(backend.F32, 1+2*6), ScoresOffset: 1}
}

func clearParams() backend.ClearScoresParams[*fake] {
	return backend.ClearScoresParams[*fake]{Scores: buf(backend.F32, 5*2*4), Blocks: 5, KVHeads: 2, BlockSize: 4, Slots: buf(backend.I64, 3), N: 3}
}

func rotateParams(f backend.Format) backend.RotateParams[*fake] {
	return backend.RotateParams[*fake]{Cache: view(f), Slots: buf(backend.I64, 3), Deltas: buf(backend.I32, 3), N: 3,
		Rotary: backend.RotaryTable[*fake]{Table: some(backend.F32, 7*4), Positions: 7, Dims: 4}}
}

// copyParams and moveParams also carry the attention scores of the slots.
func copyParams(f backend.Format) backend.CopyBlocksParams[*fake] {
	return backend.CopyBlocksParams[*fake]{From: view(f), To: view(f), FromScores: some(backend.F32, 5*2*4), ToScores: some(backend.F32, 5*2*4), Pairs: buf(backend.U32, 6), N: 3}
}

func moveParams(f backend.Format) backend.MoveSlotsParams[*fake] {
	return backend.MoveSlotsParams[*fake]{Cache: view(f), Scores: some(backend.F32, 5*2*4), Pairs: buf(backend.I64, 6), N: 3}
}

// convertParams quantizes blocks of a cache that stores what is computed with.
func convertParams() backend.ConvertBlocksParams[*fake] {
	return backend.ConvertBlocksParams[*fake]{From: view(f16), To: view(i8), FromScores: some(backend.F32, 5*2*4), ToScores: some(backend.F32, 5*2*4), Pairs: buf(backend.U32, 6), N: 3}
}

// exact runs a valid call, then with every buffer in turn one element short and of
// another type.
func exact(t *testing.T, name string, call func() error, bufs ...*fake) {
	t.Helper()
	require.NoError(t, call(), name)
	for i, b := range bufs {
		was := *b
		b.n--
		require.ErrorIs(t, call(), backend.ErrArgument{}, "%s: buffer %d is short", name, i)
		*b = was
		for dt := backend.Invalid; dt <= backend.I64; dt++ {
			if b.dt = dt; dt != was.dt {
				err := call()
				require.Error(t, err, "%s: buffer %d is %s instead of %s", name, i, dt, was.dt)
			}
		}
		*b = was
	}
	require.NoError(t, call(), name)
}

func TestBuffersFitExactly(t *testing.T) {
	for _, f := range []backend.Format{f16, i8} {
		a := appendParams(f)
		exact(t, "append", func() error { return Append(&caps, &a) }, append(scaleBuffers(a.Cache),
			a.Cache.K.Data, a.Cache.V.Data, a.K.Buf, a.V.Buf, a.Q.Buf, a.Slots, a.Positions.Buf, a.Rotary.Table.Buf)...)
		p := attendParams(f)
		exact(t, "attend", func() error { return Attend(&caps, &p) }, append(scaleBuffers(p.Cache),
			p.Cache.K.Data, p.Cache.V.Data, p.Q.Buf, p.Out.Rows.Buf, p.Out.LSE.Buf, p.Out.Scores.Buf, p.Batch.Table.Buf, p.Batch.ContextLens,
			p.Batch.QueryOffsets.Buf, p.Batch.Views.Buf, p.Batch.Tree.Buf, p.Mask.ALiBi.Buf, p.Mask.SinkLogits.Buf, p.Work.Buf, p.Workspace.Buf)...)
		w := attendMassParams(f)
		exact(t, "attend scores", func() error { return AttendScores(&caps, &w) }, append(scaleBuffers(w.Cache),
			w.Cache.K.Data, w.Cache.V.Data, w.Q.Buf, w.LSE, w.Scores, w.Batch.Table.Buf, w.Batch.ContextLens, w.Batch.QueryOffsets.Buf, w.Work.Buf)...)
		r := rotateParams(f)
		exact(t, "rotate", func() error { return Rotate(&caps, &r) }, append(scaleBuffers(r.Cache), r.Cache.K.Data, r.Slots, r.Deltas, r.Rotary.Table.Buf)...)
		g := gatherParams(f)
		exact(t, "gather", func() error { return Gather(&caps, &g) }, append(scaleBuffers(g.Cache), g.Cache.K.Data, g.Table.Buf, g.CacheScores.Buf, g.Scores.Buf)...)
		c := copyParams(f)
		exact(t, "copy blocks", func() error { return CopyBlocks(&caps, &c) }, append(append(scaleBuffers(c.From), scaleBuffers(c.To)...),
			c.From.V.Data, c.To.K.Data, c.FromScores.Buf, c.ToScores.Buf, c.Pairs)...)
		m := moveParams(f)
		exact(t, "move slots", func() error { return MoveSlots(&caps, &m) }, append(scaleBuffers(m.Cache), m.Cache.V.Data, m.Scores.Buf, m.Pairs)...)
	}
	for _, back := range []bool{false, true} {
		p := convertParams()
		if back {
			p.From, p.To = p.To, p.From
		}
		exact(t, "convert blocks", func() error { return ConvertBlocks(&caps, &p) }, append(append(scaleBuffers(p.From), scaleBuffers(p.To)...),
			p.From.K.Data, p.From.V.Data, p.To.K.Data, p.To.V.Data, p.FromScores.Buf, p.ToScores.Buf, p.Pairs)...)
	}
	z := clearParams()
	exact(t, "clear scores", func() error { return ClearScores(&caps, &z) }, z.Scores, z.Slots)
	m := mergeParams()
	exact(t, "merge", func() error { return Merge(&caps, &m) }, m.LSE, m.OutLSE.Buf)
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	spoilAppend := func(spoil func(p *backend.AppendParams[*fake])) error {
		p := appendParams(f16)
		spoil(&p)
		return Append(&caps, &p)
	}
	spoilAttend := func(spoil func(p *backend.AttendParams[*fake])) error {
		p := attendParams(f16)
		spoil(&p)
		return Attend(&caps, &p)
	}
	spoilMass := func(spoil func(p *backend.AttendScoresParams[*fake])) error {
		p := attendMassParams(f16)
		spoil(&p)
		return AttendScores(&caps, &p)
	}
	spoilMerge := func(spoil func(p *backend.MergeParams[*fake])) error {
		p := mergeParams()
		spoil(&p)
		return Merge(&caps, &p)
	}
	spoilGather := func(spoil func(p *backend.GatherParams[*fake])) error {
		p := gatherParams(f16)
		spoil(&p)
		return Gather(&caps, &p)
	}
	type (
		app = *backend.AppendParams[*fake]
		att = *backend.AttendParams[*fake]
		wei = *backend.AttendScoresParams[*fake]
		mer = *backend.MergeParams[*fake]
		gat = *backend.GatherParams[*fake]
	)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for want, err := range map[string]error{
		"backend: append: slots: 3 elements, need 4": spoilAppend(func(p app) {
			p.Tokens = 4
			p.K.Buf, p.V.Buf, p.Q.Buf = buf(backend.F16, 999), buf(backend.F16, 999), buf(backend.F16, 999)
		}),
		"tokens: have -1":                                          spoilAppend(func(p app) { p.Tokens = -1 }),
		"KV heads: have 0":                                         spoilAppend(func(p app) { p.Cache.KVHeads = 0 }),
		"blocks: have 0":                                           spoilAppend(func(p app) { p.Cache.Blocks = 0 }),
		"block size: have -4":                                      spoilAppend(func(p app) { p.Cache.BlockSize = -4 }),
		"cache slots: the number of elements":                      spoilAppend(func(p app) { p.Cache.Blocks = math.MaxInt/4 + 1 }),
		"k offset: have -1":                                        spoilAppend(func(p app) { p.K.Offset = -1 }),
		"k stride: have 15, need 0 or at least":                    spoilAppend(func(p app) { p.K.Stride = 15 }),
		"v: the number of elements overflows":                      spoilAppend(func(p app) { p.V.Offset = math.MaxInt }),
		"k: the number of elements is negative":                    spoilAppend(func(p app) { p.K.Stride = math.MaxInt }),
		"query heads: have 3, need a multiple":                     spoilAppend(func(p app) { p.QHeads = 3 }),
		"query heads: have -2":                                     spoilAppend(func(p app) { p.QHeads = -2 }),
		"rope dims: have 3":                                        spoilAppend(func(p app) { p.Rotary.Dims = 3 }),
		"rope dims: have 10":                                       spoilAppend(func(p app) { p.Rotary.Dims = 10 }),
		"rope pairing: 2":                                          spoilAppend(func(p app) { p.Rotary.Pairing = 2 }),
		"rope positions: have 0":                                   spoilAppend(func(p app) { p.Rotary.Positions = 0 }),
		"rope magnitude: have 0":                                   spoilAppend(func(p app) { p.Rotary.Magnitude = 0 }),
		"positions: missing":                                       spoilAppend(func(p app) { p.Positions.Set = false }),
		"positions: set without a rope table":                      spoilAppend(func(p app) { p.Rotary.Table.Set = false }),
		"keys: f16 has no scales":                                  spoilAppend(func(p app) { p.Cache.K.Scales = some(backend.F32, 999) }),
		"append is not supported: keys of f16 with values of f32":  spoilAppend(func(p app) { p.Cache.V.Data.dt = backend.F32 }),
		"append is not supported: heads of 6 key and 6 value dims": spoilAppend(func(p app) { p.Cache.K.Dim = 6 }),
		"activations: are u32, need f32, f16 or bf16":              spoilAppend(func(p app) { p.K.Buf.dt = backend.U32 }),
		"cache: keys are i64":                                      spoilAppend(func(p app) { p.Cache.K.Data.dt = backend.I64 }),

		"scale: have NaN":                        spoilAttend(func(p att) { p.Scale = nan }),
		"scale: have 0":                          spoilAttend(func(p att) { p.Scale = 0 }),
		"scale: have +Inf":                       spoilAttend(func(p att) { p.Scale = inf }),
		"soft-cap: have -1":                      spoilAttend(func(p att) { p.Mask.SoftCap = -1 }),
		"soft-cap: have NaN":                     spoilAttend(func(p att) { p.Mask.SoftCap = nan }),
		"soft-cap: have 1e-38":                   spoilAttend(func(p att) { p.Mask.SoftCap = 1e-38 }),
		"scale: have 1e+35":                      spoilAttend(func(p att) { p.Scale = 1e35 }),
		"window: have -1":                        spoilAttend(func(p att) { p.Mask.Window = -1 }),
		"sink tokens: have -1":                   spoilAttend(func(p att) { p.Mask.SinkTokens = -1 }),
		"part: have 3":                           spoilAttend(func(p att) { p.Mask.Part = 3 }),
		"recent tokens: have 5 with all keys":    spoilAttend(func(p att) { p.Mask.Residual = 5 }),
		"recent tokens: have 0, need at least 1": spoilAttend(func(p att) { p.Mask.Part = backend.OlderKeys }),
		"keys without a causal mask": spoilAttend(func(p att) {
			p.Mask, p.Batch.Views.Set, p.Batch.Tree.Set = backend.Mask[*fake]{NonCausal: true, Part: backend.OlderKeys, Residual: 5}, false, false
		}),
		"sequences: have -1":                   spoilAttend(func(p att) { p.Batch.Seqs = -1 }),
		"table stride: have 0":                 spoilAttend(func(p att) { p.Batch.TableStride = 0 }),
		"block table: the number":              spoilAttend(func(p att) { p.Batch.TableStride = math.MaxInt }),
		"sequences: 6 without a block table":   spoilAttend(func(p att) { p.Batch.Table.Set = false; p.Batch.Seqs = 6 }),
		"tokens: have 3 without query offsets": spoilAttend(func(p att) { p.Batch.QueryOffsets.Set = false }),
		"a block table over blocks of 2 slots: the device takes blocks of [4 16]": spoilAttend(func(p att) { p.Cache.BlockSize = 2 }),
		"log-sum-exp offset: have -1":         spoilAttend(func(p att) { p.Out.LSEOffset = -1 }),
		"log-sum-exp: the number of elements": spoilAttend(func(p att) { p.Out.LSEOffset = math.MaxInt }),
		"plan: was not made for a call with":  spoilAttend(func(p att) { p.Plan.Scores = false }),
		"plan: has no work for 3 tokens":      spoilAttend(func(p att) { p.Plan.Items = 0 }),
		"plan workspace: have -1":             spoilAttend(func(p att) { p.Plan.Workspace = -1 }),
		"work: missing":                       spoilAttend(func(p att) { p.Work.Set = false }),
		"workspace: missing":                  spoilAttend(func(p att) { p.Workspace.Set = false }),
		"out: overlaps q in one buffer":       spoilAttend(func(p att) { p.Out.Rows.Buf = p.Q.Buf; p.Out.Rows.Offset = 8 }),
		"out: is memory of the cache":         spoilAttend(func(p att) { p.Out.Rows.Buf = p.Cache.K.Data }),
		"attend: query heads: have 0":         spoilAttend(func(p att) { p.QHeads = 0 }),

		"attend scores: query heads: have 0":                            spoilMass(func(p wei) { p.QHeads = 0 }),
		"attend scores: log-sum-exp offset: have -1":                    spoilMass(func(p wei) { p.LSEOffset = -1 }),
		"attend scores: log-sum-exp: 14 elements, need 15":              spoilMass(func(p wei) { p.LSEOffset = 3 }),
		"attend scores: log-sum-exp: the number":                        spoilMass(func(p wei) { p.LSEOffset = math.MaxInt }),
		"attend scores: log-sum-exp: is memory of the attention scores": spoilMass(func(p wei) { p.LSE = p.Scores }),
		"attend scores: plan: was not made for a call with attention":   spoilMass(func(p wei) { p.Plan.Scores = false }),
		"attend scores: plan: has no work for 3 tokens":                 spoilMass(func(p wei) { p.Plan.Items = 0 }),
		"attend scores: work: missing":                                  spoilMass(func(p wei) { p.Work.Set = false }),
		"attend scores is not supported: queries rounded to int8 with ": spoilMass(func(p wei) { p.Int8Query = true }),

		"parts: have 0":         spoilMerge(func(p mer) { p.Parts = 0 }),
		"dim: have 0":           spoilMerge(func(p mer) { p.Dim = 0 }),
		"out: elements are u32": spoilMerge(func(p mer) { p.Out.Buf.dt = backend.U32 }),
		"in: elements are bf16": spoilMerge(func(p mer) { p.In.dt = backend.BF16 }),
		"in: the number":        spoilMerge(func(p mer) { p.Parts = math.MaxInt }),
		"merge: out: overlaps in": spoilMerge(func(p mer) {
			p.In.dt, p.In.n = backend.F16, 999
			p.Out = backend.Rows[*fake]{Buf: p.In, Offset: 143}
		}),

		"scores: set without cache scores": spoilGather(func(p gat) { p.CacheScores.Set = false }),
		"scores offset: have -1":           spoilGather(func(p gat) { p.ScoresOffset = -1 }),
		"scores: the number of elements":   spoilGather(func(p gat) { p.ScoresOffset = math.MaxInt }),

		"begin: have -1":        spoilGather(func(p gat) { p.Begin = -1 }),
		"length: have -1":       spoilGather(func(p gat) { p.Len = -1 }),
		"length: the number":    spoilGather(func(p gat) { p.Begin = math.MaxInt }),
		"table offset: block 5": spoilGather(func(p gat) { p.Table.Set = false; p.TableOffset = 5 }),
		"length: tokens to 9":   spoilGather(func(p gat) { p.Table.Set = false }),
		"k: elements are bf16":  spoilGather(func(p gat) { p.K.Buf.dt = backend.BF16 }),
		"gather is not supported: k of int8 in its storage type; gather it as f32": spoilGather(func(p gat) {
			p.Cache = view(i8)
			p.K = some(backend.Int8, 2*6*8)
		}),
	} {
		require.ErrorContains(t, err, want)
	}
}

// Output rows may lie between the input rows of a fused buffer.
func TestInterleavedRowsAreApart(t *testing.T) {
	p := attendParams(f16)
	fused := buf(backend.F16, 3*60)
	p.Q = backend.Rows[*fake]{Buf: fused, Offset: 4, Stride: 60}
	for offset, apart := range map[int]bool{36: true, 35: false, 0: false, 4: false, 30: false} {
		p.Out.Rows = backend.Rows[*fake]{Buf: fused, Offset: offset, Stride: 60}
		err := Attend(&caps, &p)
		require.Equal(t, apart, err == nil, "offset %d: %v", offset, err)
	}
	p.Q, p.Out.Rows = dense(backend.F16, 999), backend.Rows[*fake]{Offset: 96}
	p.Out.Rows.Buf = p.Q.Buf
	require.NoError(t, Attend(&caps, &p), "one after the other")
}

// Queries are rotated in place: not over the keys and values of the same call,
// unless the three are parts of one fused projection.
func TestAppendedRowsAreApart(t *testing.T) {
	const q, k, v = 32, 16, 12
	p := appendParams(f16)
	fused := buf(backend.F16, 3*(q+k+v))
	rows := func(offset int) backend.Rows[*fake] {
		return backend.Rows[*fake]{Buf: fused, Offset: offset, Stride: q + k + v}
	}
	p.Q, p.K, p.V = rows(0), rows(q), rows(q+k)
	require.NoError(t, Append(&caps, &p))
	p.K = rows(q - 1)
	require.ErrorContains(t, Append(&caps, &p), "q: overlaps k in one buffer")
	p.K, p.V = rows(q), rows(5)
	require.ErrorContains(t, Append(&caps, &p), "q: overlaps v in one buffer")
}

// Each type has scales of its own number and type, a short last group included.
func TestScalesFitExactly(t *testing.T) {
	const blocks, heads, block, dim = 5, 2, 4, 80
	const slots = blocks * heads * block
	for dt, want := range map[backend.DType]*fake{
		backend.Int8: buf(backend.F32, slots), backend.Int8Asym: buf(backend.U32, slots),
		backend.Int4: buf(backend.U32, slots*3), backend.Int4G64: buf(backend.U32, slots*2),
		backend.Int4Channel: buf(backend.U32, blocks*heads*dim),
		backend.FP8E4M3:     buf(backend.F32, heads), backend.FP8E5M2: buf(backend.F32, heads),
	} {
		plane := backend.Plane[*fake]{Data: buf(dt, slots*dim), Dim: dim, Scales: backend.Some(want)}
		p := backend.CopyBlocksParams[*fake]{Pairs: buf(backend.U32, 0),
			From: backend.CacheView[*fake]{Blocks: blocks, KVHeads: heads, BlockSize: block, K: plane, V: plane}}
		p.From.V.Scales = backend.Some(buf(want.dt, want.n))
		p.To = p.From
		wide := backend.Caps{Formats: []backend.Format{{Act: backend.F32, K: dt, V: dt}}}
		exact(t, dt.String(), func() error { return CopyBlocks(&wide, &p) }, plane.Data, want, p.From.V.Scales.Buf)
	}
}

func TestQuantizedPlanes(t *testing.T) {
	wide := caps
	wide.HeadDims = nil
	for want, spoil := range map[string]func(v *backend.CacheView[*fake]){
		"key scales: missing":                             func(v *backend.CacheView[*fake]) { v.K.Scales.Set = false },
		"value scales: elements are f32, need u32":        func(v *backend.CacheView[*fake]) { v.V.Scales.Buf.dt = backend.F32 },
		"values: 5 dims of int4 do not fill":              func(v *backend.CacheView[*fake]) { v.V.Dim = 5 },
		"values: are not stored with a Hadamard rotation": func(v *backend.CacheView[*fake]) { v.V.Hadamard = true },
		"cache slots: the number of elements":             func(v *backend.CacheView[*fake]) { v.Blocks = math.MaxInt / 4 },
		"value scales: 40 elements, need 80": func(v *backend.CacheView[*fake]) {
			v.V.Dim, v.V.Data = 34, buf(backend.Int4, 40*34)
		},
	} {
		v := view(i8)
		spoil(&v)
		require.ErrorContains(t, CopyBlocks(&wide, &backend.CopyBlocksParams[*fake]{From: v, To: v, Pairs: buf(backend.U32, 0)}), want)
	}
	v := view(f16)
	v.K.Hadamard = true
	require.NoError(t, CopyBlocks(&caps, &backend.CopyBlocksParams[*fake]{From: v, To: v, Pairs: buf(backend.U32, 0)}), "keys of any type may be turned")
}

// Keys whose blocks share scales are written block by block and no other way.
func TestBlocksThatShareScales(t *testing.T) {
	channel := backend.Format{Act: backend.F16, K: backend.Int4Channel, V: backend.Int8}
	wide := backend.Caps{Formats: []backend.Format{f16, channel}}
	kivi := view(i8)
	kivi.K = backend.Plane[*fake]{Data: buf(backend.Int4Channel, 40*8), Dim: 8, Scales: some(backend.U32, 5*2*8)}
	kivi.V.Data, kivi.V.Scales = buf(backend.Int8, 40*6), some(backend.F32, 40)
	a, m, r, g, c, p := appendParams(f16), moveParams(f16), rotateParams(f16), gatherParams(i8), copyParams(f16), convertParams()
	a.Cache, m.Cache, r.Cache, g.Cache, c.From, c.To, p.To = kivi, kivi, kivi, kivi, kivi, kivi, kivi
	for _, err := range []error{Append(&wide, &a), MoveSlots(&wide, &m), Rotate(&wide, &r)} {
		require.ErrorIs(t, err, backend.ErrUnsupported{})
		require.ErrorContains(t, err, "single slots of int4channel, whose blocks share scales; convert whole blocks")
	}
	require.NoError(t, Gather(&wide, &g))
	require.NoError(t, CopyBlocks(&wide, &c))
	require.NoError(t, ConvertBlocks(&wide, &p))
	p.From, p.To = p.To, p.From
	require.NoError(t, ConvertBlocks(&wide, &p))
}

func TestCopiedCaches(t *testing.T) {
	type cop = *backend.CopyBlocksParams[*fake]
	for want, spoil := range map[string]func(p cop){
		"blocks [1, 4, 8+6] and [2, 4, 8+6]":                              func(p cop) { p.From.KVHeads = 1 },
		"blocks [2, 4, 8+6] and [2, 2, 8+6]":                              func(p cop) { p.To.BlockSize = 2 },
		"keys of int8 and values of int4 in one, keys of f16 and":         func(p cop) { p.To = view(f16) },
		"keys of f16 and values of f16 in one, turned keys of int8 and":   func(p cop) { p.From = view(f16) },
		"of int4 in one, turned keys of int8 and":                         func(p cop) { p.From.K.Hadamard = false },
		"turned keys of int8 and values of int4 in one, keys of int8 and": func(p cop) { p.To.K.Hadamard = false },
		"attention scores: of one cache, need that of both":               func(p cop) { p.FromScores.Set = false },
		"attention scores: of one cache, need that of both or none":       func(p cop) { p.ToScores.Set = false },
		"from scores: 40 elements, need 48": func(p cop) {
			p.From.Blocks = 6
			p.From.K.Data.n, p.From.V.Data.n = 999, 999
			p.From.K.Scales.Buf.n, p.From.V.Scales.Buf.n = 99, 99
		},
	} {
		p := copyParams(i8)
		spoil(&p)
		require.ErrorContains(t, CopyBlocks(&caps, &p), want)
	}
	p := copyParams(i8)
	p.To.Blocks = 3
	require.NoError(t, CopyBlocks(&caps, &p))
}

// The mass alone may go between caches of different types.
func TestCopiedMass(t *testing.T) {
	p := copyParams(f16)
	p.To = view(i8)
	require.ErrorContains(t, CopyBlocks(&caps, &p), "convert the blocks")
	p.ScoresOnly = true
	require.NoError(t, CopyBlocks(&caps, &p))
	p.FromScores.Set, p.ToScores.Set = false, false
	require.ErrorContains(t, CopyBlocks(&caps, &p), "attention scores: missing")
	p.FromScores.Set = true
	require.ErrorContains(t, CopyBlocks(&caps, &p), "of one cache")
}

func TestConvertedCaches(t *testing.T) {
	type con = *backend.ConvertBlocksParams[*fake]
	for want, spoil := range map[string]func(p con){
		"pairs: have -1":                            func(p con) { p.N = -1 },
		"pairs: 6 elements, need 8":                 func(p con) { p.N = 4 },
		"pairs: the number":                         func(p con) { p.N = math.MaxInt },
		"blocks: have 0":                            func(p con) { p.To.Blocks = 0 },
		"KV heads: have -1":                         func(p con) { p.From.KVHeads = -1 },
		"blocks [2, 2, 8+6] and [2, 4, 8+6]":        func(p con) { p.From.BlockSize = 2 },
		"blocks [2, 4, 8+6] and [1, 4, 8+6]":        func(p con) { p.To.KVHeads = 1 },
		"not supported: f16 and f16 to f16 and f16": func(p con) { p.To = view(f16) },
		"int8 and int4 to int8 and int4":            func(p con) { p.From = view(i8) },
		"keys of f32 with values of f16":            func(p con) { p.From.K.Data = buf(backend.F32, 999) },
		"heads of 6 key and 6 value dims":           func(p con) { p.From.K.Dim = 6 },
		"attention scores: of one cache":            func(p con) { p.FromScores.Set = false },
		"attention scores: of both caches in one":   func(p con) { p.ToScores = p.FromScores },
	} {
		p := convertParams()
		spoil(&p)
		require.ErrorContains(t, ConvertBlocks(&caps, &p), want)
	}
	other := caps // the pair of quantized types is listed, but not with this activation type
	other.Formats = append([]backend.Format{{Act: backend.F32, K: backend.F32, V: backend.F32}}, caps.Formats...)
	p := convertParams()
	p.From.K.Data, p.From.V.Data = buf(backend.F32, 40*8), buf(backend.F32, 40*6)
	require.ErrorContains(t, ConvertBlocks(&other, &p), "activations of f32 with keys of int8 and values of int4")
}

func TestInt8Query(t *testing.T) {
	p := attendParams(i8)
	p.Int8Query = true
	require.ErrorContains(t, Attend(&caps, &p), "not supported: queries rounded to int8 with keys of int8")
	able := caps
	able.Int8Query = []backend.DType{backend.Int8}
	require.NoError(t, Attend(&able, &p))
	p = attendParams(f16)
	p.Int8Query = true
	require.ErrorContains(t, Attend(&able, &p), "queries rounded to int8 with keys of f16")
}

func TestPlan(t *testing.T) {
	good := backend.AttendShape{QHeads: 4, KVHeads: 2, KDim: 8, VDim: 6, BlockSize: 4, Format: f16, ContextLens: []uint32{1}, QueryLens: []uint32{1}}
	require.NoError(t, Plan(caps, good))
	for want, spoil := range map[string]func(s *backend.AttendShape){
		"KV heads: have 0":          func(s *backend.AttendShape) { s.KVHeads = 0 },
		"query heads: have 5":       func(s *backend.AttendShape) { s.QHeads = 5 },
		"key dim: have -1":          func(s *backend.AttendShape) { s.KDim = -1 },
		"heads of 8 key and 8":      func(s *backend.AttendShape) { s.VDim = 8 },
		"block size: have 0":        func(s *backend.AttendShape) { s.BlockSize = 0 },
		"activations: are invalid":  func(s *backend.AttendShape) { s.Format.Act = backend.Invalid },
		"query lengths: 0 sequence": func(s *backend.AttendShape) { s.QueryLens = nil },
		"without a causal mask":     func(s *backend.AttendShape) { s.NonCausal, s.SinkTokens = true, 1 },
		"recent tokens: have 0":     func(s *backend.AttendShape) { s.Part = backend.ResidualKeys },
		"recent tokens: have -1":    func(s *backend.AttendShape) { s.Residual = -1 },
		"part: have 9":              func(s *backend.AttendShape) { s.Part, s.Residual = 9, 4 },
		"keys without a causal":     func(s *backend.AttendShape) { s.NonCausal, s.Part, s.Residual = true, backend.ResidualKeys, 4 },
	} {
		s := good
		spoil(&s)
		require.ErrorContains(t, Plan(caps, s), want)
	}
}

func last(_, _, _ int, err error) error { return err }

func TestMemory(t *testing.T) {
	size, err := Size("alloc", backend.Int4, 7)
	require.NoError(t, err)
	require.Equal(t, 4, size)
	for _, n := range []int{-1, math.MaxInt} {
		_, err := Size("alloc", backend.F32, n)
		require.ErrorIs(t, err, backend.ErrArgument{})
	}
	b := buf(backend.U32, 10)
	lo, hi, err := Span("fill", "destination", b, 3, 7)
	require.NoError(t, err)
	require.Equal(t, [2]int{12, 40}, [2]int{lo, hi})
	for _, c := range [][2]int{{3, 8}, {11, 0}, {-1, 1}, {1, -1}, {math.MaxInt, math.MaxInt}} {
		_, _, err := Span("fill", "destination", b, c[0], c[1])
		require.ErrorIs(t, err, backend.ErrArgument{})
	}
	other := buf(backend.U32, 8)
	to, toEnd, from, err := Copied(b, 2, other, 1, 7)
	require.NoError(t, err)
	require.Equal(t, [3]int{8, 36, 4}, [3]int{to, toEnd, from})
	for _, err := range []error{last(Copied(b, 0, other, 2, 7)), last(Copied(b, 4, other, 0, 7)), last(Copied(b, 0, buf(backend.I32, 8), 0, 1))} {
		require.ErrorIs(t, err, backend.ErrArgument{})
	}
	at, err := Transfer("upload", "destination", b, 9, 4)
	require.NoError(t, err)
	require.Equal(t, 36, at)
	for _, c := range [][2]int{{9, 8}, {0, 5}, {-1, 4}, {0, 44}} {
		_, err := Transfer("upload", "destination", b, c[0], c[1])
		require.ErrorIs(t, err, backend.ErrArgument{})
	}
}

func TestChecksThatPassDoNotAllocate(t *testing.T) {
	a, p, w, m, g, r := appendParams(i8), attendParams(i8), attendMassParams(i8), mergeParams(), gatherParams(i8), rotateParams(i8)
	c, v, b, z := copyParams(i8), moveParams(i8), convertParams(), clearParams()
	var err error
	require.Zero(t, testing.AllocsPerRun(10, func() {
		for _, e := range [...]error{Append(&caps, &a), Attend(&caps, &p), AttendScores(&caps, &w), Merge(&caps, &m), Gather(&caps, &g), Rotate(&caps, &r),
			CopyBlocks(&caps, &c), MoveSlots(&caps, &v), ConvertBlocks(&caps, &b), ClearScores(&caps, &z)} {
			if e != nil {
				err = e
			}
		}
	}))
	require.NoError(t, err)
}
