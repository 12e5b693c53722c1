package prefix

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// elsewhere is the part of a world that is not on the device: what has left it, and the
// contents, by their keys. The model learns of no change here from the tree but the question
// of Config.Demote: everything else follows from what is done and from the device's events.
type elsewhere struct {
	most      int
	offloaded map[string]gone // by path
	order     []string        // of them, the one used least recently first
	moving    map[string]bool // were demoted, and the event that says so is not read yet
	offered   []offer         // in the insertion or promotion at work
	tier      map[Key]string  // contents
}

// gone is what the model knows of a path that is offloaded.
type gone struct {
	scope   string
	tokens  []uint32
	key     Key
	expires int64
}

// offer is a block on its way into the tree, of which no event has told yet.
type offer struct {
	path  string
	block block.Block
}

// demote is Config.Demote: the content is copied, or there is no room for it.
func (w *world) demote(b block.Block, key Key) bool {
	w.listen()
	f := &w.far
	for _, o := range f.offered { // and in the tree already
		if w.tree.at(o.block) != nil {
			w.back(o.path)
		}
	}
	at := w.content[b.ID]
	require.True(w.t, w.known[at], "demoted without being there: %s", at)
	require.Equal(w.t, at, w.paths[key])
	if rapid.IntRange(0, 4).Draw(w.t, "no room") == 0 {
		return false
	}
	tokens := keyTokens[key]
	require.Zero(w.t, len(tokens)%w.bs)
	scope := w.paths[w.tree.entries[b.ID].node.root.Key]
	f.offloaded[at] = gone{scope, tokens, key, w.tree.entries[b.ID].expires}
	f.order = append(f.order, at)
	f.moving[at], f.tier[key] = true, at
	for len(f.order) > f.most {
		first := f.order[0]
		w.lose(first)
	}
	return true
}

// lose forgets what is offloaded at a path, and returns how much was there, below it included.
func (w *world) lose(at string) (n int) {
	g, ok := w.far.offloaded[at]
	if !ok {
		return 0
	}
	for below, x := range w.far.offloaded {
		if x.scope == g.scope && len(x.tokens) >= len(g.tokens) && common(x.tokens, g.tokens) == len(g.tokens) {
			delete(w.far.offloaded, below)
			n++
		}
	}
	w.far.order = slices.DeleteFunc(w.far.order, func(p string) bool { _, there := w.far.offloaded[p]; return !there })
	return n
}

// left is what the removal of a resident path means: it was demoted, or what is offloaded below
// it cannot be reached any more.
func (w *world) left(at, scope string, tokens []uint32) {
	if w.far.moving[at] {
		delete(w.far.moving, at)
		return
	}
	if len(tokens)%w.bs != 0 {
		return // nothing is below it
	}
	w.far.offloaded[at] = gone{scope: scope, tokens: tokens}
	w.lose(at)
}

// back makes a path resident.
func (w *world) back(at string) {
	delete(w.far.offloaded, at)
	w.far.order = slices.DeleteFunc(w.far.order, func(p string) bool { return p == at })
}

// passed forgets what has had its time.
func (w *world) passed() {
	for at, g := range w.far.offloaded {
		if g.expires != 0 && g.expires <= w.now.UnixNano() {
			w.lose(at)
		}
	}
}

// offer notes what a sequence is about to insert.
func (w *world) offer(u *user, from, to int) {
	w.listen()
	w.far.offered = nil
	for i := from; i < to; i++ {
		w.far.offered = append(w.far.offered, offer{path(u.name, u.tokens[:min((i+1)*w.bs, len(u.tokens))]), u.blocks[i]})
	}
}

// follows is the paths that go on away with a query after that many blocks.
func (w *world) follows(scope string, tokens []uint32, blocks int) (paths []string) {
	for end := (blocks + 1) * w.bs; end <= len(tokens); end += w.bs {
		at := path(scope, tokens[:end])
		if _, there := w.far.offloaded[at]; !there {
			break
		}
		paths = append(paths, at)
	}
	return paths
}

