package prefix

import (
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// B14: the same tokens in another place have another key.
func TestB14KeysDependOnPlace(t *testing.T) {
	keys := fingerprint.Root(Scope{}).Keys(nil, 4, Query{Tokens: slices.Repeat([]uint32{1, 2, 3, 4}, 100)})
	require.Len(t, keys, 100)
	seen := map[Key]bool{}
	for _, k := range keys {
		seen[k] = true
	}
	require.Len(t, seen, 100)
}

// C1: the same salt hits, another does not. The salt is in the root alone and goes
// from key to key.
func TestC1Salt(t *testing.T) {
	r := newRig(t, 8, Config{BlockSize: 4})
	a, b := salted("a"), salted("b")
	r.cache(a, span(0, 8))
	_, m := r.match(a, span(0, 8))
	require.Equal(t, 8, m.Tokens)
	for _, other := range []Root{b, r.root} {
		_, m = r.match(other, span(0, 8))
		require.Zero(t, m.Tokens)
	}
	q := Query{Tokens: span(0, 8)}
	ka, kb := a.Keys(nil, 4, q), b.Keys(nil, 4, q)
	require.NotEqual(t, ka[0], kb[0])
	require.NotEqual(t, ka[1], kb[1])
	require.Equal(t, ka[1], Root{Key: ka[0]}.Keys(nil, 4, Query{Tokens: span(4, 8)})[0])
}

// C2: a salt is no adapter, whatever their names.
func TestC2SaltIsNoAdapter(t *testing.T) {
	r := newRig(t, 8, Config{BlockSize: 4})
	adapter := fingerprint.Root(Scope{Adapter: &Adapter{ID: "x"}})
	r.cache(salted("x"), span(0, 4))
	_, m := r.match(adapter, span(0, 4))
	require.Zero(t, m.Tokens)
	require.NotEqual(t, salted("x").Key, adapter.Key)
}

// C3: absent, zero and empty are three things, of salts and of adapters, and so are
// two strings that are cut in different places. A match inside of a block keeps to
// its scope.
func TestC3AbsentZeroEmpty(t *testing.T) {
	all := []Scope{
		{}, {Salt: []byte{}}, {Salt: []byte("0")}, {Salt: []byte{0}},
		{Adapter: &Adapter{}}, {Adapter: &Adapter{ID: "0"}}, {Adapter: &Adapter{Version: "0"}},
		{Salt: []byte("0"), Adapter: &Adapter{ID: "0"}}, {Salt: []byte("7"), Adapter: &Adapter{ID: "11"}},
		{Salt: []byte("11"), Adapter: &Adapter{ID: "7"}},
		{Adapter: &Adapter{ID: "ab", Version: "c"}}, {Adapter: &Adapter{ID: "a", Version: "bc"}},
	}
	r := newRig(t, 32, Config{BlockSize: 4})
	seen := map[Key]bool{}
	for _, s := range all {
		require.Equal(t, fingerprint.Root(s), fingerprint.Root(s))
		root := fingerprint.Root(s)
		_, m := r.match(root, span(0, 3))
		require.Zero(t, m.Tokens, "%+v", s)
		r.cache(root, span(0, 4))
		_, m = r.match(root, span(0, 3))
		require.Equal(t, 3, m.Tail)
		seen[root.Key] = true
	}
	require.Len(t, seen, len(all))
}

// C4: an adapter that was loaded again is another one.
func TestC4AdapterVersion(t *testing.T) {
	r := newRig(t, 8, Config{BlockSize: 4})
	r.cache(fingerprint.Root(Scope{Adapter: &Adapter{ID: "x", Version: "1"}}), span(0, 4))
	_, m := r.match(fingerprint.Root(Scope{Adapter: &Adapter{ID: "x", Version: "2"}}), span(0, 4))
	require.Zero(t, m.Tokens)
	require.Equal(t, OtherModel, m.MissReason())
}

// C5: an image decides the keys of the blocks that it overlaps and of what follows;
// text before it is shared, text after it is with the same image.
func TestC5ItemsAffectTheirBlocks(t *testing.T) {
	r := newRig(t, 32, Config{BlockSize: 4})
	tokens := span(0, 24)
	cat := ItemKeys([]Item{{Begin: 6, End: 10, Hash: []byte("cat")}}, len(tokens), 4)
	dog := ItemKeys([]Item{{Begin: 6, End: 10, Hash: []byte("dog")}}, len(tokens), 4)
	require.Len(t, cat, 3)
	require.Zero(t, cat[0])
	for i := 1; i < 3; i++ {
		require.NotZero(t, cat[i])
		require.NotEqual(t, cat[i], dog[i])
	}
	r.release(r.hold(Path{Root: r.root, Extra: cat}, tokens))
	for _, x := range []struct {
		extra []Key
		want  int
	}{{cat, 24}, {dog, 4}, {nil, 4}, {cat[:2], 8}, {append(slices.Clone(cat), Key{1}), 12}, {[]Key{{1}}, 0}} {
		_, m := r.tree.Lookup(nil, r.root, Query{Tokens: tokens, Extra: x.extra})
		require.Equal(t, x.want, m.Tokens)
	}
	plain := r.root.Keys(nil, 4, Query{Tokens: tokens})
	withCat := r.root.Keys(nil, 4, Query{Tokens: tokens, Extra: cat})
	require.Equal(t, plain[0], withCat[0])
	for i := 1; i < 6; i++ {
		require.NotEqual(t, plain[i], withCat[i])
	}
}

func TestItemKeys(t *testing.T) {
	image := []byte("image")
	require.Empty(t, ItemKeys(nil, 100, 4))
	require.Empty(t, ItemKeys([]Item{{Begin: 5, End: 5, Hash: image}, {Begin: 8, End: 2, Hash: image}}, 100, 4))
	require.Empty(t, ItemKeys([]Item{{Begin: 100, End: 110, Hash: image}}, 100, 4))
	one := func(items ...Item) Key { return ItemKeys(items, 4, 4)[0] }
	seen := map[Key]bool{}
	for _, k := range []Key{
		one(Item{0, 4, image}), one(Item{0, 3, image}), one(Item{1, 4, image}), one(Item{0, 4, nil}), one(Item{0, 4, []byte{}}),
		one(Item{-4, 4, image}), one(Item{0, 8, image}), // its other parts
		one(Item{0, 2, image}, Item{2, 4, image}), one(Item{2, 4, image}, Item{0, 2, image}),
	} {
		seen[k] = true
	}
	require.Len(t, seen, 9)
	// Which part of the image a block has is in its key, not where the prompt has it.
	keys := ItemKeys([]Item{{Begin: 8, End: 16, Hash: image}}, 16, 4)
	moved := ItemKeys([]Item{{Begin: 4, End: 12, Hash: image}}, 16, 4)
	require.Equal(t, keys[2:4], moved[1:3])
	require.NotEqual(t, keys[2], keys[3])
}

// C7: every part of a fingerprint separates; content, which says what the model and the
// storage are, in kvcache.
func TestC7FingerprintSeparates(t *testing.T) {
	base := Fingerprint{Content: Key{1}, BlockTokens: 6, Group: AllLayers}
	change := map[string][]func(*Fingerprint){
		"Content":     {func(f *Fingerprint) { f.Content = Key{2} }, func(f *Fingerprint) { f.Content = Key{} }},
		"BlockTokens": {func(f *Fingerprint) { f.BlockTokens++ }, func(f *Fingerprint) { f.BlockTokens = 0 }},
		"Group": {
			func(f *Fingerprint) { f.Group = "" }, func(f *Fingerprint) { f.Group = "window" },
			func(f *Fingerprint) { f.Group = "all\"\ngroup \"all" },
		},
	}
	r := newRig(t, 64, Config{BlockSize: 2})
	r.cache(base.Root(Scope{}), span(0, 2))
	seen := map[Key]bool{base.Root(Scope{}).Key: true}
	for field := range reflect.TypeFor[Fingerprint]().Fields() {
		require.NotEmpty(t, change[field.Name], "%s: what changes with it?", field.Name)
		for _, f := range change[field.Name] {
			other := base
			f(&other)
			root := other.Root(Scope{})
			require.False(t, seen[root.Key], field.Name)
			require.NotEqual(t, base.Text(), other.Text())
			seen[root.Key] = true
			_, m := r.match(root, span(0, 2))
			require.Zero(t, m.Tokens)
			require.Equal(t, OtherModel, m.MissReason())
		}
	}
}

// Every field of a scope is in the root.
func TestScopeFieldsSeparate(t *testing.T) {
	base := Scope{Salt: []byte("s"), Adapter: &Adapter{ID: "a", Version: "1"}}
	change := map[string]func(*Scope){
		"Salt": func(s *Scope) { s.Salt = []byte("t") }, "Adapter": func(s *Scope) { s.Adapter = nil },
		"ID": func(s *Scope) { s.Adapter.ID = "b" }, "Version": func(s *Scope) { s.Adapter.Version = "2" },
	}
	seen := map[Key]bool{fingerprint.Root(base).Key: true}
	for _, of := range []reflect.Type{reflect.TypeFor[Scope](), reflect.TypeFor[Adapter]()} {
		for field := range of.Fields() {
			require.NotNil(t, change[field.Name], "%s: what changes with it?", field.Name)
			adapter := *base.Adapter
			s := Scope{Salt: base.Salt, Adapter: &adapter}
			change[field.Name](&s)
			key := fingerprint.Root(s).Key
			require.False(t, seen[key], field.Name)
			seen[key] = true
		}
	}
}

// Keys that outlive their process need to tell one adapter from another of its name.
func TestPersistableScope(t *testing.T) {
	for _, s := range []Scope{{}, {Salt: []byte{}}, {Adapter: &Adapter{ID: "a", Version: "1"}}} {
		require.NoError(t, s.Persistable())
	}
	for _, a := range []Adapter{{}, {ID: "a"}} {
		err := Scope{Adapter: &a}.Persistable()
		require.ErrorIs(t, err, ErrArgument{})
		require.ErrorContains(t, err, "set Adapter.Version")
	}
}

// Digests are computed in any order and by many goroutines; the keys are those of Keys,
// whatever the parts.
func TestDigestsInParallel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bs := rapid.SampledFrom([]int{1, 3, 16, 40}).Draw(t, "block size")
		q := Query{Tokens: rapid.SliceOfN(rapid.Uint32(), 0, 50*bs).Draw(t, "tokens")}
		for range rapid.IntRange(0, 50).Draw(t, "extras") {
			q.Extra = append(q.Extra, Key{rapid.ByteRange(0, 1).Draw(t, "extra")})
		}
		parts := rapid.IntRange(1, 7).Draw(t, "blocks of a part")
		want := fingerprint.Root(Scope{}).Keys(nil, bs, q)

		digests := make([]Digest, len(want))
		var wg sync.WaitGroup
		for from := 0; from < len(digests); from += parts {
			to := min(from+parts, len(digests))
			part := Query{Tokens: q.Tokens[from*bs : min(to*bs, len(q.Tokens))]}
			if from < len(q.Extra) {
				part.Extra = q.Extra[from:min(to, len(q.Extra))]
			}
			wg.Go(func() { part.Digests(digests[from:from:to], bs) })
		}
		wg.Wait()
		require.Equal(t, want, fingerprint.Root(Scope{}).Key.Chain(nil, digests, Exact))
		require.Equal(t, digests, q.Digests([]Digest{}, bs))
	})
}

