package kvcache

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// The end of a sequence, in a block that is not full, is offered to others when the sequence is released.

// turn is a prompt and what is generated after it, a token a step.
func (r *rig[B]) turn(prompt, generated []uint32) (*reader[B], Match) {
	r.t.Helper()
	x, m := r.serve(prompt, OpenOptions{})
	for _, id := range generated {
		require.NoError(r.t, r.run(r.s, part[B]{x, []uint32{id}}))
	}
	return x, m
}

// keysOf are the keys of a text's blocks, as they are in events.
func keysOf[B backend.Buffer](p *Pool[B], text []uint32) []prefix.Key {
	return p.model.Root(prefix.Scope{}).Keys(nil, p.cfg.Memory.BlockSize, prefix.Query{Tokens: text})
}

// The next turn of a conversation finds all that the one before has left, to the token, wherever in a block
// that ends; the same prompt again finds all but the token that is held back.
func TestNextTurnFindsAll(t *testing.T) {
	r := reuseRig(t, 40)
	for first := 1; first <= 9; first++ {
		for said := 1; said <= 5; said++ {
			for answer := range 5 {
				if emulated(testDevice().Info) && !testsize.Full() && (first+said+answer)%5 != 0 {
					continue
				}
				prompt, known := sequence(1, first), 0
				for turn := range uint32(3) {
					x, m := r.turn(prompt, sequence(int(1000*turn)+500, answer))
					require.Equal(t, known, m.Cached, "turn %d of %d tokens, of which %d are new", turn, len(prompt), said)
					r.drop(x)
					again, m := r.read(x.tokens, OpenOptions{})
					require.Equal(t, 1, m.Uncached)
					r.drop(again)
					known = len(x.tokens)
					prompt = append(slices.Clone(x.tokens), sequence(int(100*turn)+100, said)...)
				}
				require.NoError(t, r.pool.Clear(false))
				require.Zero(t, r.idle().Cached)
			}
		}
	}
	r.close()
}

// So it is where layers are of several kinds: each has what the next turn reads, a state that after the last token.
func TestNextTurnFindsAllInGroups(t *testing.T) {
	for name, cfg := range endingKinds() {
		t.Run(name, func(t *testing.T) {
			w := newGrouped(t, cfg, 1)
			for _, first := range []int{1, 4, 7, 8, 21} {
				prompt, known := sequence(1, first), 0
				for turn := range 3 {
					s, m := w.open(prompt)
					require.Equal(t, known, m.Cached, "turn %d of %d tokens", turn, len(prompt))
					require.NoError(t, errors.Join(w.run(ask{s, prompt[known:]}), w.run(ask{s, []uint32{500}})))
					known = len(s.ids)
					prompt = append(slices.Clone(s.ids), sequence(100*turn+100, 3)...)
					w.drop(s)
				}
				w.idle()
				require.NoError(t, w.pool.Clear(false))
			}
			w.close()
		})
	}
}

// Where a prompt leaves what the tree has, what is read there stays: what two prompts begin with the third finds, whatever
// of it windows gave up meanwhile and though nobody ended there.
func TestThirdOfASharedBeginning(t *testing.T) {
	for name, cfg := range endingKinds() {
		t.Run(name, func(t *testing.T) {
			w := newGrouped(t, cfg, 1)
			size := w.pool.cfg.EntryTokens()
			common, found := sequence(1, (48+size-1)/size*size), []int(nil)
			for i := range 4 {
				prompt := append(slices.Clone(common), sequence(100*(i+1), 40)...)
				s, m := w.open(prompt)
				found = append(found, m.Cached)
				for len(s.ids) < len(prompt) {
					n := s.seq.Piece(min(len(prompt)-len(s.ids), 12))
					require.NoError(t, w.run(ask{s, prompt[len(s.ids):][:n]}))
				}
				w.drop(s)
				w.idle()
			}
			require.Equal(t, []int{0, len(common), len(common)}, []int{found[0], found[2], found[3]}, "the second finds %d", found[1])
			w.close()
		})
	}
}

