package kvcache

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// spacious is a configuration of long sequences in a small pool.
func spacious(layout Layout, capacity int) Config {
	c := Config{
		Model:   Model{Layers: 1, KVHeads: 1, HeadDim: 1},
		Storage: Storage{K: backend.F16},
		Memory:  Memory{Layout: layout, Capacity: capacity, MaxSeqs: 1},
	}
	if layout == Paged {
		c.Memory.Blocks = 16
	}
	return c
}

// allocated is the bytes that f takes from Go's heap.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// What a sequence takes on the host follows the tokens that it has, and not those that it
// may have.
func TestHostMemoryFollowsTokens(t *testing.T) {
	for name, cfg := range map[string]func(capacity int) Config{
		"contiguous": func(n int) Config { return spacious(Contiguous, min(n, 1<<24)) },
		"paged":      func(n int) Config { return spacious(Paged, n) },
		"paged, no reuse": func(n int) Config {
			c := spacious(Paged, n)
			c.Memory.Prefix = prefix.Off
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			taken := func(capacity int) uint64 {
				r := newRig(t, openCPU(t), cfg(capacity))
				defer r.close()
				return allocated(func() {
					for range 3 {
						seq := r.open()
						require.NoError(t, r.feed2(seq, []uint32{1, 2, 3}))
						require.NoError(t, seq.Retain(r.s, [][]int{{0, 2}}, RetainOptions{}))
						_, err := seq.Layers(r.s)
						require.NoError(t, err)
						require.NoError(t, seq.Release())
					}
				})
			}
			small, large := taken(4096), taken(1<<28)
			require.Less(t, large, uint64(1<<20))
			require.Less(t, large, 2*small)
		})
	}
}

// Lists grow in steps of a part of what they hold, so that few steps make them larger.
func TestListsGrowSeldom(t *testing.T) {
	cfg := spacious(Paged, 1<<20)
	cfg.Memory.Blocks = 4096
	r := newRig(t, openCPU(t), cfg)
	seq := r.open()
	grown, had := 0, [2]int{}
	for range 3000 {
		require.NoError(t, r.step.Reset())
		require.NoError(t, r.step.Add(seq, []uint32{7}))
		require.NoError(t, cmp.Or(r.step.Plan(r.s), r.commit()))
		if has := [2]int{cap(seq.text.Tokens()), cap(seq.runs.In[0].Kept.Blocks)}; has != had {
			grown, had = grown+1, has
		}
	}
	require.Less(t, grown, 40)
	require.LessOrEqual(t, cap(seq.text.Tokens()), 2*seq.Len())
	require.LessOrEqual(t, cap(seq.runs.In[0].Kept.Blocks), 2*len(seq.runs.In[0].Kept.Blocks)+1)
	require.True(t, slices.Equal(slices.Repeat([]uint32{7}, 3000), seq.text.Tokens()))
	require.NoError(t, cmp.Or(r.step.Reset(), seq.Release()))
	r.close()
}

// Open without the lists of an earlier sequence.
func BenchmarkOpenByCapacity(b *testing.B) {
	for _, capacity := range []int{4096, 1 << 17, 1 << 20} {
		b.Run(fmt.Sprint(capacity), func(b *testing.B) {
			cfg := spacious(Paged, capacity)
			cfg.Memory.Blocks = 1 << 16
			r := newRig(b, openCPU(b), cfg)
			b.ReportAllocs()
			for b.Loop() {
				seq := r.open()
				if err := seq.Release(); err != nil {
					b.Fatal(err)
				}
				r.pool.spare = nil
			}
			r.close()
		})
	}
}
