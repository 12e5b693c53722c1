package kvcache

import (
	"cmp"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// promptPools are pools of every kind that a prompt can be opened in.
func promptPools(t *testing.T, check func(t *testing.T, r *rig[buffer])) {
	residual := small(Paged)
	residual.Storage.K, residual.Storage.V, residual.Model.Act, residual.Storage.Residual, residual.Memory.StepTokens = backend.Int8, backend.Int8, backend.F32, 8, 20
	for name, cfg := range map[string]Config{"contiguous": small(Contiguous), "paged": small(Paged), "residual": residual} {
		if !testDevice().Supports(backend.Format{Act: backend.F32, K: cfg.Storage.K, V: cfg.Storage.K}) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			r := deviceRig(t, cfg)
			check(t, r)
			r.close()
		})
	}
}

// A prompt is added from where the cache ends: what Open found, and what earlier steps
// computed, is not added again, also where the pool reuses nothing.
func TestPromptIsAddedOnce(t *testing.T) {
	promptPools(t, func(t *testing.T, r *rig[buffer]) {
		for i := range uint32(2) { // the second finds what the first has left, where prefixes are reused
			prompt := append(sequence(1, 12), 50+2*i, 51+2*i)
			seq, match, err := r.pool.Open(prompt, OpenOptions{})
			require.NoError(t, err)
			require.Equal(t, match.Cached, seq.Len())
			if match.Cached > 0 {
				require.ErrorIs(t, r.step.Add(seq, prompt), ErrPrompt{Have: match.Cached, Prompt: 14, Position: match.Cached, Want: prompt[match.Cached], Got: 1})
			}
			require.ErrorIs(t, r.step.Add(seq, []uint32{99}), ErrPrompt{})

			first := match.Cached + 1 // a first piece of it
			require.NoError(t, r.feed(feed[buffer]{seq, prompt[match.Cached:first]}))
			require.NoError(t, r.step.Reset())
			require.ErrorIs(t, r.step.Add(seq, prompt), ErrPrompt{})
			require.ErrorIs(t, r.step.Add(seq, prompt[match.Cached:]), ErrPrompt{Have: first, Prompt: 14, Position: first, Want: prompt[first], Got: prompt[match.Cached]})

			fork, err := seq.Fork()
			require.NoError(t, err)
			require.ErrorIs(t, r.step.Add(fork, []uint32{99}), ErrPrompt{}, "a fork is in the same prompt")
			require.NoError(t, fork.Truncate(first))
			require.NoError(t, r.step.Add(fork, []uint32{99}), "one that was changed need not go on with it")
			require.NoError(t, r.step.Reset())

			require.NoError(t, r.plan(r.s, feed[buffer]{seq, append(slices.Clone(prompt[first:]), 99)}))
			require.NoError(t, r.step.Reset(), "the step was given up: the prompt is still to be computed")
			require.ErrorIs(t, r.step.Add(seq, []uint32{99}), ErrPrompt{})
			require.NoError(t, r.feed(feed[buffer]{seq, append(slices.Clone(prompt[first:]), 99)}), "the prompt's end and beyond")
			require.Zero(t, seq.text.Prompt())
			require.NoError(t, r.feed2(seq, prompt[:3]), "any tokens follow a prompt")
			require.Equal(t, 18, seq.Len())
			require.NoError(t, cmp.Or(seq.Release(), fork.Release()))
		}
	})
}

// feed2 is a step after another one.
func (r *rig[B]) feed2(seq *Sequence[B], ids []uint32) error {
	return cmp.Or(cmp.Or(r.step.Reset(), r.feed(feed[B]{seq, ids})), r.step.Reset())
}