// A fork knows where others may go on who have its prompt: what they read there stays when the window slides on, and a state is kept there.
func TestForkGoesOnFromItsPrompt(t *testing.T) {
	for _, g := range []config.Group{{Kind: group.Window, Layers: []int{1}, Window: 9}, {Kind: group.State, Layers: []int{1}, StateBytes: 64}} {
		w := newGrouped(t, manyKinds(config.Group{Layers: []int{0}}, g), 1)
		size := w.pool.cfg.EntryTokens()
		prompt := sequence(1, (40+size-1)/size*size+1)
		s, _ := w.open(prompt)
		require.NoError(t, w.run(ask{s, prompt[:size]}))
		seq, err := s.seq.Fork()
		require.NoError(t, err)
		fork := &told{seq: seq, ids: slices.Clone(s.ids)}
		w.drop(s)
		for len(fork.ids) < len(prompt) {
			n := seq.Piece(len(prompt) - len(fork.ids))
			require.NoError(t, w.run(ask{fork, prompt[len(fork.ids):][:n]}))
		}
		for i := range 10 { // its end is far from the prompt's
			require.NoError(t, w.run(ask{fork, sequence(1000+10*i, 5)}))
		}
		w.drop(fork)
		w.idle()
		again, m := w.open(prompt)
		require.Equal(t, len(prompt)-1, m.Cached, "%v", g.Kind)
		require.NoError(t, w.run(ask{again, prompt[m.Cached:]}))
		w.drop(again)
		w.close()
	}
}

// endingKinds are pools with groups that offer ends of sequences.
func endingKinds() map[string]Config {
	all := chosenKinds()
	maps.DeleteFunc(all, func(_ string, cfg Config) bool { return cfg.Memory.Layout == Contiguous || cfg.Storage.Residual > 0 })
	return all
}

// A sequence that is released in the middle of its prompt leaves what it has of it.
func TestEndInsideOfAPrompt(t *testing.T) {
	r := reuseRig(t, 40)
	for n := 1; n < 13; n++ {
		a, _ := r.read(sequence(1, 13), OpenOptions{})
		require.NoError(t, r.run(r.s, part[buffer]{a, sequence(1, n)}))
		r.drop(a)
		require.Equal(t, n, r.matched(sequence(1, 13), OpenOptions{}))
		require.NoError(t, r.pool.Clear(false))
	}
	r.close()
}

// E2: who goes on behind the end that another one left does so in a copy of his own: of several each, in one step
// or one after another. The block itself stays as it was for those who come later.
func TestReadersOfOneTail(t *testing.T) {
	for _, together := range []bool{true, false} {
		r := reuseRig(t, 40)
		r.cache(sequence(1, 6), OpenOptions{})
		var xs []*reader[buffer]
		for _, next := range []uint32{70, 80} {
			x, m := r.read(append(sequence(1, 6), next), OpenOptions{})
			require.Equal(t, 6, m.Cached)
			xs = append(xs, x)
		}
		shared := xs[0].numbers()
		require.Equal(t, shared, xs[1].numbers())
		if together {
			require.NoError(t, r.prefill(r.s, xs...))
		} else {
			require.NoError(t, errors.Join(r.prefill(r.s, xs[0]), r.prefill(r.s, xs[1])))
		}
		own := []uint32{xs[0].numbers()[1], xs[1].numbers()[1]}
		require.NotEqual(t, own[0], own[1])
		require.NotContains(t, own, shared[1])
		third, m := r.read(append(sequence(1, 6), 90), OpenOptions{})
		require.Equal(t, 6, m.Cached)
		require.Equal(t, shared, third.numbers())
		r.drop(append(xs, third)...)
		require.Equal(t, 3, r.idle().Prefix.Blocks, "the first block and two ends: the one that both begin with is in them")
		r.close()
	}
}

