package cpu

import (
	"fmt"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Bytes per second are those of the keys and values that the step reads, with their
// scales. Int8Query is the mode of that name.
func BenchmarkAttend(b *testing.B) {
	for _, c := range []scene{
		{k: backend.F32}, {k: backend.F16}, {k: backend.BF16}, {k: backend.Int8}, {k: backend.Int8Asym}, {k: backend.FP8E4M3},
		{k: backend.Int4}, {k: backend.Int4Channel, v: backend.Int4}, {k: backend.MXFP4},
		{k: backend.Int8, int8Query: true}, {k: backend.Int4, int8Query: true}, {k: backend.MXFP4, int8Query: true},
	} {
		for _, queries := range []int{1, 64} {
			for _, block := range []int{0, 16, 32} {
				c.ctx, c.queries, c.block = []int{2048}, []int{queries}, block
				c.qHeads, c.kvHeads, c.kDim, c.vDim, c.act = 32, 8, 128, 128, backend.F32
				if c.v == backend.Invalid {
					c.v = c.k
				}
				name := c.k.String()
				if c.v != c.k {
					name += "+" + c.v.String()
				}
				if c.int8Query {
					name += "+int8query"
				}
				b.Run(fmt.Sprintf("%s/queries=%d/block=%d", name, queries, block), func(b *testing.B) {
					st := c.set(b, 1)
					b.SetBytes(c.bytes())
					b.ReportAllocs()
					for b.Loop() {
						if err := st.be.Attend(st.s, st.params); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// bytes is the storage of the first sequence's keys and values.
func (c scene) bytes() (n int64) {
	block := c.block
	if block == 0 {
		block = c.ctx[0]
	}
	for _, p := range []struct {
		dt  backend.DType
		dim int
	}{{c.k, c.kDim}, {c.v, c.vDim}} {
		data, _ := p.dt.Size(c.ctx[0] * c.kvHeads * p.dim)
		words, scales, _ := p.dt.Scales(c.ctx[0]/block, c.kvHeads, block, p.dim)
		n += data + int64(scales*words.Bits()/8)
	}
	return n
}
