package cpubench

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
)

// views are buffers over pieces of arenas, which belong to a device until they are freed.
type views struct {
	r    *rig
	d    *device
	bufs []*cpu.Buffer
}

// free ends all views.
func (v *views) free() {
	for _, b := range v.bufs {
		v.r.must(v.d.be.Free(b))
	}
	v.bufs = v.bufs[:0]
}

// of is the first n elements of a piece.
func (v *views) of(piece []byte, dt backend.DType, n int) *cpu.Buffer {
	b, err := v.d.be.Import(backend.Handle{Host: piece}, dt, n)
	v.r.must(err)
	v.bufs = append(v.bufs, b)
	return b
}

// layer is the next piece of an arena as a cache.
func (v *views) layer(a *arena, l layer) backend.CacheView[*cpu.Buffer] {
	piece := a.take(l.place())
	plane := func() (p backend.Plane[*cpu.Buffer]) {
		p = backend.Plane[*cpu.Buffer]{Data: v.of(piece, l.dt, l.slots*width), Dim: dim}
		piece = piece[pages(l.elements()):]
		if dt, n, _ := l.dt.Scales(l.blocks(), kvHeads, l.block, dim); n > 0 {
			p.Scales = backend.Some(v.of(piece, dt, n))
			piece = piece[pages(l.scales()):]
		}
		return p
	}
	return backend.CacheView[*cpu.Buffer]{K: plane(), V: plane(), Blocks: l.blocks(), KVHeads: kvHeads, BlockSize: l.block}
}

// aimed is an operation whose calls differ in the memory that they go through: with makes the
// operands of a call from the next pieces.
func aimed[P any](r *rig, d *device, do func(backend.Stream, P) error, with func(v *views) P) operation {
	v, calls := views{r: r, d: d}, []P(nil)
	return operation{
		aim: func(n int) {
			v.free()
			calls = calls[:0]
			for range n {
				calls = append(calls, with(&v))
			}
		},
		call: func(turn int) error { return do(d.stream, calls[turn]) },
	}
}
