package kvcache

import (
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
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

// finish plans and computes a step of the rest of the readers' prompts, and commits it.
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

// resume notes what a reader has whose sequence has had no step: less, or more, than before.
func (x *reader[B]) resume() {
	all := append(slices.Clip(x.tokens), x.rest...)
	n := x.seq.Len()
	x.tokens, x.rest = all[:n:n], all[n:]
	x.want = x.plain(n)
}

// Together computes prompts in one step whose sequences join it, with others that do not, and commits or abandons it.
func (m *reuseMachine[B]) Together(t *rapid.T) {
	for range rapid.IntRange(0, 4).Draw(t, "prompts") {
		if len(m.xs) < maxReaders {
			m.Open(t)
		}
	}
	m.pick(t)
	require.NoError(t, m.step.Reset())
	s := m.stream(t)
	var parts []part[B]
	var joined []*reader[B]
	for _, x := range m.xs {
		n := rapid.IntRange(0, 30).Draw(t, "tokens")
		if len(x.rest) == 0 || n == 0 {
			continue
		}
		if x.exact() && x.seq.fresh && rapid.IntRange(0, 3).Draw(t, "join") > 0 {
			match, err := m.step.Join(x.seq)
			require.NoError(t, err)
			require.Equal(t, x.seq.Len(), match.Cached)
			require.GreaterOrEqual(t, match.Cached, len(x.tokens)/4*4)
			joined = append(joined, x)
			if x.resume(); match.Pending > 0 && rapid.Bool().Draw(t, "wait") || rapid.IntRange(0, 9).Draw(t, "forget") == 0 {
				continue
			}
		}
		ids := x.rest[:min(n, len(x.rest))]
		require.NoError(t, m.step.Add(x.seq, ids))
		parts = append(parts, part[B]{x, ids})
	}
	after := func() {
		for _, x := range joined {
			if x.seq.fresh {
				x.resume()
			}
		}
	}
	defer after()
	if len(parts) == 0 {
		require.NoError(t, m.step.Reset())
		return
	}
	if err := m.step.Plan(s); err != nil {
		require.ErrorIs(t, err, ErrOutOfBlocks{})
		require.NoError(t, m.pool.Check())
		require.NoError(t, m.step.Reset())
		return
	}
	require.NoError(t, m.pool.Check())
	var writes []feed[B]
	for _, p := range parts {
		writes = append(writes, feed[B]{p.seq, p.reader.ids(p.ids)})
	}
	m.write(s, writes...)
	if rapid.IntRange(0, 4).Draw(t, "abandon") == 0 {
		require.NoError(t, m.step.Reset())
		return
	}
	require.NoError(t, m.committed(parts...))
	for _, p := range parts {
		m.note(p.reader)
		m.refused[p.reader] = true
	}
}

// arrival is a prompt that is computed in steps which its sequence joins.
type arrival struct {
	*told
	prompt []uint32
}

// together has prompts arrive, and computes them in steps that their sequences join, some in pieces; steps fail, are reset, and
// sequences are released in the middle. It returns how many tokens were joined for.
func (w *grouped) together() (joined int) {
	w.t.Helper()
	base := uint32(100 * (1 + w.rng.IntN(3)))
	var all []arrival
	for range 2 + w.rng.IntN(3) {
		prompt := make([]uint32, 2+w.rng.IntN(60))
		same := w.rng.IntN(len(prompt) + 1)
		for i := range prompt {
			if prompt[i] = base + uint32(i); i >= same {
				prompt[i] += 1000 * uint32(1+w.rng.IntN(3))
			}
		}
		s, _ := w.open(prompt)
		all = append(all, arrival{s, prompt})
	}
	for len(all) > 0 {
		require.NoError(w.t, w.step.Reset())
		var asks []ask
		for _, a := range all {
			m, err := w.step.Join(a.seq)
			if a.seq.runs.Failed != nil { // its state may have been written in its place
				require.ErrorIs(w.t, err, a.seq.runs.Failed)
				continue
			}
			require.NoError(w.t, err)
			require.Equal(w.t, m.Cached, a.seq.Len())
			if a.seq.runs.Joined() > 0 {
				joined += m.Cached - len(a.ids)
			}
			a.told.ids = slices.Clone(a.prompt[:m.Cached])
			if m.Pending > 0 && len(asks) > 0 && w.rng.IntN(4) > 0 {
				continue
			}
			n := 1 + w.rng.IntN(len(a.prompt)-m.Cached)
			if w.rng.IntN(2) == 0 {
				n = len(a.prompt) - m.Cached
			}
			ids := a.prompt[m.Cached:][:n]
			if w.rng.IntN(8) > 0 { // else it has joined in vain
				require.NoError(w.t, w.step.Add(a.seq, ids))
				asks = append(asks, ask{a.told, ids})
			}
			require.NoError(w.t, w.pool.Check())
		}
		done := false
		if len(asks) > 0 {
			if err := w.step.Plan(w.s); err != nil {
				require.ErrorIs(w.t, err, ErrOutOfBlocks{})
			} else {
				require.NoError(w.t, w.pool.Check())
				w.layers(asks)
				done = w.rng.IntN(5) > 0
			}
		}
		if done {
			require.NoError(w.t, w.step.Commit())
			for _, a := range asks {
				a.told.ids = append(a.told.ids, a.ids...)
			}
		}
		require.NoError(w.t, w.step.Reset())
		require.NoError(w.t, w.pool.Check())
		for _, a := range all { // what has had no step has what is found
			if n := a.seq.Len(); a.seq.fresh {
				a.told.ids = slices.Clone(a.prompt[:n])
			} else {
				require.Len(w.t, a.ids, n)
			}
		}
		all = slices.DeleteFunc(all, func(a arrival) bool {
			if a.seq.runs.Failed != nil || !done && len(asks) > 0 && w.rng.IntN(2) == 0 || w.rng.IntN(8) == 0 {
				w.drop(a.told)
				return true
			}
			return len(a.ids) == len(a.prompt)
		})
	}
	return joined
}

// Histories of prompts that arrive together, with sequences of every other kind beside them.
func TestGroupsTogether(t *testing.T) {
	for name, cfg := range kinds() {
		t.Run(name, func(t *testing.T) {
			joined := 0
			for seed := range uint64(4) {
				cfg := cfg
				cfg.Memory.Rollback = max(cfg.Memory.Rollback, []int{-1, 3, 0, 0}[seed])
				cfg.Memory.RetainEvery = []int{1, 2, 0, 0}[seed]
				if cfg.Memory.Layout == Paged {
					cfg.Memory.Blocks = 90
				}
				w := newGrouped(t, cfg, seed)
				for range 25 {
					joined += w.together()
					for range w.rng.IntN(4) {
						w.act()
						require.NoError(t, w.pool.Check())
					}
					for len(w.seqs) > 3 {
						w.drop(w.seqs[0])
					}
				}
				for len(w.seqs) > 0 {
					w.drop(w.seqs[0])
				}
				w.close()
			}
			t.Log(joined, "tokens joined for")
		})
	}
}