// The rest of a prompt and more can be added in one call or in pieces, also if the prompt repeats itself, so that its rest
// begins like the whole. The same holds for tokens as guesses, with a tree after them and with spans among them.
func TestRestOfRepetitivePromptAndMore(t *testing.T) {
	cfg := small(Paged)
	cfg.Memory.Blocks = 40
	caps := deviceRig(t, cfg)
	views := caps.pool.caps.Views
	caps.close()
	found := map[int]bool{}
	rapid.Check(t, func(t *rapid.T) {
		r := deviceRig(t, cfg)
		letters := rapid.SliceOfN(rapid.Uint32Range(1, 2), 1, 5)
		prompt := slices.Repeat(letters.Draw(t, "period"), rapid.IntRange(1, 4).Draw(t, "times"))
		other := r.open()
		require.NoError(t, r.feed2(other, append(slices.Clip(prompt[:rapid.IntRange(0, len(prompt)).Draw(t, "known")]), 9)))
		require.NoError(t, other.Release())
		seq, match, err := r.pool.Open(prompt, OpenOptions{})
		require.NoError(t, err)
		found[match.Cached] = true
		all := slices.Concat(prompt, letters.Draw(t, "more")) // often the prompt repeats itself further
		if rapid.Bool().Draw(t, "whole") {
			all = slices.Concat(prompt, prompt[:min(match.Cached, 8)])
		}
		all = all[:min(len(all), cfg.Memory.Capacity)]
		want := tokens(all...)
		for seq.Len() < len(all) {
			have := seq.Len()
			ids := all[have:]
			if rapid.Bool().Draw(t, "piece") {
				ids = ids[:rapid.IntRange(1, len(ids)).Draw(t, "tokens")]
			}
			require.NoError(t, r.step.Reset())
			draft, tree := 0, 0
			switch call := rapid.SampledFrom([]string{"add", "draft", "spans", "tree", "twice"}).Draw(t, "call"); {
			case call == "draft":
				draft = rapid.IntRange(0, len(ids)).Draw(t, "draft")
				require.NoError(t, r.step.AddDraft(seq, ids, draft))
			case call == "spans" && views:
				require.NoError(t, r.step.AddSpans(seq, ids, []Span{{Begin: rapid.IntRange(0, len(ids)-1).Draw(t, "begin"), End: len(ids)}}))
			case call == "tree" && views && have+len(ids) > len(prompt) && have < len(prompt):
				rest := len(prompt) - have
				require.NoError(t, r.step.Add(seq, ids[:rest]))
				tree = len(ids) - rest
				parents := make([]int, tree)
				for i := range parents {
					parents[i] = i - 1
				}
				require.NoError(t, r.step.AddTree(seq, ids[rest:], parents))
			case call == "twice" && len(ids) > 1:
				n := rapid.IntRange(1, len(ids)-1).Draw(t, "first")
				require.NoError(t, r.step.Add(seq, ids[:n]))
				require.NoError(t, r.step.Add(seq, ids[n:]))
			default:
				require.NoError(t, r.step.Add(seq, ids))
			}
			require.NoError(t, r.step.Plan(r.s))
			r.write(r.s, feed[buffer]{seq, ids})
			if tree > 0 {
				path := make([]int, tree)
				for i := range path {
					path[i] = i
				}
				require.NoError(t, r.step.Accept(seq, path))
			}
			require.NoError(t, r.step.Commit())
			if draft > 0 {
				require.NoError(t, seq.Truncate(seq.Len()))
			}
			require.Equal(t, have+len(ids), seq.Len())
			require.True(t, slices.Equal(all[:seq.Len()], seq.text.Tokens()[:seq.Len()]))
			r.expect(r.s, seq, want[:seq.Len()])
		}
		require.NoError(t, r.step.Reset())
		require.NoError(t, seq.Release())
		r.close()
	})
	if !testing.Short() { // 20 histories may lack it
		require.Greater(t, len(found), 3, "prefixes of several lengths are found: %v", found)
	}
}

// Of a prompt that is not gone on with a sequence remembers the tokens that it has.
func TestPromptIsForgotten(t *testing.T) {
	r := deviceRig(t, small(Contiguous))
	prompt := sequence(1, 14)
	for name, end := range map[string]func(*Sequence[buffer]) error{
		"computed":  func(s *Sequence[buffer]) error { return r.feed2(s, prompt[4:]) },
		"truncated": func(s *Sequence[buffer]) error { return s.Truncate(2) },
		"shifted":   func(s *Sequence[buffer]) error { return s.Shift(r.s, 0, 1) },
		"kept":      func(s *Sequence[buffer]) error { return s.Retain(r.s, [][]int{{0, 2}}, RetainOptions{}) },
	} {
		seq, _, err := r.pool.Open(prompt, OpenOptions{})
		require.NoError(t, err)
		prompt := slices.Clone(prompt)
		require.NoError(t, r.feed2(seq, prompt[:4]))
		require.Equal(t, prompt, seq.text.Tokens())
		require.NoError(t, end(seq), name)
		require.LessOrEqual(t, len(seq.text.Tokens()), seq.Len(), name)
		require.NoError(t, r.feed2(seq, []uint32{99}), name)
		require.NoError(t, seq.Release())
	}
	r.close()
}

// The prompt that a sequence goes on with is the one it was opened with, whatever becomes of
// the caller's slice.
func TestPromptIsCopied(t *testing.T) {
	r := deviceRig(t, small(Contiguous))
	prompt := sequence(1, 6)
	seq, _, err := r.pool.Open(prompt, OpenOptions{})
	require.NoError(t, err)
	clear(prompt)
	require.ErrorIs(t, r.step.Add(seq, prompt), ErrPrompt{Prompt: 6, Want: 1})
	require.NoError(t, r.feed2(seq, sequence(1, 6)))
	require.NoError(t, seq.Release())
	r.close()
}
