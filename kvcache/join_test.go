package kvcache

import (
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// joinRig is a pool with room for prompts that arrive together.
func joinRig(t testT) *rig[buffer] {
	cfg := small(Paged)
	cfg.Memory.Capacity, cfg.Memory.MaxSeqs, cfg.Memory.Prefix = 80, 8, prefix.LRU
	return deviceRig(t, cfg)
}

// together are n prompts of 67 tokens that have the first 65 in common.
func together(n int) (all [][]uint32) {
	for i := range n {
		all = append(all, append(slices.Clone(sequence(1, 65)), 900, uint32(1000+i)))
	}
	for i := range all {
		all[i][65] = uint32(2000 + i)
	}
	return all
}

// join has a reader whose sequence was just opened join the step, and notes what it has then.
func (r *rig[B]) join(x *reader[B]) Match {
	r.t.Helper()
	m, err := r.step.Join(x.seq)
	require.NoError(r.t, err)
	require.Equal(r.t, m.Cached, x.seq.Len())
	require.Equal(r.t, m.Cached, x.seq.NextPosition())
	all := append(slices.Clip(x.tokens), x.rest...)
	require.Equal(r.t, len(all), m.Cached+m.Uncached)
	x.tokens, x.rest = all[:m.Cached:m.Cached], all[m.Cached:]
	x.want = x.plain(m.Cached)
	return m
}

// write computes a planned step of the rest of the readers' prompts, and commits it.
func (r *rig[B]) finish(xs ...*reader[B]) {
	r.t.Helper()
	require.NoError(r.t, r.step.Plan(r.s))
	require.NoError(r.t, r.pool.Check())
	var writes []feed[B]
	var parts []part[B]
	for _, x := range xs {
		writes = append(writes, feed[B]{x.seq, x.ids(x.rest)})
		parts = append(parts, part[B]{x, x.rest})
	}
	r.write(r.s, writes...)
	require.NoError(r.t, r.committed(parts...))
	require.NoError(r.t, r.pool.Check())
}

// Six prompts of 67 tokens, 65 of them in common, are 82 tokens to compute in one step.
func TestPromptsOfAStepShare(t *testing.T) {
	r := joinRig(t)
	var xs []*reader[buffer]
	computed := 0
	for i, prompt := range together(6) {
		x, m := r.read(prompt, OpenOptions{})
		if i > 0 {
			require.Equal(t, 64, m.Pending, "that of the first")
		}
		m = r.join(x)
		require.Zero(t, m.Pending)
		require.Equal(t, []int{0, 64}[min(i, 1)], m.Cached)
		require.NoError(t, r.step.Add(x.seq, x.rest))
		require.NoError(t, r.pool.Check())
		computed += len(x.rest)
		xs = append(xs, x)
	}
	require.Equal(t, 82, computed)
	r.finish(xs...)
	require.Equal(t, 16+6, r.stats().Held)
	for _, x := range xs {
		r.check(r.s, x)
	}
	require.NoError(t, xs[0].seq.Release()) // the others own what it wrote
	for i, x := range xs[1:] {
		require.NoError(t, r.run(r.s, part[buffer]{x, []uint32{uint32(5000 + i)}}))
		r.check(r.s, x)
	}
	for _, prompt := range together(6) {
		require.Equal(t, 66, r.matched(prompt, OpenOptions{}))
	}
	r.drop(xs[1:]...)
	require.NoError(t, r.step.Close())
	r.close()
}