// E3: when the block of an end fills up, the full block takes its place, and a longer end that of a shorter one: one is
// told to be removed, and one to be stored. Clearing takes ends, too.
func TestTailGivesWayToWhatGoesOn(t *testing.T) {
	r := reuseRig(t, 6)
	watch := newMirror(t, r.pool)
	told := func(kind prefix.EventKind, keys []prefix.Key, tokens ...uint32) {
		t.Helper()
		select {
		case e := <-watch.sub.C:
			require.Equal(t, kind, e.Kind)
			require.Equal(t, keys, e.Keys)
			require.Equal(t, tokens, e.Tokens)
		default:
			require.Fail(t, "nothing was told", "%v", kind)
		}
	}
	text := sequence(1, 9)
	keys := func(n int) []prefix.Key { return keysOf(r.pool, text[:n])[(n-1)/4:] } // of the last block of so many tokens

	a, _ := r.serve(text[:5], OpenOptions{})
	told(prefix.Stored, keys(4), text[:4]...)
	r.drop(a)
	told(prefix.Stored, keys(5), text[4])
	b, _ := r.serve(text[:7], OpenOptions{})
	require.Empty(t, watch.sub.C, "what somebody writes is not offered")
	r.drop(b)
	told(prefix.Removed, keys(5))
	told(prefix.Stored, keys(7), text[4:7]...)
	c, m := r.serve(text, OpenOptions{})
	require.Equal(t, 7, m.Cached)
	told(prefix.Removed, keys(7))
	told(prefix.Stored, keys(8), text[4:8]...)
	r.drop(c)
	told(prefix.Stored, keys(9), text[8])
	st := r.idle()
	require.Equal(t, [3]int{3, 3, 3}, [3]int{st.Free, st.Cached, st.Prefix.Blocks}, "the shorter ends are free")

	d, _ := r.read(append(slices.Clone(text), 9), OpenOptions{})
	require.ErrorIs(t, r.pool.Clear(false), prefix.ErrInUse{Blocks: 3})
	r.drop(d)
	require.Empty(t, watch.sub.C, "it is the end that it found")
	require.NoError(t, r.pool.Clear(false))
	told(prefix.Cleared, nil)
	st = r.idle()
	require.Equal(t, [3]int{6, 0, 0}, [3]int{st.Free, st.Cached, st.Prefix.Blocks})
	require.Zero(t, r.matched(text, OpenOptions{}))

	r.cache(text[:3], OpenOptions{}) // the beginning of a path is one, too
	told(prefix.Stored, keys(3), text[:3]...)
	e, _ := r.serve(sequence(50, 24), OpenOptions{})
	told(prefix.Removed, keys(3))
	r.drop(e)
	r.close()
}

// E2: the end that another one left is copied by who goes on behind it. Both ends of the copy are held until it is
// done, whoever lacks blocks, and the old one is given up when the copy is offered in its place.
func TestTailIsHeldWhileCopied(t *testing.T) {
	for seed := range uint64(10) {
		r, _, s2, done := reuseLate(t, 5, seed)
		r.cache(sequence(1, 6), OpenOptions{})
		b, m := r.read(append(sequence(1, 6), 9), OpenOptions{})
		require.Equal(t, 6, m.Cached)
		first, old := b.numbers()[0], b.numbers()[1]
		require.NoError(t, r.prefill(r.s, b))
		own := b.numbers()[1]
		require.NotEqual(t, old, own)
		st := r.stats()
		require.Equal(t, [3]int{3, 1, 2}, [3]int{st.Held, st.Retired, st.Free})
		require.NoError(t, r.pool.Reserve(Reservation[buffer]{b.seq, 8}), "which it has")
		c, _ := r.read(sequence(50, 12), OpenOptions{})
		require.NoError(t, r.on(s2).prefill(s2, c), "which waits for the third block")
		require.Contains(t, c.numbers(), old)
		require.NotContains(t, c.numbers(), first)
		require.NotContains(t, c.numbers(), own)
		r.check(s2, c)
		r.check(r.s, b)
		require.NoError(t, errors.Join(b.seq.Release(), c.seq.Release(), r.s.Sync(), s2.Sync()))
		st = r.stats()
		require.Equal(t, [3]int{0, 0, 5}, [3]int{st.Held, st.Retired, st.Cached})
		done()
	}
	r, _, _, done := reuseLate(t, 40, 5)
	r.cache(sequence(1, 6), OpenOptions{})
	b, _ := r.read(append(sequence(1, 6), 9), OpenOptions{})
	old := b.numbers()[1]
	require.NoError(t, errors.Join(r.prefill(r.s, b), r.s.Sync()))
	st := r.stats()
	require.Equal(t, [3]int{2, 0, 1}, [3]int{st.Held, st.Retired, st.Cached}, "the old one stays")
	c, m := r.read(append(sequence(1, 6), 8), OpenOptions{})
	require.Equal(t, old, c.numbers()[1])
	require.Equal(t, 6, m.Cached)
	require.NoError(t, b.seq.Release())
	st = r.stats()
	require.Equal(t, [4]int{2, 1, 37, 2}, [4]int{st.Held, st.Cached, st.Free, st.Prefix.Blocks}, "the copy took its place; who reads it keeps it")
	r.check(r.s, c)
	require.NoError(t, c.seq.Release())
	st = r.stats()
	require.Equal(t, [4]int{0, 2, 38, 2}, [4]int{st.Held, st.Cached, st.Free, st.Prefix.Blocks})
	done()
}