// Blocks of no tokens are none, and one may be larger than any prompt.
func TestKeysOfNothing(t *testing.T) {
	for _, bs := range []int{4, 5, math.MaxInt/2 + 1, math.MaxInt} {
		want := fingerprint.Root(Scope{}).Keys(nil, 4, Query{Tokens: span(0, 4)})
		require.Equal(t, want, fingerprint.Root(Scope{}).Keys(nil, bs, Query{Tokens: span(0, 4)}), bs)
		require.Len(t, Query{Tokens: span(0, 4)}.Digests(nil, bs), 1)
		require.Empty(t, fingerprint.Root(Scope{}).Keys(nil, bs, Query{}))
	}
	for _, bs := range []int{-1, 0} {
		require.Empty(t, fingerprint.Root(Scope{}).Keys(nil, bs, Query{Tokens: span(0, 4)}))
		require.Empty(t, Query{Tokens: span(0, 4)}.Digests(nil, bs))
	}
	require.Empty(t, Query{Extra: []Key{{1}}}.Digests(nil, 4))
	require.Empty(t, Key{}.Chain(nil, nil, Exact))
}

// No two blocks encode alike: not by the length of their tokens, their fidelity, their
// extra key, or by moving a part from one to another.
func TestKeysAreInjective(t *testing.T) {
	type block struct {
		tokens   []uint32
		extra    Key
		fidelity Fidelity
	}
	draw := rapid.Custom(func(t *rapid.T) block {
		return block{
			rapid.SliceOfN(rapid.SampledFrom([]uint32{0, 1, 255, 256, 1 << 16, 1<<24 - 1, 1 << 24}), 1, 3).Draw(t, "tokens"),
			Key{rapid.ByteRange(0, 1).Draw(t, "extra")},
			Fidelity(rapid.ByteRange(0, 2).Draw(t, "fidelity")),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		same := slices.Equal(a.tokens, b.tokens) && a.extra == b.extra && a.fidelity == b.fidelity
		ka := chain(Key{1}, a.tokens, mark{a.extra, a.fidelity})
		require.Equal(t, same, ka == chain(Key{1}, b.tokens, mark{b.extra, b.fidelity}))
		require.NotEqual(t, ka, chain(Key{2}, a.tokens, mark{a.extra, a.fidelity}))
	})
}

// Exact readers get exact blocks only; others get what they accept, and the more
// exact of two.
func TestFidelity(t *testing.T) {
	r := newRig(t, 64, Config{BlockSize: 2})
	lossy := r.hold(Path{Root: r.root, Fidelity: Requantized | Truncated}, span(0, 6))
	get := func(accept Fidelity) int {
		_, m := r.tree.Lookup(nil, r.root, Query{Tokens: span(0, 6), Accept: accept})
		return m.Tokens
	}
	require.Equal(t, []int{0, 0, 0, 6, 6}, []int{
		get(Exact), get(Requantized), get(Evicted | Truncated), get(Requantized | Truncated), get(Requantized | Truncated | Evicted),
	})
	better := r.hold(Path{Root: r.root, Fidelity: Truncated}, span(0, 4))
	exact := r.fresh(r.root, 1)
	r.insert(Path{Root: r.root}, span(0, 2), exact)
	got, m := r.tree.Lookup(nil, r.root, Query{Tokens: span(0, 6), Accept: ^Exact})
	require.Equal(t, exact, got)
	require.Equal(t, 2, m.Tokens)
	got, m = r.tree.Lookup(nil, r.root, Query{Tokens: span(0, 6), Accept: Truncated})
	require.Equal(t, exact, got) // a path goes down one child, that of the most exact block
	require.Equal(t, 2, m.Tokens)
	require.NotEqual(t, lossy[0], better[0])

	// A path that is exact at first is taken as far as it is.
	exact = r.hold(Path{Root: r.root}, span(10, 14))
	r.insert(Path{Root: r.root, Parent: exact[1], Fidelity: Evicted}, span(14, 16), r.fresh(r.root, 1))
	_, m = r.match(r.root, span(10, 16))
	require.Equal(t, 4, m.Tokens)
	m = r.tree.Match(r.root, Query{Tokens: span(10, 16), Accept: Evicted})
	require.Equal(t, 6, m.Tokens)
	require.Equal(t, Evicted, m.Fidelity)
}
