package prefix

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// world is a tree under test beside a naive model of it: a map of all prefixes,
// kept up to date by the tree's events alone.
type world struct {
	t     *rapid.T
	tree  *Tree
	alloc *block.BlockAllocator
	bs    int
	now   time.Time

	sub     *Subscription
	lastSeq uint64
	log     []string          // of all events, to compare two runs
	known   map[string]bool   // by path: what the tree has
	paths   map[Key]string    // of keys that were ever announced
	content map[uint32]string // path that was written into a block, by its number
	far     elsewhere
	seqs    []*user
	leases  []*Lease
}

// user is a sequence: it owns blocks, of which the first published are in the tree.
type user struct {
	root      Root
	name      string
	tokens    []uint32
	blocks    []block.Block
	published int
	dead      bool // its last published block was taken out of the tree
	keep      RetentionHint
}

var fingerprint = Fingerprint{Group: AllLayers}

// scopes differ in every way that the tree separates.
var scopes = map[string]Scope{
	"none": {}, "empty": {Salt: []byte{}}, "a": {Salt: []byte("a")}, "adapter a": {Adapter: &Adapter{ID: "a"}},
}

var scopeNames = []string{"none", "empty", "a", "adapter a"}

func path(scope string, tokens []uint32) string { return fmt.Sprint(scope, " ", tokens) }

func newWorld(t *rapid.T, p Policy) *world {
	w := &world{
		t: t, bs: rapid.IntRange(1, 4).Draw(t, "block size"), now: time.Unix(1000, 0),
		known: map[string]bool{}, paths: map[Key]string{}, content: map[uint32]string{},
	}
	var err error
	w.alloc, err = block.New(rapid.IntRange(4, 40).Draw(t, "blocks"))
	require.NoError(t, err)
	w.far = elsewhere{
		most:      rapid.SampledFrom([]int{0, 1, 4, 20}).Draw(t, "away"),
		offloaded: map[string]gone{}, moving: map[string]bool{}, tier: map[Key]string{},
	}
	w.tree, err = New(w.alloc, Config{
		BlockSize: w.bs, Policy: p, Now: func() time.Time { return w.now }, MaxOffloaded: w.far.most, Demote: w.demote,
	})
	require.NoError(t, err)
	w.sub, _ = w.tree.Subscribe(10000)
	for _, name := range scopeNames { // so that paths are found by the keys of roots
		w.paths[fingerprint.Root(scopes[name]).Key] = name
	}
	return w
}

// listen applies the events to the model.
func (w *world) listen() {
	for {
		select {
		case e := <-w.sub.C:
			require.Equal(w.t, w.lastSeq+1, e.Seq)
			require.Zero(w.t, e.Lost)
			w.lastSeq = e.Seq
			w.apply(e)
		default:
			return
		}
	}
}

func (w *world) apply(e Event) {
	scope := w.paths[e.Root]
	switch e.Kind {
	case Stored:
		var tokens []uint32
		if e.Parent != (Key{}) {
			tokens = slices.Clone(w.tokensOf(e.Parent))
		}
		for i, key := range e.Keys {
			tokens = append(tokens, e.Tokens[i*w.bs:min((i+1)*w.bs, len(e.Tokens))]...)
			at := path(scope, tokens)
			require.False(w.t, w.known[at], "stored twice: %s", at)
			w.known[at] = true
			w.paths[key] = at
			w.back(at)
			keyTokens[key] = slices.Clone(tokens)
			w.log = append(w.log, "+"+at)
		}
	case Removed:
		for _, key := range e.Keys {
			at := w.paths[key]
			require.True(w.t, w.known[at], "removed without being there: %s", at)
			delete(w.known, at)
			w.left(at, scope, keyTokens[key])
			w.log = append(w.log, "-"+at)
		}
	case Cleared:
		clear(w.known)
		clear(w.far.offloaded)
		w.far.order = nil
		w.log = append(w.log, "cleared")
	}
}

