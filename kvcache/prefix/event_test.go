package prefix

import (
	"math"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// index is what another process knows of a tree by its events alone: no tokens, no
// tree, only keys.
type index struct {
	t    require.TestingT
	has  map[Key]bool
	last uint64
	lost uint64
}

func newIndex(t require.TestingT, have []Event) *index {
	x := &index{t: t, has: map[Key]bool{}}
	for _, e := range have {
		x.last = e.Seq
		x.store(e)
	}
	return x
}

func (x *index) store(e Event) {
	for _, k := range e.Keys {
		require.False(x.t, x.has[k], "stored twice")
		x.has[k] = true
	}
}

func (x *index) apply(events []Event) {
	for _, e := range events {
		require.Equal(x.t, x.last+e.Lost+1, e.Seq)
		x.last, x.lost = e.Seq, x.lost+e.Lost
		switch e.Kind {
		case Stored:
			x.store(e)
		case Removed:
			for _, k := range e.Keys {
				require.True(x.t, x.has[k], "removed without being there")
				delete(x.has, k)
			}
		case Cleared:
			clear(x.has)
		}
	}
}

// score is the number of leading keys that the index has.
func (x *index) score(keys []Key) (n int) {
	for n < len(keys) && x.has[keys[n]] {
		n++
	}
	return n
}

// G1, G2: an index that is built from the events answers every prompt as the tree
// does: up to the first gap, each tenant for himself, after evictions and clears.
func TestG1IndexFollowsTree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t, 24, Config{BlockSize: 2})
		sub, have := r.tree.Subscribe(1000)
		x := newIndex(rt, have)
		roots := []Root{r.root, salted("a")}
		for range 40 {
			root := roots[rapid.IntRange(0, 1).Draw(rt, "root")]
			tokens := rapid.SliceOfN(rapid.Uint32Range(1, 2), 0, 12).Draw(rt, "prompt")
			q := Query{Tokens: tokens[:len(tokens)/2*2]}
			switch rapid.IntRange(0, 9).Draw(rt, "operation") {
			case 0:
				r.tree.Evict(rapid.IntRange(0, r.tree.Evictable(root)).Draw(rt, "evict"), root)
			case 1:
				require.NoError(rt, r.tree.Clear(false))
			default:
				r.cache(root, tokens)
			}
			x.apply(listen(sub))
			_, m := r.tree.Lookup(nil, root, q)
			require.Equal(rt, m.Blocks, x.score(root.Keys(nil, 2, q)))
			require.Len(rt, x.has, r.tree.Stats().Blocks)
		}
	})
}

// G1: who subscribes late is told what there is, and goes on from there.
func TestG1LateSubscriber(t *testing.T) {
	r := newRig(t, 32, Config{BlockSize: 2})
	r.cache(r.root, span(0, 9))
	r.cache(r.root, append(span(0, 4), span(20, 24)...))
	r.release(r.hold(Path{Root: salted("a"), Extra: []Key{{}, {3}}}, span(0, 6)))
	early, have := r.tree.Subscribe(100)
	x := newIndex(t, have)
	r.cache(r.root, span(50, 54))
	late, have := r.tree.Subscribe(100)
	y := newIndex(t, have)
	r.cache(r.root, append(span(0, 8), span(60, 70)...))
	require.True(t, r.tree.Evict(7, r.root))
	x.apply(listen(early))
	y.apply(listen(late))
	require.Equal(t, x.has, y.has)
	require.Len(t, x.has, r.tree.Stats().Blocks)
	r.tree.Unsubscribe(late)
	_, open := <-late.C
	require.False(t, open)
	r.tree.Unsubscribe(late) // again is nothing
	r.cache(r.root, span(80, 84))
	require.Len(t, listen(early), 1)
	r.tree.Close()
	_, open = <-early.C
	require.False(t, open)
	r.cache(r.root, span(90, 94))
}

