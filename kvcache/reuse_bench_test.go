package kvcache

import (
	"cmp"
	"errors"
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// A decode step that fills blocks and publishes them allocates nothing but what the
// tree's tables grow by, which is less than one allocation a step.
func TestWarmPublicationAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	cfg := small(Paged)
	cfg.Memory.Capacity, cfg.Memory.Blocks = 4096, 1100
	r := deviceRig(t, cfg)
	a, b := r.open(), r.open()
	step := func() {
		err := r.step.Reset()
		token := [...]uint32{7}
		err = cmp.Or(err, cmp.Or(r.step.Add(a, token[:]), r.step.Add(b, token[:]))) // equal: b's blocks are swapped
		if err = cmp.Or(err, cmp.Or(r.step.Plan(r.s), r.commit())); err != nil {
			t.Fatal(err)
		}
	}
	for range 2000 {
		step()
	}
	require.Zero(t, testing.AllocsPerRun(1000, step))
	require.Positive(t, r.stats().Prefix.Blocks)
	require.Equal(t, a.Blocks(nil)[:700], b.Blocks(nil)[:700])
	require.NoError(t, errors.Join(r.step.Reset(), a.Release(), b.Release()))
	r.close()
}

// Open and Release of a prompt that is cached allocate the sequence, and not more for a
// longer prompt: its lists are those of an earlier one.
func TestOpenAllocatesLittle(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	cfg := small(Paged)
	cfg.Memory.Capacity, cfg.Memory.Blocks = 4096, 1100
	r := deviceRig(t, cfg)
	prompt := sequence(1, 4000)
	seq := r.open()
	require.NoError(t, r.plan(r.s, feed[buffer]{seq, prompt}))
	require.NoError(t, errors.Join(r.commit(), r.step.Reset(), seq.Release()))
	open := func(n int) float64 {
		return testing.AllocsPerRun(100, func() {
			seq, m, err := r.pool.Open(prompt[:n], OpenOptions{})
			if err != nil || m.Cached != n-1 {
				t.Fatal(m, err)
			}
			if err := seq.Release(); err != nil {
				t.Fatal(err)
			}
		})
	}
	require.Equal(t, [2]float64{1, 1}, [2]float64{open(17), open(4000)})
	require.LessOrEqual(t, len(r.pool.spare), cfg.Memory.MaxSeqs)
	r.close()
}

// cachedPool is a pool with a prompt of 8,192 tokens in its cache.
func cachedPool(b *testing.B) (*rig[buffer], []uint32) {
	cfg := Config{
		Model:  Model{Layers: 1, KVHeads: 1, HeadDim: testDims()[0], VHeadDim: testDims()[1]},
		Memory: Memory{Layout: Paged, Capacity: 16384, MaxSeqs: 4},
	}
	r := deviceRig(b, cfg)
	prompt := sequence(1, 8193)
	seq := r.open()
	require.NoError(b, r.plan(r.s, feed[buffer]{seq, prompt}))
	require.NoError(b, errors.Join(r.commit(), r.step.Reset(), seq.Release()))
	return r, prompt
}

// Open and Release of 8,192 cached tokens, by one goroutine and by one for each core.
func BenchmarkOpenCached(b *testing.B) {
	r, prompt := cachedPool(b)
	use := func(b *testing.B) {
		seq, m, err := r.pool.Open(prompt, OpenOptions{})
		if err = cmp.Or(err, seq.Release()); err != nil || m.Cached != 8192 {
			b.Error(m, err)
		}
	}
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			use(b)
		}
	})
	b.Run("contended", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				use(b)
			}
		})
	})
	b.Run("match", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if m, err := r.pool.Match(prompt, OpenOptions{}); err != nil || m.Cached != 8192 {
				b.Fatal(m, err)
			}
		}
	})
}

// The host's share of a decode step of eight sequences, every sixteenth of which fills
// their blocks: with publication and without.
func BenchmarkPublication(b *testing.B) {
	for _, policy := range []prefix.Policy{prefix.Adaptive, prefix.Off} {
		b.Run(policy.String(), func(b *testing.B) {
			cfg := Config{
				Model:  Model{Layers: 1, KVHeads: 1, HeadDim: testDims()[0], VHeadDim: testDims()[1]},
				Memory: Memory{Layout: Paged, Capacity: 4096, MaxSeqs: 16, Prefix: policy},
			}
			r := deviceRig(b, cfg)
			var seqs []*Sequence[buffer]
			token := uint32(0)
			b.ReportAllocs()
			for b.Loop() {
				err := r.step.Reset()
				if len(seqs) == 0 || seqs[0].Len() == 4096 {
					for _, s := range seqs {
						err = cmp.Or(err, s.Release())
					}
					seqs = seqs[:0]
					for range 8 {
						seqs = append(seqs, r.open())
					}
				}
				for _, s := range seqs {
					token++
					err = cmp.Or(err, r.step.Add(s, []uint32{token}))
				}
				if err = cmp.Or(err, cmp.Or(r.step.Plan(r.s), r.commit())); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