// keyTokens are the tokens of every key that a test has seen.
var keyTokens = map[Key][]uint32{}

func (w *world) tokensOf(k Key) []uint32 {
	tokens, ok := keyTokens[k]
	require.True(w.t, ok, "parent was never stored")
	return tokens
}

// expect is the naive model's answer: tokens of the longest known prefix.
func (w *world) expect(scope string, tokens []uint32) (blocks, tail int) {
	for (blocks+1)*w.bs <= len(tokens) && w.known[path(scope, tokens[:(blocks+1)*w.bs])] {
		blocks++
	}
	base := tokens[:blocks*w.bs]
	for key, at := range w.paths { // any block after it that begins alike
		have := keyTokens[key]
		if !w.known[at] || at != path(scope, have) || len(have) <= len(base) || len(have) > len(base)+w.bs {
			continue
		}
		if common(have, base) == len(base) {
			tail = max(tail, common(have[len(base):], tokens[len(base):]))
		}
	}
	return blocks, tail
}

func (w *world) drawTokens(label string) []uint32 {
	return rapid.SliceOfN(rapid.Uint32Range(1, 2), 0, 5*w.bs).Draw(w.t, label)
}

func (w *world) pick() *user {
	if len(w.seqs) == 0 {
		return nil
	}
	return w.seqs[rapid.IntRange(0, len(w.seqs)-1).Draw(w.t, "sequence")]
}

// lookup compares a lookup with the model, and what is in the blocks it names.
func (w *world) lookup() {
	name := rapid.SampledFrom(scopeNames).Draw(w.t, "scope")
	tokens := w.drawTokens("query")
	blocks, m := w.tree.Lookup(nil, fingerprint.Root(scopes[name]), Query{Tokens: tokens})
	full, tail := w.expect(name, tokens)
	require.Equal(w.t, [2]int{full, tail}, [2]int{m.Blocks, m.Tail}, "%s", path(name, tokens))
	require.Equal(w.t, full*w.bs+tail, m.Tokens)
	w.verify(name, tokens, blocks, m)
	w.verifyAway(name, tokens, m)
}

// verify checks that the blocks of a match hold what the query asks for.
func (w *world) verify(name string, tokens []uint32, blocks []block.Block, m Match) {
	for i := range m.Blocks {
		require.Equal(w.t, path(name, tokens[:(i+1)*w.bs]), w.content[blocks[i].ID])
	}
	if m.Tail > 0 {
		require.Len(w.t, blocks, m.Blocks+1)
		have := w.content[blocks[m.Blocks].ID]
		want := path(name, tokens[:m.Tokens])
		require.Equal(w.t, want[:len(want)-1], have[:len(want)-1])
	}
}

func (w *world) open() {
	name := rapid.SampledFrom(scopeNames).Draw(w.t, "scope")
	u := &user{root: fingerprint.Root(scopes[name]), name: name}
	if rapid.IntRange(0, 4).Draw(w.t, "timed") == 0 {
		u.keep.TTL = time.Duration(rapid.IntRange(1, 20).Draw(w.t, "ttl")) * time.Second
	}
	u.keep.Priority = rapid.IntRange(0, 3).Draw(w.t, "priority")
	tokens := w.drawTokens("prompt")
	q := Query{Tokens: tokens}
	_, m := w.tree.Lookup(nil, u.root, q)
	w.listen()
	w.tree.expire()
	switch rapid.IntRange(0, 4).Draw(w.t, "stale") {
	case 0:
		w.evict()
	case 1:
		w.promote()
	}
	w.listen()
	full, tail := w.expect(name, tokens)
	blocks, m, err := w.tree.Take(nil, u.root, q, u.keep, m)
	require.NoError(w.t, err)
	require.Equal(w.t, [2]int{full, tail}, [2]int{m.Blocks, m.Tail})
	w.verify(name, tokens, blocks, m)
	w.verifyAway(name, tokens, m)
	w.touch(name, tokens, m)
	if m.Tail > 0 { // a writer would copy it
		require.NoError(w.t, w.tree.Release(blocks[m.Blocks:]))
	}
	u.blocks, u.tokens, u.published = blocks[:m.Blocks], slices.Clone(tokens[:m.Blocks*w.bs]), m.Blocks
	w.seqs = append(w.seqs, u)
}

