package prefix

import (
	"slices"
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
	require.Equal(t, OtherModel, m.Lacks())
}

// C5: an image decides the keys of the blocks that it overlaps and of what follows;
// text before it is shared, text behind it is with the same image.
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

// C6: keys are the same in every process and on every machine, and the encoding is
// canonical: there are no maps in it whose order could matter, only lists of parts
// in a fixed order. These constants were computed once; a change of one of them
// makes the keys of other processes and stored ones worthless.
func TestC6KeysAreStable(t *testing.T) {
	model := Fingerprint{
		Model: []byte("digest"), Layers: 32, KVHeads: 8, HeadDim: 128, VHeadDim: 128,
		K: "bf16", V: "bf16", BlockSize: 16, RoPE: []byte("theta 10000"),
	}
	none := model.Root(Scope{})
	root := model.Root(Scope{Salt: []byte("tenant"), Adapter: &Adapter{ID: "lora", Version: "2"}})
	keys := root.Keys(nil, 16, Query{Tokens: span(0, 40), Extra: []Key{{}, {1, 2, 3}}})
	items := ItemKeys([]Item{{Begin: 2, End: 5, Hash: []byte("image")}}, 40, 16)
	for _, x := range []struct {
		name, want string
		have       Key
	}{
		{"root", "d2b2f55014883e84a51a03d21b3ba82388d787f996a8d1226450b928b890077a", none.Key},
		{"salted root", "fe3a46b4e4e078cc9b6495fe0650c44ad43da6a1dd892f4ecb315820f78e176a", root.Key},
		{"full block", "7ae6ad223333aa0a86cd9ee3eae24e4472f17f2aa86b730dc1dd4aed7b106c9f", keys[0]},
		{"with extra", "6e7d55e479c6ff6629ba26ff74f6b44c473c069278626e596d3dab5830b849e7", keys[1]},
		{"tail", "34d934f8dc625c2a0a85048d5cc9e297415e4fe7a9b579b42cf7291a6d44be1e", keys[2]},
		{"lossy", "6c33cae4c7122025bf8600c7f44b08f9c7784b4f9b8e42e1e394926726f05c36", chain(keys[0], span(0, 16), mark{fidelity: Requantized})},
		{"item", "04bcc7826508b6c66500863618258371aaa6587acfdc019e75749685689be0d9", items[0]},
	} {
		require.Equal(t, x.want, x.have.String(), x.name)
	}
}

// C7: every part of a fingerprint separates.
func TestC7FingerprintSeparates(t *testing.T) {
	base := Fingerprint{
		Model: []byte{1}, Layers: 2, KVHeads: 3, HeadDim: 4, VHeadDim: 5, K: "k", V: "v", BlockSize: 6,
		RoPE: []byte{7}, Masks: []byte{8},
	}
	change := map[string]func(*Fingerprint){
		"model": func(f *Fingerprint) { f.Model = []byte{2} }, "no model": func(f *Fingerprint) { f.Model = nil },
		"empty model": func(f *Fingerprint) { f.Model = []byte{} },
		"layers":      func(f *Fingerprint) { f.Layers++ }, "heads": func(f *Fingerprint) { f.KVHeads++ },
		"dim": func(f *Fingerprint) { f.HeadDim++ }, "value dim": func(f *Fingerprint) { f.VHeadDim++ },
		"dims": func(f *Fingerprint) { f.HeadDim, f.VHeadDim = f.VHeadDim, f.HeadDim },
		"K":    func(f *Fingerprint) { f.K = "kv"; f.V = "" }, "V": func(f *Fingerprint) { f.V = "w" },
		"formats": func(f *Fingerprint) { f.K, f.V = f.V, f.K }, "block size": func(f *Fingerprint) { f.BlockSize++ },
		"rope": func(f *Fingerprint) { f.RoPE = []byte{9} }, "no rope": func(f *Fingerprint) { f.RoPE = nil },
		"masks": func(f *Fingerprint) { f.Masks = []byte{9} }, "no masks": func(f *Fingerprint) { f.Masks = nil },
		"rope and masks": func(f *Fingerprint) { f.RoPE, f.Masks = f.Masks, f.RoPE },
	}
	r := newRig(t, 64, Config{BlockSize: 2})
	r.cache(base.Root(Scope{}), span(0, 2))
	seen := map[Key]string{base.Root(Scope{}).Key: "base"}
	for name, f := range change {
		other := base
		f(&other)
		root := other.Root(Scope{})
		require.Empty(t, seen[root.Key], name)
		seen[root.Key] = name
		_, m := r.match(root, span(0, 2))
		require.Zero(t, m.Tokens)
		require.Equal(t, OtherModel, m.Lacks())
	}
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
			rapid.SliceOfN(rapid.Uint32Range(0, 2), 1, 3).Draw(t, "tokens"),
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
