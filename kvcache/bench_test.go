package kvcache

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The host's share of a decode step, which does not depend on the model's size:
// Reset, Add, Plan and Commit, no kernels.
func BenchmarkStep(b *testing.B) {
	for _, seqs := range []int{1, 8, 64} {
		for _, context := range []int{512, 8192} {
			b.Run(fmt.Sprintf("seqs=%d/context=%d", seqs, context), func(b *testing.B) {
				cfg := Config{
					Model:  Model{Layers: 1, KVHeads: 1, HeadDim: testDims()[0], VHeadDim: testDims()[1]},
					Memory: Memory{Layout: Paged, Capacity: context + 16, MaxSeqs: seqs},
				}
				r := deviceRig(b, cfg)
				all := make([]*Sequence[buffer], seqs)
				prompt := make([]uint32, context)
				for i := range all {
					all[i] = r.open()
					require.NoError(b, r.plan(r.s, feed[buffer]{all[i], prompt}))
					require.NoError(b, r.commit())
				}
				token := []uint32{1}
				b.ReportAllocs()
				for b.Loop() {
					err := r.step.Reset()
					for _, s := range all {
						err = cmp.Or(err, r.step.Add(s, token))
					}
					if err = cmp.Or(err, cmp.Or(r.step.Plan(r.s), r.commit())); err != nil {
						b.Fatal(err)
					}
					for _, s := range all {
						if err := s.Truncate(context); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*seqs), "ns/seq")
			})
		}
	}
}

// A fork and its first write, with the copy of the half-filled block, into memory that has been written to.
func BenchmarkForkAndWrite(b *testing.B) {
	r := deviceRig(b, Config{Model: Model{Layers: 32, KVHeads: 8, HeadDim: 128}, Memory: Memory{Layout: Paged, Capacity: 512, MaxSeqs: 2}})
	root := r.open()
	require.NoError(b, r.plan(r.s, feed[buffer]{root, make([]uint32, 500)}))
	require.NoError(b, r.commit())
	write := func() {
		child, err := root.Fork()
		if err == nil {
			err = r.plan(r.s, feed[buffer]{child, []uint32{1}})
		}
		if err = cmp.Or(err, r.commit()); err != nil {
			b.Fatal(err)
		}
		if err := child.Release(); err != nil {
			b.Fatal(err)
		}
	}
	write() // the system gives memory at the first write
	b.ReportAllocs()
	for b.Loop() {
		write()
	}
}