// An end that steps on other streams still write is found at once, and read behind them; so is the copy that a reader
// of it leaves.
func TestReaderWaitsForTheWriterOfATail(t *testing.T) {
	for seed := range uint64(20) {
		r, _, s2, done := reuseLate(t, 40, seed)
		a, _ := r.serve(sequence(1, 5), OpenOptions{})
		other := r.on(s2)
		require.NoError(t, other.run(s2, part[buffer]{a, sequence(6, 1)}))
		require.NoError(t, a.seq.Release())
		require.Equal(t, 2, r.stats().Retired)
		b, m := r.read(append(sequence(1, 6), 70), OpenOptions{})
		require.Equal(t, 6, m.Cached)
		c, m := r.read(append(sequence(1, 6), 80), OpenOptions{})
		require.Equal(t, 6, m.Cached)
		r.check(s2, c) // as it is
		require.NoError(t, r.prefill(r.s, b))
		require.NoError(t, b.seq.Release())
		d, m := r.read(append(sequence(1, 6), 70, 71), OpenOptions{})
		require.Equal(t, 7, m.Cached)
		require.NoError(t, other.prefill(s2, c, d))
		r.check(s2, d)
		r.check(r.s, c)
		require.NoError(t, errors.Join(c.seq.Release(), d.seq.Release(), other.step.Close()))
		done()
	}
}

// An end that the device failed to write is found by nobody any more, once that is noticed, and who has it is told.
func TestFailedTailIsForgotten(t *testing.T) {
	for _, n := range []int{3, 6} {
		r, dev, s2, done := reuseLate(t, 6, 5)
		a, _ := r.read(sequence(1, n), OpenOptions{})
		require.NoError(t, r.prefill(s2, a))
		require.NoError(t, a.seq.Release())
		b, m := r.read(sequence(1, n+1), OpenOptions{})
		require.Equal(t, n, m.Cached)
		dev.failEvents(s2, errBoom)
		require.NoError(t, s2.Sync())
		_, err := r.pool.Stats()
		require.ErrorIs(t, err, errBoom)
		dev.SetFault(nil)
		require.ErrorIs(t, b.seq.Err(), errBoom)
		require.Zero(t, r.matched(sequence(1, n+1), OpenOptions{}))
		require.NoError(t, b.seq.Release())
		require.Zero(t, r.stats().Prefix.Blocks, "nor what it has of it")
		done()
	}
}

// What is not what its tokens alone say, or is not to be found, is not offered when its sequence is released.
func TestEndsThatAreNotOffered(t *testing.T) {
	text, image := sequence(1, 9), []prefix.Item{{Begin: 1, End: 3, Hash: []byte{1}}}
	retain := func(list []int, o RetainOptions) func(*rig[buffer], *reader[buffer]) error {
		return func(r *rig[buffer], x *reader[buffer]) error { return x.seq.Retain(r.s, [][]int{list}, o) }
	}
	for name, test := range map[string]struct {
		open  OpenOptions
		n     int // tokens that are computed
		do    func(r *rig[buffer], x *reader[buffer]) error
		found int // of them, at the end as before
	}{
		"NoPublish":               {open: OpenOptions{NoPublish: true}, n: 6},
		"Retain in the end":       {n: 7, do: retain([]int{0, 1, 2, 3, 4, 6}, RetainOptions{}), found: 4},
		"Retain in short text":    {n: 3, do: retain([]int{0, 2}, RetainOptions{Reposition: true})},
		"Retain of the beginning": {n: 7, do: retain(sequenceOf(6), RetainOptions{}), found: 4},
		"Retain and go on": {n: 3, do: func(r *rig[buffer], x *reader[buffer]) error {
			return errors.Join(retain([]int{1, 2}, RetainOptions{})(r, x), r.feed(feed[buffer]{x.seq, []uint32{3}}))
		}},
		"Shift of an image":      {open: OpenOptions{Items: image}, n: 7, do: func(r *rig[buffer], x *reader[buffer]) error { return x.seq.Shift(r.s, 1, 3) }},
		"Truncate into an image": {open: OpenOptions{Items: image}, n: 3, do: func(_ *rig[buffer], x *reader[buffer]) error { return x.seq.Truncate(2) }},
		"Clear":                  {n: 6, do: func(r *rig[buffer], _ *reader[buffer]) error { return r.pool.Clear(true) }},
		"a quota that was": {n: 6, do: func(r *rig[buffer], x *reader[buffer]) error {
			err := errors.Join(r.pool.Limit(prefix.Scope{}, prefix.Limits{Quota: 1}), r.run(r.s, part[buffer]{x, sequence(7, 3)}))
			return errors.Join(err, r.pool.Limit(prefix.Scope{}, prefix.Limits{}))
		}, found: 4},
		"a quota": {n: 6, do: func(r *rig[buffer], _ *reader[buffer]) error {
			return r.pool.Limit(prefix.Scope{}, prefix.Limits{Quota: 1})
		}, found: 4},
	} {
		t.Run(name, func(t *testing.T) {
			r := reuseRig(t, 40)
			x, _ := r.serve(text[:test.n], test.open)
			if test.do != nil {
				require.NoError(t, test.do(r, x))
			}
			watch := newMirror(t, r.pool)
			require.Equal(t, test.found, r.matched(text, test.open))
			require.NoError(t, x.seq.Release())
			require.Empty(t, watch.sub.C)
			require.Equal(t, test.found, r.matched(text, test.open))
			y, _ := r.serve(text, test.open)
			r.drop(y)
			r.close()
		})
	}
}