// grow gives a sequence more tokens, in blocks of its own.
func (w *world) grow() {
	u := w.pick()
	if u == nil || len(u.tokens)%w.bs != 0 {
		return
	}
	more := w.drawTokens("more")
	need := (len(more) + w.bs - 1) / w.bs
	free, evictable := w.alloc.Free(), w.tree.Evictable(u.root)
	if need > free {
		ok := w.tree.Evict(need-free, u.root)
		require.Equal(w.t, need-free <= evictable, ok, "need %d, free %d, evictable %d", need, free, evictable)
		if !ok {
			require.Equal(w.t, free, w.alloc.Free(), "a failure evicted")
			return
		}
	}
	blocks, err := w.alloc.AllocateN(nil, need)
	require.NoError(w.t, err)
	for i, b := range blocks {
		end := min((i+1)*w.bs, len(more))
		w.content[b.ID] = path(u.name, append(slices.Clone(u.tokens), more[:end]...))
	}
	u.tokens, u.blocks = append(u.tokens, more...), append(u.blocks, blocks...)
}

// publish inserts what a sequence has written since.
func (w *world) publish() {
	u := w.pick()
	if u == nil || u.published == len(u.blocks) {
		return
	}
	p := Path{Root: u.root, RetentionHint: u.keep, Private: rapid.IntRange(0, 4).Draw(w.t, "private") == 0}
	if u.published > 0 {
		p.Parent = u.blocks[u.published-1]
	}
	upTo := len(u.blocks)
	if rapid.Bool().Draw(w.t, "full only") {
		upTo = len(u.tokens) / w.bs
	}
	before := slices.Clone(u.blocks)
	fresh := u.blocks[u.published:upTo]
	w.offer(u, u.published, upTo)
	n, old, err := w.tree.Insert(nil, p, u.tokens[u.published*w.bs:min(upTo*w.bs, len(u.tokens))], fresh)
	if u.dead {
		require.ErrorIs(w.t, err, ErrDetached)
		require.Equal(w.t, before, u.blocks)
		return
	}
	require.NoError(w.t, err)
	u.published += n
	require.NoError(w.t, w.tree.Release(old))
	for i, b := range u.blocks[:u.published] {
		want := path(u.name, u.tokens[:min((i+1)*w.bs, len(u.tokens))])
		have := w.content[b.ID]
		require.Equal(w.t, want[:len(want)-1], have[:len(want)-1])
	}
	if u.published < upTo && len(u.tokens)%w.bs == 0 && u.published > 0 && upTo == len(u.blocks) {
		return // the rest stays private; it may be offered again
	}
}

