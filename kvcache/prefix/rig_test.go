package prefix

import (
	"slices"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/stretchr/testify/require"
)

// rig is a tree over blocks of its own, and what a runner does with it in one line
// each. Whatever a test does, the tree is sound at its end.
type rig struct {
	t     testing.TB
	tree  *Tree
	alloc *block.BlockAllocator
	now   time.Time
	root  Root // no salt, no adapter
}

func newRig(t testing.TB, blocks int, cfg Config) *rig {
	r := &rig{t: t, now: time.Unix(1000, 0), root: fingerprint.Root(Scope{})}
	var err error
	r.alloc, err = block.New(blocks)
	require.NoError(t, err)
	cfg.Now = func() time.Time { return r.now }
	r.tree, err = New(r.alloc, cfg)
	require.NoError(t, err)
	t.Cleanup(r.check)
	return r
}

func (r *rig) check() {
	r.t.Helper()
	require.NoError(r.t, r.tree.Check())
	require.Equal(r.t, r.alloc.Total(), r.alloc.Free()+r.alloc.Cached()+r.alloc.Held())
}

// span is the tokens from to to−1.
func span(from, to int) []uint32 {
	tokens := make([]uint32, 0, max(to-from, 0))
	for i := from; i < to; i++ {
		tokens = append(tokens, uint32(i))
	}
	return tokens
}

// salted is the root of a tenant.
func salted(salt string) Root { return fingerprint.Root(Scope{Salt: []byte(salt)}) }

// match is how much of a prompt the tree has, and in which blocks.
func (r *rig) match(root Root, tokens []uint32) ([]block.Block, Match) {
	return r.tree.Lookup(nil, root, Query{Tokens: tokens})
}

// take makes the test an owner of what the tree has.
func (r *rig) take(root Root, tokens []uint32) ([]block.Block, Match) {
	r.t.Helper()
	blocks, m := r.match(root, tokens)
	blocks, m, err := r.tree.Take(blocks[:0], root, Query{Tokens: tokens}, RetentionHint{}, m)
	require.NoError(r.t, err)
	return blocks, m
}

// fresh allocates blocks, for which cached ones of anybody may have to go.
func (r *rig) fresh(root Root, n int) []block.Block {
	r.t.Helper()
	if short := n - r.alloc.Free(); short > 0 {
		require.True(r.t, r.tree.Evict(short, root), "cannot evict %d", short)
	}
	blocks, err := r.alloc.AllocateN(nil, n)
	require.NoError(r.t, err)
	return blocks
}

// insert offers blocks and lets go of those that the tree replaced.
func (r *rig) insert(p Path, tokens []uint32, blocks []block.Block) int {
	r.t.Helper()
	n, old, err := r.tree.Insert(nil, p, tokens, blocks)
	require.NoError(r.t, err)
	require.NoError(r.t, r.tree.Release(old))
	return n
}

// hold serves a prompt whole: the full blocks that are known are taken, the others
// computed and published. It returns all of them, owned.
func (r *rig) hold(p Path, tokens []uint32) []block.Block {
	r.t.Helper()
	q := Query{Tokens: tokens, Extra: p.Extra, Accept: p.Fidelity}
	_, m := r.tree.Lookup(nil, p.Root, q)
	blocks, m, err := r.tree.Take(nil, p.Root, q, p.RetentionHint, m)
	require.NoError(r.t, err)
	r.release(blocks[m.Blocks:])
	blocks = blocks[:m.Blocks]
	if m.Blocks > 0 {
		p.Parent = blocks[m.Blocks-1]
	}
	bs := r.tree.BlockSize()
	blocks = append(blocks, r.fresh(p.Root, (len(tokens)+bs-1)/bs-m.Blocks)...)
	p.Extra = p.Extra[min(m.Blocks, len(p.Extra)):]
	r.insert(p, tokens[m.Blocks*bs:], blocks[m.Blocks:])
	return blocks
}

// cache is hold, and released.
func (r *rig) cache(root Root, tokens []uint32) []block.Block {
	r.t.Helper()
	blocks := r.hold(Path{Root: root}, tokens)
	r.release(blocks)
	return blocks
}

// tiered is a configuration where that many entries may stay away, and all do.
func tiered(away int, cfg Config) Config {
	cfg.MaxOffloaded, cfg.Demote = away, func(block.Block, Key) bool { return true }
	return cfg
}

// load takes what the tree has of a prompt and promotes the first n blocks of what is offloaded, all
// where n is negative. It returns the owned path.
func (r *rig) load(tokens []uint32, n int) []block.Block {
	r.t.Helper()
	q := Query{Tokens: tokens}
	blocks, m := r.take(r.root, tokens)
	r.release(blocks[m.Blocks:])
	blocks = blocks[:m.Blocks]
	keys := r.tree.OffloadedKeys(nil, r.root, q, m)
	require.Len(r.t, keys, m.Offloaded/r.tree.BlockSize())
	if n >= 0 {
		keys = keys[:n]
	}
	var parent block.Block
	if m.Blocks > 0 {
		parent = blocks[m.Blocks-1]
	}
	fresh := r.fresh(r.root, len(keys))
	done, err := r.tree.Promote(parent, keys, fresh, RetentionHint{})
	require.NoError(r.t, err)
	require.Equal(r.t, len(keys), done)
	return append(blocks, fresh...)
}

func (r *rig) release(blocks []block.Block) {
	r.t.Helper()
	require.NoError(r.t, r.tree.Release(blocks))
}

// refs are the owners of blocks.
func (r *rig) refs(blocks []block.Block) []int {
	r.t.Helper()
	var out []int
	for _, b := range blocks {
		n, err := r.alloc.Refs(b)
		require.NoError(r.t, err)
		out = append(out, n)
	}
	return out
}

// has reports which of some blocks are in the tree.
func (r *rig) has(blocks []block.Block) []bool {
	var out []bool
	for _, b := range blocks {
		known, _ := r.tree.Has(b)
		out = append(out, known)
	}
	return out
}

// listen drains a subscription.
func listen(s *Subscription) []Event {
	var out []Event
	for {
		select {
		case e := <-s.C:
			out = append(out, e)
		default:
			return out
		}
	}
}

// events of a kind.
func ofKind(events []Event, k EventKind) []Event {
	return slices.DeleteFunc(slices.Clone(events), func(e Event) bool { return e.Kind != k })
}

// keysOf are the keys of events, in their order.
func keysOf(events []Event) []Key {
	var keys []Key
	for _, e := range events {
		keys = append(keys, e.Keys...)
	}
	return keys
}