// An end whose keys were turned is offered to those only who accept what was computed with tokens that are not there
// any more; and one that only became shorter is offered to everybody.
func TestEndAfterShift(t *testing.T) {
	r := reuseRig(t, 40)
	a, _ := r.serve(sequence(1, 7), OpenOptions{})
	require.NoError(t, a.seq.Shift(r.s, 4, 5))
	require.NoError(t, a.seq.Release())
	text := []uint32{1, 2, 3, 4, 6, 7, 8}
	require.Equal(t, 4, r.matched(text, OpenOptions{}))
	b, m, err := r.pool.Open(text, OpenOptions{Accept: prefix.Truncated})
	require.NoError(t, err)
	require.Equal(t, 6, m.Cached)
	r.expect(r.s, b, append(a.want[:4:4], token{a.want[5].id, -1}, token{a.want[6].id, -1}))
	require.NoError(t, b.Release())

	a, _ = r.serve(sequence(50, 7), OpenOptions{})
	require.NoError(t, a.seq.Shift(r.s, 6, 7))
	require.NoError(t, a.seq.Release())
	c, m := r.read(sequence(50, 8), OpenOptions{})
	require.Equal(t, 6, m.Cached)
	r.drop(c)
	r.close()
}

// A sequence whose content is undefined offers nothing of it, nor does any once the device is lost.
func TestFailedSequenceOffersNothing(t *testing.T) {
	for _, op := range []backendtest.Op{backendtest.OpRotate, backendtest.OpRecord} {
		r, dev, _, done := reuseLate(t, 40, 5)
		a, _ := r.serve(sequence(1, 7), OpenOptions{})
		dev.failOn(op, 0)
		require.ErrorIs(t, a.seq.Shift(r.s, 4, 5), errBoom)
		dev.SetFault(nil)
		require.ErrorIs(t, a.seq.Err(), errBoom)
		watch := newMirror(t, r.pool)
		require.NoError(t, errors.Join(a.seq.Release(), r.s.Sync()))
		require.Empty(t, watch.sub.C)
		for _, o := range []OpenOptions{{}, {Accept: prefix.Truncated}} {
			require.Equal(t, 4, r.matched(sequence(1, 9), o))
			require.Equal(t, 4, r.matched([]uint32{1, 2, 3, 4, 6, 7, 8}, o))
		}
		done()
	}
	r, dev, s2, done := reuseLate(t, 40, 5)
	a, _ := r.serve(sequence(1, 3), OpenOptions{}) // which begins a path
	b, _ := r.read(sequence(50, 3), OpenOptions{})
	require.NoError(t, r.prefill(s2, b))
	require.NoError(t, b.seq.Release())
	dev.failEvents(s2, backend.ErrLost)
	require.NoError(t, s2.Sync())
	_, err := r.pool.Stats()
	require.ErrorIs(t, err, backend.ErrLost)
	dev.SetFault(nil)
	require.NoError(t, a.seq.Release())
	require.Zero(t, r.stats().Prefix.Blocks)
	done()
}