// verifyAway compares what a match has away, and its keys, with the model.
func (w *world) verifyAway(scope string, tokens []uint32, m Match) {
	want := w.follows(scope, tokens, m.Blocks)
	require.Equal(w.t, len(want)*w.bs, m.Offloaded, "%s", path(scope, tokens))
	var have []string
	for _, key := range w.tree.OffloadedKeys(nil, fingerprint.Root(scopes[scope]), Query{Tokens: tokens}, m) {
		have = append(have, w.paths[key])
		require.Equal(w.t, w.paths[key], w.far.tier[key])
	}
	require.Equal(w.t, want, have)
}

// touch is what taking a match means for what it has away.
func (w *world) touch(scope string, tokens []uint32, m Match) {
	for _, at := range slices.Backward(w.follows(scope, tokens, m.Blocks)) {
		i := slices.Index(w.far.order, at)
		w.far.order = append(slices.Delete(w.far.order, i, i+1), at)
	}
}

// aim draws a query, most of the time one of which something is offloaded.
func (w *world) aim() (scope string, tokens []uint32) {
	if len(w.far.order) > 0 && rapid.IntRange(0, 3).Draw(w.t, "aim") > 0 {
		g := w.far.offloaded[rapid.SampledFrom(w.far.order).Draw(w.t, "away")]
		return g.scope, append(slices.Clone(g.tokens), w.drawTokens("behind")...)
	}
	return rapid.SampledFrom(scopeNames).Draw(w.t, "scope"), w.drawTokens("prompt")
}

// promote does what a runner does with a prompt of which a part is offloaded: it loads some of
// that, all or none.
func (w *world) promote() {
	name, tokens := w.aim()
	u := &user{root: fingerprint.Root(scopes[name]), name: name, keep: RetentionHint{Priority: rapid.IntRange(0, 3).Draw(w.t, "priority")}}
	q := Query{Tokens: tokens}
	blocks, m, err := w.tree.Take(nil, u.root, q, u.keep, Match{})
	require.NoError(w.t, err)
	w.listen()
	w.verify(name, tokens, blocks, m)
	w.verifyAway(name, tokens, m)
	w.touch(name, tokens, m)
	require.NoError(w.t, w.tree.Release(blocks[m.Blocks:]))
	u.blocks = blocks[:m.Blocks]
	u.published = m.Blocks
	keys := w.tree.OffloadedKeys(nil, u.root, q, m)
	keys = keys[:rapid.IntRange(0, len(keys)).Draw(w.t, "loaded")]
	u.tokens = slices.Clone(tokens[:(m.Blocks+len(keys))*w.bs])
	w.seqs = append(w.seqs, u)
	if short := len(keys) - w.alloc.Free(); short > 0 && !w.tree.Evict(short, u.root) {
		u.tokens = u.tokens[:m.Blocks*w.bs]
		return
	}
	w.listen()
	fresh, err := w.alloc.AllocateN(nil, len(keys)) // making room may have dropped what was wanted
	require.NoError(w.t, err)
	u.blocks = append(u.blocks, fresh...)
	for i, b := range fresh {
		w.content[b.ID] = w.far.tier[keys[i]]
		require.Equal(w.t, path(name, tokens[:(m.Blocks+i+1)*w.bs]), w.content[b.ID])
	}
	var parent block.Block
	if m.Blocks > 0 {
		parent = u.blocks[m.Blocks-1]
	}
	there := min(len(w.follows(name, tokens, m.Blocks)), len(keys))
	w.offer(u, m.Blocks, len(u.blocks))
	n, err := w.tree.Promote(parent, keys, fresh, u.keep)
	require.NoError(w.t, err)
	w.listen()
	u.published += n
	if w.tree.Limits(u.root).Quota == 0 {
		require.Equal(w.t, there, n)
	} else {
		require.LessOrEqual(w.t, n, there)
	}
	if full, _ := w.expect(name, tokens); full < m.Blocks+n {
		require.Fail(w.t, "what was promoted is not found")
	}
}

