package backendtest

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// gatherSpec is a range of one sequence's tokens to be made dense.
type gatherSpec struct {
	name        string
	block       int
	begin, n    int
	table       bool
	widen       bool // to f32 instead of the storage type
	noK, noV    bool
	tableOffset int
	hadamard    bool // keys are stored turned, and turned back on their way
	latent      bool
}

func gatherChecks[B backend.Buffer]() []check[B] {
	var out []check[B]
	for _, dt := range []backend.DType{backend.F32, backend.F16, backend.BF16} {
		for _, s := range []gatherSpec{
			{name: "a whole sequence", block: 8, n: 45, table: true},
			{name: "one block", block: 16, begin: 16, n: 16, table: true},
			{name: "from inside a block", block: 16, begin: 13, n: 40, table: true, tableOffset: 5},
			{name: "one token", block: 8, begin: 31, n: 1, table: true},
			{name: "in blocks of 3", block: 3, begin: 7, n: 40, table: true},
			{name: "in blocks of 24", block: 24, begin: 13, n: 40, table: true, tableOffset: 5},
			{name: "nothing", block: 8, begin: 8, n: 0, table: true},
			{name: "as f32", block: 8, begin: 3, n: 30, table: true, widen: true},
			{name: "keys alone", block: 8, n: 20, table: true, noV: true},
			{name: "values alone", block: 8, n: 20, table: true, noK: true, widen: true},
			{name: "a contiguous sequence", block: 61, begin: 2, n: 50, tableOffset: 2},
			{name: "one block by its number", block: 32, n: 32, tableOffset: 1},
			{name: "turned keys as f32", block: 8, begin: 3, n: 30, table: true, widen: true, hadamard: true},
			{name: "turned keys of a contiguous sequence", block: 61, begin: 2, n: 50, tableOffset: 2, widen: true, hadamard: true},
			{name: "turned keys as they are stored", block: 16, begin: 13, n: 40, table: true, hadamard: true},
		} {
			if s.hadamard && !s.widen && dt == backend.F32 {
				continue // which is as f32
			}
			out = append(out, check[B]{fmt.Sprintf("%s of %s", s.name, dt), func(r *rig[B]) { checkGather(r, s, dt) }})
		}
	}
	for _, dt := range quantizedTypes {
		for _, s := range []gatherSpec{
			{name: "a whole sequence", block: 8, n: 45, table: true},
			{name: "from inside a block", block: 16, begin: 13, n: 40, table: true, tableOffset: 5},
			{name: "keys alone", block: 8, n: 20, table: true, noV: true},
			{name: "values alone", block: 8, n: 20, table: true, noK: true},
			{name: "one block by its number", block: 32, n: 32, tableOffset: 1},
			{name: "turned keys", block: 8, begin: 3, n: 30, table: true, hadamard: true},
		} {
			s.widen = true
			out = append(out, check[B]{fmt.Sprintf("%s of %s", s.name, dt), func(r *rig[B]) { checkGather(r, s, dt) }})
		}
		out = append(out, check[B]{"storage type of " + dt.String(), func(r *rig[B]) { checkGatherStored(r, dt) }})
	}
	return out
}

// checkGather reads a sequence that lies in shuffled blocks.
func checkGather[B backend.Buffer](r *rig[B], s gatherSpec, dt backend.DType) {
	f := r.storingOf(s.latent, dt)
	kDim, vDim := r.dimsOf(s.latent, 192, 128)
	if s.table {
		s.block = r.blockSize(s.block)
	}
	r.needsOf(s.latent, f, kDim, vDim, s.block, s.table)
	c := r.cacheOf(s.latent, geometry{3, s.block, max(8, 64/s.block), kDim, vDim, f})
	c.k.hadamard = s.hadamard
	order := r.rng.Perm(c.blocks)
	if !s.table {
		order = []int{s.tableOffset}
	}
	p := backend.GatherParams[B]{Cache: c.view(), TableOffset: s.tableOffset, Begin: s.begin, Len: s.n}
	if s.table {
		used := (s.begin + s.n + s.block - 1) / s.block
		table := r.region("block table", backend.U32, 0, s.tableOffset+used)
		for i, id := range order[:used] {
			table.set(s.tableOffset+i, backend.BytesOf([]uint32{uint32(id)}))
		}
		p.Table = backend.Some(table.buf)
	}
	to := dt
	if s.widen {
		to = backend.F32
	}
	k := r.region("gathered K", to, 0, c.kvHeads*s.n*c.kDim)
	v := r.region("gathered V", to, 0, c.kvHeads*s.n*c.vDim)
	p.K, p.V = backend.Opt[B]{Buf: k.buf, Set: !s.noK}, backend.Opt[B]{Buf: v.buf, Set: !s.noV}
	slot := func(token int) int { return order[token/s.block]*s.block + token%s.block }
	for i := range s.n {
		c.write(r, slot(s.begin+i))
	}
	r.push()
	require.NoError(r, r.be.Gather(r.s, p))
	back := s.hadamard && to == backend.F32
	if back {
		turnBack(r, c, k, func(i int) int { return slot(s.begin + i) }, s.n)
	}
	for head := range c.kvHeads {
		for i := range s.n {
			row := head*s.n + i
			if !s.noK && !back {
				k.set(row*c.kDim, encode(to, c.k.values(c.k.now(), slot(s.begin+i), head)))
			}
			if !s.noV {
				v.set(row*c.vDim, encode(to, c.v.values(c.v.now(), slot(s.begin+i), head)))
			}
		}
	}
	r.verify()
}

// turnBack compares n gathered keys with the stored ones, turned back, and takes them over.
func turnBack[B backend.Buffer](r *rig[B], c *cache[B], k *region[B], slot func(i int) int, n int) {
	got := r.fetch(k)
	for head := range c.kvHeads {
		for i := range n {
			at := (head*n + i) * c.kDim
			want := hadamard(widen(c.k.values(c.k.now(), slot(i), head)))
			require.NoError(r, compareRows(fmt.Sprintf("key %d, head %d", i, head), widen(decode(k.dt, k.part(got, at, c.kDim))),
				want, c.kDim, rounding))
			k.set(at, k.part(got, at, c.kDim))
		}
	}
}

// checkGatherStored asks for codes without their scales.
func checkGatherStored[B backend.Buffer](r *rig[B], dt backend.DType) {
	kDim, vDim := r.dims(64, 64)
	c := r.cache(geometry{2, r.blockSize(16), 4, kDim, vDim, r.storing(dt)}).fill(r)
	codes := backend.Some(r.region("gathered K", dt, 0, c.kvHeads*c.block*kDim).buf)
	p := backend.GatherParams[B]{Cache: c.view(), TableOffset: 1, Len: c.block, K: codes}
	r.push()
	require.ErrorIs(r, r.be.Gather(r.s, p), backend.ErrUnsupported{})
	r.verify()
}