// With Storage.Residual the tokens of a block that is not full are nowhere but in the window, which ends with the sequence.
func TestResidualOffersWholeBlocks(t *testing.T) {
	cfg := small(Paged)
	cfg.Storage.K, cfg.Storage.V, cfg.Model.Act, cfg.Storage.Residual, cfg.Memory.StepTokens = backend.Int8, backend.Int8, backend.F32, 8, 20
	if !testDevice().Supports(backend.Format{Act: backend.F32, K: cfg.Storage.K, V: cfg.Storage.K}) {
		t.Skip("the device has no kernels for it")
	}
	r := deviceRig(t, cfg)
	for n := 1; n < 20; n++ {
		a := r.open()
		require.NoError(t, r.feed(feed[buffer]{a, sequence(1, n)}))
		before := newMirror(t, r.pool)
		require.NoError(t, errors.Join(r.step.Reset(), a.Release()))
		require.Empty(t, before.sub.C)
		for _, b := range before.blocks {
			require.Len(t, b.tokens, 4)
		}
		r.pool.Unwatch(before.sub)
	}
	r.close()
}

// An end with an image in it is found with that image only, in its place.
func TestEndWithAnImage(t *testing.T) {
	r := reuseRig(t, 40)
	image := func(hash byte, begin int) OpenOptions {
		return OpenOptions{Items: []prefix.Item{{Begin: begin, End: begin + 2, Hash: []byte{hash}}}}
	}
	r.cache(sequence(1, 7), image(1, 5))
	for _, o := range []OpenOptions{{}, image(2, 5), image(1, 4)} {
		require.Equal(t, 4, r.matched(sequence(1, 8), o))
	}
	x, m := r.read(sequence(1, 8), image(1, 5))
	require.Equal(t, 7, m.Cached)
	r.drop(x)
	r.close()
}

// Of several who have a block the last one to go offers it.
func TestLastOwnerOffersTheEnd(t *testing.T) {
	r := reuseRig(t, 40)
	a, _ := r.serve(sequence(1, 6), OpenOptions{})
	child, err := a.seq.Fork()
	require.NoError(t, err)
	fork := *a
	fork.seq = child
	r.drop(a)
	require.Equal(t, 4, r.matched(sequence(1, 7), OpenOptions{}), "the other may write into it")
	require.NoError(t, r.run(r.s, part[buffer]{&fork, []uint32{7}}))
	r.drop(&fork)
	b, m := r.read(sequence(1, 8), OpenOptions{})
	require.Equal(t, 7, m.Cached)
	require.Equal(t, fork.tokens, b.tokens)
	r.drop(b)
	r.close()
}

// The end of a sequence that was cut within a block which others can find is not offered besides that. Where it goes on, it
// does so in a copy, which is; and a block of its own that it was cut in is an end like others.
func TestEndWithinAPublishedBlock(t *testing.T) {
	r := reuseRig(t, 40)
	text := sequence(1, 12)
	cut := func(n int) *reader[buffer] {
		x, _ := r.serve(text, OpenOptions{})
		require.NoError(t, x.seq.Truncate(n))
		x.tokens, x.want, x.cut = x.tokens[:n], x.want[:n], n
		return x
	}
	a, b := cut(6), cut(6)
	watch := newMirror(t, r.pool)
	r.drop(a)
	require.NoError(t, r.run(r.s, part[buffer]{b, []uint32{99}}))
	require.Empty(t, watch.sub.C)
	r.drop(b)
	require.Equal(t, prefix.Event{Seq: 1, Kind: prefix.Stored, Keys: keysOf(r.pool, b.tokens)[1:], Parent: keysOf(r.pool, b.tokens)[0],
		Root: r.pool.common.Key, Tokens: []uint32{5, 6, 99}}, <-watch.sub.C)
	for _, prompt := range [][]uint32{append(slices.Clone(text), 13), append(slices.Clone(b.tokens), 13)} {
		x, m := r.read(prompt, OpenOptions{})
		require.Equal(t, 1, m.Uncached)
		r.drop(x)
	}
	require.NoError(t, r.pool.Clear(false))
	require.Equal(t, prefix.Cleared, (<-watch.sub.C).Kind)

	c := cut(10) // its third block leaves the tree: it may be written
	require.Equal(t, 8, r.matched(append(slices.Clone(text), 13), OpenOptions{}))
	r.drop(c)
	require.Equal(t, 10, r.matched(append(slices.Clone(text), 13), OpenOptions{}))
	x, m := r.serve(append(slices.Clone(text), 13), OpenOptions{})
	require.Equal(t, 10, m.Cached)
	r.drop(x)
	require.Equal(t, 4, r.idle().Prefix.Blocks)
	r.close()
}