// misuse promotes what cannot be, which changes nothing.
func (w *world) misuse() {
	u := w.pick()
	if u == nil || len(w.far.order) == 0 || w.alloc.Free() == 0 {
		return
	}
	w.tree.expire()
	w.listen()
	key := w.far.offloaded[rapid.SampledFrom(w.far.order).Draw(w.t, "key")].key
	g := w.far.offloaded[w.paths[key]]
	before, order := dump(w.tree), slices.Clone(w.far.order)
	var parent block.Block
	if u.published > 0 {
		parent = u.blocks[u.published-1]
	}
	fits := u.name == g.scope && !u.dead && (u.published+1)*w.bs == len(g.tokens) && common(u.tokens[:u.published*w.bs], g.tokens) == u.published*w.bs ||
		parent == block.Block{} && len(g.tokens) == w.bs
	var err error
	if fresh, e := w.alloc.AllocateN(nil, 1); e == nil && !fits {
		_, err = w.tree.Promote(parent, []Key{key}, fresh, RetentionHint{})
		require.Error(w.t, err)
		_, err = w.tree.Promote(parent, []Key{key, key}, fresh, RetentionHint{})
		require.ErrorIs(w.t, err, ErrArgument{})
		require.NoError(w.t, w.tree.Release(fresh))
	} else if e == nil {
		_, err = w.tree.Promote(parent, []Key{key, key}, append(fresh, fresh...), RetentionHint{})
		require.ErrorIs(w.t, err, ErrArgument{})
		require.NoError(w.t, w.tree.Release(fresh))
	}
	require.Equal(w.t, before, dump(w.tree))
	require.Equal(w.t, order, w.far.order)
}

// drop says of a key that its content is nowhere any more.
func (w *world) drop() {
	if w.far.most == 0 {
		require.Zero(w.t, w.tree.Drop(Key{1}))
		return
	}
	keys := []Key{{1}}
	for k, at := range w.paths {
		if w.known[at] { // resident: nothing happens
			keys = append(keys, k)
		}
	}
	for _, g := range w.far.offloaded {
		keys = append(keys, g.key)
	}
	slices.SortFunc(keys, Key.compare)
	key := rapid.SampledFrom(keys).Draw(w.t, "drop")
	require.Equal(w.t, w.lose(w.paths[key]), w.tree.Drop(key))
}

// checkOwners compares the owners of all blocks with who has them.
func (w *world) checkOwners() {
	owners := map[block.Block]int{}
	for _, u := range w.seqs {
		for _, b := range u.blocks {
			owners[b]++
		}
	}
	w.tree.Leased(func(b block.Block) { owners[b]++ })
	require.Equal(w.t, len(owners), w.alloc.Held())
	for b, n := range owners {
		refs, err := w.alloc.Refs(b)
		require.NoError(w.t, err)
		require.Equal(w.t, n, refs)
	}
}

// checkOffloaded compares all that is offloaded with the model: by number, in order, and by matches.
func (w *world) checkAway() {
	f := &w.far
	f.offered = nil
	require.Empty(w.t, f.moving)
	require.Equal(w.t, len(f.offloaded), w.tree.Stats().Offloaded)
	require.LessOrEqual(w.t, len(f.offloaded), f.most)
	var order []string
	all, _ := w.tree.offloaded.list.All(w.tree.offloaded.links)
	for _, i := range all {
		e := &w.tree.offloaded.entries[i]
		order = append(order, w.paths[e.node.keys[e.index()]])
	}
	require.Equal(w.t, len(f.order), len(order))
	for i := range order {
		require.Equal(w.t, f.order[i], order[i])
	}
	salted := 0
	for _, g := range f.offloaded {
		blocks, m := w.tree.Lookup(nil, fingerprint.Root(scopes[g.scope]), Query{Tokens: g.tokens})
		full, tail := w.expect(g.scope, g.tokens)
		require.Equal(w.t, [2]int{full, tail}, [2]int{m.Blocks, m.Tail})
		require.Equal(w.t, len(g.tokens), m.Blocks*w.bs+m.Offloaded)
		w.verify(g.scope, g.tokens, blocks, m)
		w.verifyAway(g.scope, g.tokens, m)
		if g.scope == "a" {
			salted++
		}
	}
	require.Equal(w.t, salted, w.tree.SaltStats(fingerprint.Root(scopes["a"])).Offloaded)
}
