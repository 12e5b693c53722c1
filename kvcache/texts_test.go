package kvcache

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/stretchr/testify/require"
)

// Errors of this package say so, and which call they are of and what is wrong with which of its
// operands.
func TestTexts(t *testing.T) {
	cfg := small(Paged)
	cfg.HeadDim, cfg.VHeadDim, cfg.Blocks, cfg.RoPE = 4, 4, 2, nil
	r := newRig(t, openCPU(t), cfg)
	other, err := cpu.Open(cpu.Options{Threads: 1})
	require.NoError(t, err)
	alien, err := other.NewStream()
	require.NoError(t, err)
	seq, full := r.open(), r.open()
	require.NoError(t, r.feed2(full, sequence(1, 3)))
	planned := func(ask func() error) error {
		require.NoError(t, r.plan(r.s, feed[*cpu.Buffer]{seq, []uint32{1}}))
		defer func() { require.NoError(t, r.step.Reset()) }()
		return ask()
	}
	nothing := func() error { return nil }
	for _, c := range []struct {
		want string
		ask  func() error
	}{
		{"kvcache: add: the sequence is nil; open one with Pool.Open", func() error { return r.step.Add(nil, []uint32{1}) }},
		{"kvcache: add: no tokens: a sequence without any is left out of the step", func() error { return r.step.Add(seq, nil) }},
		{"kvcache: plan: the stream is nil; make one with NewStream of the backend", func() error {
			return r.plan(nil, feed[*cpu.Buffer]{seq, []uint32{1}})
		}},
		{"kvcache: stream belongs to another device", func() error { return r.plan(alien, feed[*cpu.Buffer]{full, []uint32{1}}) }},
		{"kvcache: stream belongs to another device", func() error { return full.Fence(alien) }},
		{"kvcache: plan: block: out of blocks: need 2, 1 available", func() error { return r.plan(r.s, feed[*cpu.Buffer]{seq, sequence(1, 8)}) }},
		{"kvcache: reserve: block: out of blocks: need 10, 1 available", func() error { return r.pool.Reserve(Reservation[*cpu.Buffer]{seq, 40}) }},
		{"kvcache: reserve: the sequence is nil; open one with Pool.Open", func() error { return r.pool.Reserve(Reservation[*cpu.Buffer]{}) }},
		{"kvcache: truncate: 4 tokens: the sequence has 3", func() error { return full.Truncate(4) }},
		{"kvcache: shift is not supported: Config.RoPE is not set, so keys cannot move to other positions", func() error { return full.Shift(r.s, 0, 1) }},
		{"kvcache: append: layer 2: the pool has 2", func() error { return planned(func() error { return r.step.Append(2, nil, nil) }) }},
		{"kvcache: attend: layer 0 has no keys and values of the step's tokens; Append to it first", func() error {
			return planned(func() error {
				q, k, v, out := r.operands(1)
				defer r.free(q, k, v, out)
				return r.step.Attend(0, q, out)
			})
		}},
		{"backend: capture is not supported: the device has no graphs; call the operations in each step", func() error {
			return planned(func() error { return r.step.Capture(nothing) })
		}},
		{"kvcache: fork: not made by a Pool: closed", func() error { _, err := new(Sequence[*cpu.Buffer]).Fork(); return err }},
		{"kvcache: add: token 0 is 7, the prompt's is 5: the sequence has the first 0 of the 2 tokens that it was opened with; after Open add prompt[match.Matched:], now prompt[0:], or open it with nil", func() error {
			opened, _, err := r.pool.Open(t.Context(), []uint32{5, 6})
			require.NoError(t, err)
			defer func() { require.NoError(t, opened.Release()) }()
			return r.step.Add(opened, []uint32{7})
		}},
	} {
		err := c.ask()
		require.Error(t, err, c.want)
		require.Contains(t, err.Error(), c.want)
		require.NotContains(t, err.Error(), "event")
	}
	require.NoError(t, firstOf(seq.Release(), full.Release()))
	require.NoError(t, firstOf(alien.Close(), other.Close()))
	r.close()
}