// Where a copy of an end lacks a block, the end is taken out of the tree and written where it lies: a step, or a
// reservation, that fits without reuse fits with it.
func TestTailGivesWayInAFullPool(t *testing.T) {
	for _, reserve := range []bool{false, true} {
		r := reuseRig(t, 2)
		r.cache(sequence(1, 5), OpenOptions{})
		watch := newMirror(t, r.pool)
		for n := 5; n < 8; n++ { // all in two blocks
			x, m := r.read(sequence(1, n+1), OpenOptions{})
			require.Equal(t, n, m.Cached)
			blocks := x.numbers()
			if reserve {
				require.NoError(t, r.pool.Reserve(Reservation[buffer]{x.seq, n + 1}))
			}
			require.NoError(t, r.prefill(r.s, x))
			require.Equal(t, blocks, x.numbers())
			require.Equal(t, prefix.Removed, (<-watch.sub.C).Kind)
			r.drop(x)
			require.Equal(t, prefix.Stored, (<-watch.sub.C).Kind)
			require.Equal(t, n+1, r.matched(sequence(1, n+2), OpenOptions{}))
		}
		r.close()
	}

	r := reuseRig(t, 3) // of two who go on behind one end only one gets a copy
	r.cache(sequence(1, 6), OpenOptions{})
	a, _ := r.read(append(sequence(1, 6), 70), OpenOptions{})
	b, _ := r.read(append(sequence(1, 6), 80), OpenOptions{})
	require.ErrorIs(t, r.prefill(r.s, a, b), nil)
	require.NotEqual(t, a.numbers()[1], b.numbers()[1])
	r.idle() // while a copy is made, what it is made of has an owner more, and is no end
	r.drop(a, b)
	require.Equal(t, 3, r.idle().Prefix.Blocks)
	r.close()

	r = reuseRig(t, 2) // and there is none for the other
	r.cache(sequence(1, 6), OpenOptions{})
	a, _ = r.read(append(sequence(1, 6), 70), OpenOptions{})
	b, _ = r.read(append(sequence(1, 6), 80), OpenOptions{})
	require.ErrorIs(t, r.prefill(r.s, a, b), ErrOutOfBlocks{})
	require.Equal(t, 6, r.matched(sequence(1, 7), OpenOptions{}), "a step that fails changes nothing")
	require.ErrorIs(t, r.prefill(r.s, a), ErrOutOfBlocks{}, "the other has the block, too")
	r.drop(a)
	require.NoError(t, r.prefill(r.s, b))
	r.drop(b)
	r.close()
}

// So it is with groups: a turn that fits the pool without reuse fits it with it, where each part would need a copy.
func TestTailGivesWayInAFullPoolOfGroups(t *testing.T) {
	for name, cfg := range endingKinds() {
		t.Run(name, func(t *testing.T) {
			lengths := []int{1, 6, 21, 22}
			if emulated(testDevice().Info) && !testsize.Full() {
				lengths = lengths[1:2]
			}
			for _, n := range lengths {
				plain := cfg
				plain.Memory.Prefix = prefix.Off
				w := newGrouped(t, plain, 1)
				s, _ := w.open(nil)
				require.NoError(t, errors.Join(w.run(ask{s, sequence(1, n)}), w.run(ask{s, sequence(n+1, 1)})))
				full := cfg
				full.Memory.Blocks = w.stats().Peak
				w.drop(s)
				w.close()

				for _, reserve := range []bool{false, true} {
					w = newGrouped(t, full, 1)
					s, _ = w.open(nil)
					require.NoError(t, w.run(ask{s, sequence(1, n)}))
					w.drop(s)
					s, m := w.open(sequence(1, n+1))
					require.Equal(t, n, m.Cached)
					if reserve {
						require.NoError(t, w.pool.Reserve(Reservation[buffer]{s.seq, n + 1}))
					}
					require.NoError(t, w.run(ask{s, sequence(n+1, 1)}))
					w.drop(s)
					w.close()
				}
			}
		})
	}
}
