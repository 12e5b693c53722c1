package kvcache

import (
	"context"
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