// G2: a receiver that does not read makes nobody wait. It learns how much it missed
// with the next event that fits.
func TestG2LossIsReported(t *testing.T) {
	r := newRig(t, 64, Config{BlockSize: 1})
	sub, _ := r.tree.Subscribe(0) // one at least
	for i := range 10 {
		r.cache(r.root, span(10*i, 10*i+2))
	}
	first := listen(sub)
	require.Len(t, first, 1)
	require.Equal(t, [2]uint64{1, 0}, [2]uint64{first[0].Seq, first[0].Lost})
	r.cache(r.root, span(500, 502))
	next := listen(sub)
	require.Len(t, next, 1)
	require.Equal(t, [2]uint64{11, 9}, [2]uint64{next[0].Seq, next[0].Lost})
	r.cache(r.root, span(600, 602))
	require.Zero(t, listen(sub)[0].Lost)
	big, _ := r.tree.Subscribe(math.MaxInt)
	require.Equal(t, MaxEventBuffer, cap(big.C))
}

// G3: what an event of stored blocks carries is enough to compute its keys.
func TestG3StoredCarriesAll(t *testing.T) {
	r := newRig(t, 32, Config{BlockSize: 4})
	sub, have := r.tree.Subscribe(100)
	require.Empty(t, have)
	extra := []Key{{}, {7}, {}}
	blocks := r.hold(Path{Root: r.root, Extra: extra}, span(0, 10))
	events := listen(sub)
	require.Len(t, events, 1)
	e := events[0]
	keys := r.root.Keys(nil, 4, Query{Tokens: span(0, 10), Extra: extra})
	require.Equal(t, Event{
		Seq: 1, Kind: Stored, Keys: keys, Root: r.root.Key, Tokens: span(0, 10),
		Extra: extra, Fidelity: []Fidelity{0, 0, 0},
	}, e)

	fresh := r.fresh(r.root, 2)
	r.insert(Path{Root: r.root, Parent: blocks[0], Fidelity: Evicted}, span(50, 58), fresh)
	events = listen(sub)
	require.Len(t, events, 1)
	require.Equal(t, keys[0], events[0].Parent)
	require.Equal(t, []Fidelity{Evicted, Evicted}, events[0].Fidelity)
	require.Equal(t, chain(keys[0], span(50, 54), mark{fidelity: Evicted}), events[0].Keys[0])

	// The same again tells nothing, nor does a part; only what is new.
	r.hold(Path{Root: r.root, Extra: extra}, span(0, 8))
	require.Empty(t, listen(sub))
	r.hold(Path{Root: r.root}, append(span(0, 4), span(80, 88)...))
	events = listen(sub)
	require.Len(t, events, 1)
	require.Equal(t, [2]any{2, keys[0]}, [2]any{len(events[0].Keys), events[0].Parent})
	require.Nil(t, events[0].Extra)
	require.Equal(t, []string{"none", "stored", "removed", "cleared"}, []string{EventKind(0).String(), Stored.String(), Removed.String(), Cleared.String()})
}

// A long path is several events, each the parent of the next.
func TestG3LongPath(t *testing.T) {
	r := newRig(t, 1000, Config{BlockSize: 1})
	sub, _ := r.tree.Subscribe(100)
	r.cache(r.root, span(0, 700))
	var keys []Key
	for _, e := range listen(sub) {
		if len(keys) > 0 {
			require.Equal(t, keys[len(keys)-1], e.Parent)
		}
		keys = append(keys, e.Keys...)
	}
	require.Equal(t, r.root.Keys(nil, 1, Query{Tokens: span(0, 700)}), keys)
}