// serve does what a runner does with a prompt from its beginning to its end.
func (w *world) serve() {
	name := rapid.SampledFrom(scopeNames).Draw(w.t, "scope")
	u := &user{root: fingerprint.Root(scopes[name]), name: name}
	tokens := rapid.SliceOfN(rapid.Uint32Range(1, 2), 4*w.bs, 9*w.bs).Draw(w.t, "prompt")
	q := Query{Tokens: tokens}
	_, m := w.tree.Lookup(nil, u.root, q)
	blocks, m, err := w.tree.Take(nil, u.root, q, u.keep, m)
	require.NoError(w.t, err)
	w.listen()
	w.verify(name, tokens, blocks, m)
	w.touch(name, tokens, m)
	if m.Tail > 0 {
		require.NoError(w.t, w.tree.Release(blocks[m.Blocks:]))
	}
	u.blocks, u.published = blocks[:m.Blocks], m.Blocks
	need := (len(tokens)+w.bs-1)/w.bs - m.Blocks
	if short := need - w.alloc.Free(); short > 0 && !w.tree.Evict(short, u.root) {
		require.NoError(w.t, w.tree.Release(u.blocks))
		return
	}
	fresh, err := w.alloc.AllocateN(nil, need)
	require.NoError(w.t, err)
	u.tokens, u.blocks = tokens, append(u.blocks, fresh...)
	for i, b := range u.blocks {
		w.content[b.ID] = path(name, tokens[:min((i+1)*w.bs, len(tokens))])
	}
	p := Path{Root: u.root}
	if m.Blocks > 0 {
		p.Parent = u.blocks[m.Blocks-1]
	}
	w.offer(u, m.Blocks, len(u.blocks))
	n, old, err := w.tree.Insert(nil, p, tokens[m.Blocks*w.bs:], u.blocks[m.Blocks:])
	require.NoError(w.t, err)
	require.NoError(w.t, w.tree.Release(old)) // a block that is not full was there already
	u.published += n
	if w.seqs = append(w.seqs, u); rapid.IntRange(0, 4).Draw(w.t, "keep") > 0 {
		require.NoError(w.t, w.tree.Release(u.blocks))
		w.seqs = w.seqs[:len(w.seqs)-1]
	}
}

func (w *world) release() {
	if u := w.pick(); u != nil {
		require.NoError(w.t, w.tree.Release(u.blocks))
		w.seqs = slices.DeleteFunc(w.seqs, func(v *user) bool { return v == u })
	}
}

func (w *world) fork() {
	if u := w.pick(); u != nil {
		require.NoError(w.t, w.alloc.RetainN(u.blocks))
		v := *u
		v.blocks, v.tokens = slices.Clone(u.blocks), slices.Clone(u.tokens)
		w.seqs = append(w.seqs, &v)
	}
}

func (w *world) truncate() {
	u := w.pick()
	if u == nil {
		return
	}
	keep := rapid.IntRange(0, len(u.tokens)/w.bs).Draw(w.t, "keep")
	require.NoError(w.t, w.tree.Release(u.blocks[keep:]))
	u.blocks, u.tokens, u.published = u.blocks[:keep], u.tokens[:keep*w.bs], min(u.published, keep)
}

func (w *world) evict() {
	n := rapid.IntRange(0, 3).Draw(w.t, "evict")
	root := fingerprint.Root(scopes[rapid.SampledFrom(scopeNames).Draw(w.t, "for")])
	free := w.alloc.Free()
	w.tree.expire()
	gone := w.alloc.Free() - free
	can := w.tree.Evictable(root)
	ok := w.tree.Evict(n, root)
	require.Equal(w.t, n <= can, ok)
	if ok {
		require.Equal(w.t, free+gone+n, w.alloc.Free())
	}
}

// forget takes a block out of the tree that some sequence may own.
func (w *world) forget() {
	u := w.pick()
	if u == nil || u.published == 0 {
		return
	}
	w.tree.Forget(u.blocks[rapid.IntRange(0, u.published-1).Draw(w.t, "forget")])
	w.detach()
}

// detach notes which sequences lost their place in the tree.
func (w *world) detach() {
	for _, u := range w.seqs {
		u.dead = u.published > 0 && w.tree.at(u.blocks[u.published-1]) == nil
	}
}

func (w *world) clear() {
	heldBlocks := w.tree.Stats().Held
	force := rapid.Bool().Draw(w.t, "force")
	err := w.tree.Clear(force)
	if heldBlocks > 0 && !force {
		require.Equal(w.t, ErrInUse{Blocks: heldBlocks}, err)
	} else {
		require.NoError(w.t, err)
		require.Zero(w.t, w.tree.Stats().Blocks+w.tree.Stats().Offloaded)
	}
	w.detach()
}

