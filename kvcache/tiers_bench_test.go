package kvcache

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/stretchr/testify/require"
)

// Blocks of 2 MiB, of a model of 32 layers with 8 heads of 128, from a tier of memory into the pool, beside copies of as many bytes in the
// same run: the host memory is read once to sum it and twice to copy it.
func BenchmarkTiersBringBlocks(b *testing.B) {
	m, err := memory.Open(memory.Options{Bytes: 1 << 30})
	require.NoError(b, err)
	cfg := Config{Model: Model{Layers: 32, KVHeads: 8, HeadDim: 128}, Storage: Storage{K: backend.F16},
		Memory: Memory{Capacity: 1024, MaxSeqs: 1, Blocks: 64}, Tiers: config.Tiers{More: []tier.Tier{m}}}
	r := deviceRig(b, cfg)
	prompt := sequence(1, 1009)
	seq, _, err := r.pool.Open(prompt, OpenOptions{})
	require.NoError(b, err)
	require.NoError(b, r.plan(r.s, feed[buffer]{seq, prompt}))
	require.NoError(b, r.commit())
	require.NoError(b, seq.Release())
	r.flush()
	bytes := 63 * r.pool.below.Offload.BlockBytes()
	from, to := make([]byte, bytes), make([]byte, bytes)
	var copied time.Duration
	for b.Loop() {
		b.StopTimer()
		r.pool.mu.Lock()
		require.NoError(b, r.pool.tree.Clear(true))
		r.pool.mu.Unlock()
		begin := time.Now()
		copy(to, from)
		copied += time.Since(begin)
		b.StartTimer()
		seq, match, err := r.pool.Open(prompt, OpenOptions{})
		require.NoError(b, err)
		require.Equal(b, 1008, match.Loading)
		match, err = seq.Wait(context.Background())
		require.NoError(b, err)
		require.Equal(b, 1008, match.Cached)
		b.StopTimer()
		require.NoError(b, seq.Release())
		r.flush()
		b.StartTimer()
	}
	b.SetBytes(bytes)
	b.ReportMetric(copied.Seconds()/b.Elapsed().Seconds(), "of-copy")
	require.NoError(b, m.Close())
}

// Prompts of 8 blocks, one after another, that cost nothing to compute: how many of their blocks are below in the end, if the pool has room for
// one or for four of them, and the runner goes on at once, after a pause, or when all blocks are below.
func BenchmarkTiersKeepUp(b *testing.B) {
	for name, model := range map[string]Model{"16KiB": {Layers: 2, KVHeads: 1, HeadDim: 64}, "4MiB": {Layers: 32, KVHeads: 8, HeadDim: 128}} {
		for _, prompts := range []int{1, 4} {
			for _, pause := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, -1} {
				then := pause.String()
				if pause < 0 {
					then = "flush"
				}
				b.Run(fmt.Sprintf("%s/room=%d/%s", name, prompts, then), func(b *testing.B) {
					m, err := memory.Open(memory.Options{Bytes: 1 << 30})
					require.NoError(b, err)
					r := deviceRig(b, Config{Model: model, Storage: Storage{K: backend.F32},
						Memory: Memory{Capacity: 160, MaxSeqs: 1, BlockSize: 16, Blocks: 8*prompts + 2}, Tiers: config.Tiers{More: []tier.Tier{m}}})
					n := 0
					for b.Loop() {
						prompt := sequence(1000*n, 129)
						seq, _, err := r.pool.Open(prompt, OpenOptions{NoReuse: true})
						require.NoError(b, err)
						require.NoError(b, r.plan(r.s, feed[buffer]{seq, prompt}))
						require.NoError(b, r.commit())
						require.NoError(b, seq.Release())
						if n++; pause < 0 {
							require.NoError(b, r.pool.Flush(context.Background()))
						} else if pause > 0 {
							time.Sleep(pause)
						}
					}
					r.flush()
					st, err := r.pool.Stats()
					require.NoError(b, err)
					require.Equal(b, int64(8*n), st.Moves.Stored+st.Moves.Missed)
					b.ReportMetric(100*float64(st.Moves.Stored)/float64(8*n), "%kept")
					require.NoError(b, m.Close())
				})
			}
		}
	}
}