// G3: an insertion that fails tells nothing; one that is cut off by a quota tells what
// it stored; what is removed was stored.
func TestG3FailedInsertTellsNothing(t *testing.T) {
	r := newRig(t, 16, Config{BlockSize: 2})
	sub, _ := r.tree.Subscribe(100)
	blocks := r.fresh(r.root, 3)
	_, _, err := r.tree.Insert(nil, Path{Root: r.root}, span(0, 8), blocks)
	require.ErrorIs(t, err, ErrArgument{})
	_, _, err = r.tree.Insert(nil, Path{Root: r.root, Parent: block.Block{ID: 9, Gen: 1}}, span(0, 6), blocks)
	require.ErrorIs(t, err, ErrDetached)
	require.Empty(t, listen(sub))

	require.NoError(t, r.tree.SetLimits(r.root, Limits{Quota: 2}))
	n, _, err := r.tree.Insert(nil, Path{Root: r.root}, span(0, 6), blocks)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	events := listen(sub)
	require.Len(t, events, 1)
	require.Len(t, events[0].Keys, 2)
	require.Equal(t, span(0, 4), events[0].Tokens)
	r.release(blocks)
	r.cache(r.root, span(10, 14))
	removed := keysOf(ofKind(listen(sub), Removed))
	require.Len(t, removed, 2)
	for _, k := range removed {
		require.True(t, slices.Contains(events[0].Keys, k))
	}
}

// Events are the receiver's: the tree does not change their slices later.
func TestEventsDoNotChange(t *testing.T) {
	r := newRig(t, 64, Config{BlockSize: 2, Policy: LRU})
	sub, _ := r.tree.Subscribe(100)
	r.cache(r.root, span(0, 12))
	e := listen(sub)[0]
	want := Event{Tokens: slices.Clone(e.Tokens), Keys: slices.Clone(e.Keys)}
	for i := range 5 {
		require.True(t, r.tree.Evict(2+i%3, r.root))
		r.cache(r.root, append(span(0, 2*i), span(100, 110)...))
	}
	require.Equal(t, want, Event{Tokens: e.Tokens, Keys: e.Keys})
}

// Keys are computed while somebody listens, and not otherwise; who comes later, after whatever
// history, gets those of all that is there.
func TestKeysAreComputedWhenAskedFor(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		bs := rapid.IntRange(1, 3).Draw(rt, "block size")
		r := newRig(t, 40, Config{BlockSize: bs, Policy: LRU})
		var sub *Subscription
		for range 30 {
			tokens := rapid.SliceOfN(rapid.Uint32Range(1, 2), 0, 6*bs).Draw(rt, "tokens")
			switch rapid.IntRange(0, 5).Draw(rt, "operation") {
			case 0:
				r.tree.Evict(rapid.IntRange(0, r.alloc.Cached()).Draw(rt, "evict"), r.root)
			case 1:
				if blocks, m := r.match(r.root, tokens); m.Blocks > 0 {
					r.tree.Forget(blocks[m.Blocks-1])
				}
			case 2:
				if sub != nil {
					r.tree.Unsubscribe(sub)
					sub = nil
					break
				}
				known := map[Key]bool{r.root.Key: true}
				var have []Event
				sub, have = r.tree.Subscribe(1)
				for _, e := range have {
					parent := e.Parent
					if parent == (Key{}) {
						parent = e.Root
					}
					require.True(rt, known[parent], "parents first")
					for i, k := range e.Keys {
						var m mark
						if e.Extra != nil {
							m.extra = e.Extra[i]
						}
						if e.Fidelity != nil {
							m.fidelity = e.Fidelity[i]
						}
						parent = chain(parent, e.Tokens[i*bs:min((i+1)*bs, len(e.Tokens))], m)
						require.Equal(rt, parent, k)
						known[k] = true
					}
				}
			default:
				before, p := r.keys(), Path{Root: r.root}
				if rapid.Bool().Draw(rt, "marked") { // an image in some block, or blocks that are not exact
					p.Extra = make([]Key, (len(tokens)+bs-1)/bs)
					for i := range p.Extra {
						p.Extra[i][0] = rapid.ByteRange(0, 1).Draw(rt, "extra")
					}
					p.Fidelity = rapid.SampledFrom([]Fidelity{Exact, Requantized}).Draw(rt, "fidelity")
				}
				r.release(r.hold(p, tokens))
				if sub == nil {
					require.LessOrEqual(rt, r.keys(), before)
				}
			}
			require.NoError(rt, r.tree.Check())
		}
	})
}

// keys is how many keys the tree has.
func (r *rig) keys() (n int) {
	for _, root := range r.tree.roots {
		each(&root.node, func(node *node) { n += len(node.keys) })
	}
	return n
}