func (w *world) limit() {
	name := rapid.SampledFrom(scopeNames).Draw(w.t, "scope")
	l := Limits{Quota: rapid.IntRange(0, 10).Draw(w.t, "quota")}
	if l.Quota > 0 {
		l.Floor = rapid.IntRange(0, l.Quota).Draw(w.t, "floor")
	}
	err := w.tree.SetLimits(fingerprint.Root(scopes[name]), l)
	if err != nil {
		require.ErrorIs(w.t, err, ErrArgument{})
	}
}

func (w *world) pin() {
	name := rapid.SampledFrom(scopeNames).Draw(w.t, "scope")
	l, err := w.tree.Pin(fingerprint.Root(scopes[name]), Query{Tokens: w.drawTokens("pinned")}, time.Duration(rapid.IntRange(1, 10).Draw(w.t, "time"))*time.Second)
	if err != nil {
		require.ErrorIs(w.t, err, ErrPinned{})
		return
	}
	w.leases = append(w.leases, l)
}

func (w *world) unpin() {
	if len(w.leases) == 0 {
		return
	}
	l := w.leases[0]
	w.leases = w.leases[1:]
	if err := w.tree.Unpin(l); err != nil {
		require.ErrorIs(w.t, err, ErrLeaseEnded)
	}
	require.ErrorIs(w.t, w.tree.Unpin(l), ErrLeaseEnded)
}

func (w *world) wait() {
	w.now = w.now.Add(time.Duration(rapid.IntRange(1, 8).Draw(w.t, "wait")) * time.Second)
	w.tree.expire()
	w.listen()
	w.passed()
}

// check is what holds after every operation.
func (w *world) check() {
	w.listen()
	require.NoError(w.t, w.tree.Check())
	s := w.tree.Stats()
	require.Equal(w.t, len(w.known), s.Blocks)
	require.Equal(w.t, w.alloc.Total(), w.alloc.Free()+w.alloc.Cached()+w.alloc.Held())
	require.Equal(w.t, s.Cached, w.alloc.Cached())
	w.checkOwners()
	w.checkAway()
}

// end gives everything back.
func (w *world) end() {
	for len(w.seqs) > 0 {
		require.NoError(w.t, w.tree.Release(w.seqs[0].blocks))
		w.seqs = w.seqs[1:]
	}
	for _, l := range w.leases {
		_ = w.tree.Unpin(l)
	}
	w.check()
	require.Zero(w.t, w.alloc.Held())
	require.NoError(w.t, w.tree.Clear(false))
	w.check()
	require.Equal(w.t, w.alloc.Total(), w.alloc.Free())
	require.Empty(w.t, w.tree.roots)
	require.Equal(w.t, slices.Repeat([]uint32{none}, len(w.tree.firstBlocks)), []uint32(w.tree.firstBlocks))
}

func (w *world) run() {
	actions := map[string]func(*rapid.T){}
	for name, f := range map[string]func(){
		"lookup": w.lookup, "open": w.open, "grow": w.grow, "publish": w.publish, "release": w.release,
		"fork": w.fork, "truncate": w.truncate, "evict": w.evict, "forget": w.forget, "clear": w.clear,
		"limit": w.limit, "pin": w.pin, "unpin": w.unpin, "wait": w.wait,
		"drop": w.drop, "promote": w.promote, "promote more": w.promote, "misuse": w.misuse,
	} {
		actions[name] = func(t *rapid.T) { w.t = t; f(); w.detach() }
	}
	outer := w.t
	for i := range 8 { // most of the time the tree is used, not abused
		actions[fmt.Sprint("serve ", i)] = func(t *rapid.T) { w.t = t; w.serve(); w.detach() }
	}
	actions[""] = func(t *rapid.T) { w.t = t; w.check() }
	w.t.Repeat(actions)
	w.t = outer
	w.end()
}

func TestHistoriesMatchModel(t *testing.T) {
	for p := Adaptive; p <= lastPolicy; p++ {
		t.Run(p.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { newWorld(t, p).run() })
		})
	}
}
