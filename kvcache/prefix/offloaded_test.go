package prefix

import (
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/stretchr/testify/require"
)

// matched is what a match says, in tokens and blocks.
func matched(m Match) [4]int { return [4]int{m.Tokens, m.Blocks, m.Tail, m.Offloaded} }

// A block that is demoted is free; what its entry says of it is found, key by key. Its
// content comes back into other blocks, which belong to the caller.
func TestDemoteAndPromote(t *testing.T) {
	r := newRig(t, 8, tiered(8, Config{BlockSize: 2, Policy: LRU}))
	sub, _ := r.tree.Subscribe(100)
	prompt := span(0, 12)
	q := Query{Tokens: append(span(0, 12), 99)}
	all := r.root.Keys(nil, 2, Query{Tokens: prompt})
	b := r.cache(r.root, prompt)
	require.Equal(t, all, keysOf(listen(sub)))

	require.True(t, r.tree.Evict(4, r.root))
	require.Equal(t, 6, r.alloc.Free())
	require.Equal(t, []bool{true, true, false, false, false, false}, r.has(b))
	_, end := r.tree.Has(b[1])
	require.True(t, end)
	events := listen(sub)
	require.Equal(t, []Key{all[5], all[4], all[3], all[2]}, keysOf(ofKind(events, Removed)))
	require.Len(t, events, 4)

	blocks, m := r.match(r.root, q.Tokens)
	require.Equal(t, b[:2], blocks)
	require.Equal(t, [4]int{4, 2, 0, 8}, matched(m))
	require.Equal(t, WasEvicted, m.MissReason())
	require.Equal(t, all[2:], r.tree.OffloadedKeys(nil, r.root, q, m))
	require.Equal(t, all[2:4], r.tree.OffloadedKeys(nil, r.root, Query{Tokens: prompt[:9]}, m), "another question is looked up")
	known := r.tree.Replacements(nil, Path{Root: r.root}, prompt)
	require.Equal(t, b[:2], known, "what Insert would exchange")
	s := r.tree.Stats()
	require.Equal(t, [5]int{2, 2, 0, 4, 1}, [5]int{s.Blocks, s.Cached, s.Held, s.Offloaded, s.Nodes})
	require.Equal(t, [3]int{4, 4, 0}, [3]int{s.Evicted, s.Demoted, s.Promoted})
	require.Equal(t, 4, r.tree.SaltStats(r.root).Offloaded)

	held := r.load(prompt, 3)
	require.Equal(t, []int{1, 1, 1, 1, 1}, r.refs(held))
	events = listen(sub)
	require.Len(t, events, 1)
	require.Equal(t, Stored, events[0].Kind)
	require.Equal(t, all[2:5], events[0].Keys)
	require.Equal(t, all[1], events[0].Parent)
	require.Equal(t, prompt[4:10], events[0].Tokens)
	_, m = r.match(r.root, prompt)
	require.Equal(t, [4]int{10, 5, 0, 2}, matched(m))
	s = r.tree.Stats()
	require.Equal(t, [4]int{5, 1, 4, 3}, [4]int{s.Held, s.Offloaded, s.Demoted, s.Promoted})
	_, have := r.tree.Subscribe(1)
	require.Equal(t, all[:5], keysOf(have), "nothing of what is away")
	r.release(held)
	require.True(t, r.tree.Evict(5, r.root))
	_, m = r.match(r.root, prompt)
	require.Equal(t, [4]int{0, 0, 0, 12}, matched(m))
	require.NoError(t, r.tree.Clear(false))
	require.Empty(t, r.tree.roots)
	require.Zero(t, r.tree.Stats().Offloaded)
}

// What is not to stay is evicted, and with it what is offloaded below.
func TestDemoteRefused(t *testing.T) {
	refuse := Key{}
	asked := map[Key]block.Block{}
	r := newRig(t, 8, Config{BlockSize: 2, Policy: LRU, MaxOffloaded: 8, Demote: func(b block.Block, k Key) bool {
		asked[k] = b
		return k != refuse
	}})
	b := r.cache(r.root, span(0, 8))
	keys := r.root.Keys(nil, 2, Query{Tokens: span(0, 8)})
	refuse = keys[1]
	require.True(t, r.tree.Evict(2, r.root))
	require.Equal(t, 2, r.tree.Stats().Offloaded)
	require.True(t, r.tree.Evict(1, r.root))
	_, m := r.match(r.root, span(0, 8))
	require.Equal(t, [4]int{2, 1, 0, 0}, matched(m))
	require.Equal(t, WasEvicted, m.MissReason())
	require.Zero(t, r.tree.Stats().Offloaded)
	require.Equal(t, map[Key]block.Block{keys[3]: b[3], keys[2]: b[2], keys[1]: b[1]}, asked)
	require.True(t, r.tree.EvictAny(1))
	require.Equal(t, b[0], asked[keys[0]])
	require.Equal(t, 1, r.tree.Stats().Offloaded)

	r.cache(r.root, span(50, 53)) // a block that is not full is not asked about
	require.True(t, r.tree.Evict(1, r.root))
	require.Len(t, asked, 4)
}

// A tail on the device is found however many blocks lie between it and the query that are
// away, and beside the block that is the query's and is offloaded.
func TestTailBesideBlocksAway(t *testing.T) {
	r := newRig(t, 40, tiered(40, Config{BlockSize: 4, Policy: LRU}))
	kept := r.hold(Path{Root: r.root}, []uint32{1, 2, 3, 50})
	for last := range uint32(20) {
		r.cache(r.root, []uint32{1, 2, 3, 40 + last})
	}
	require.True(t, r.tree.Evict(r.alloc.Cached(), r.root))
	blocks, m := r.match(r.root, []uint32{1, 2, 3, 41})
	require.Equal(t, [4]int{3, 0, 3, 4}, matched(m))
	require.Equal(t, kept, blocks)
	_, m = r.match(r.root, []uint32{1, 2, 3, 90})
	require.Equal(t, [4]int{3, 0, 3, 0}, matched(m))
	_, m = r.match(r.root, []uint32{1, 2, 3})
	require.Equal(t, [4]int{3, 0, 3, 0}, matched(m), "nothing but full blocks is away")
}

// What is computed again takes the place of what is offloaded; nothing is stored twice.
func TestInsertOverBlocksAway(t *testing.T) {
	r := newRig(t, 16, tiered(16, Config{BlockSize: 2, Policy: LRU}))
	r.cache(r.root, span(0, 10))
	require.True(t, r.tree.Evict(4, r.root))
	sub, _ := r.tree.Subscribe(100)

	private := r.fresh(r.root, 2)
	require.Zero(t, r.insert(Path{Root: r.root, Private: true, Parent: r.take1(span(0, 2))}, span(2, 6), private))
	shared := r.fresh(r.root, 2)
	require.NoError(t, r.alloc.Retain(shared[1]))
	require.Equal(t, 2, r.insert(Path{Root: r.root}, span(0, 4), append(r.held(span(0, 2)), shared[0])))
	require.Empty(t, ofKind(listen(sub), Removed))
	require.Zero(t, r.insert(Path{Root: r.root, Parent: shared[0]}, span(4, 6), shared[1:]), "its other owner may not own what leads to it")
	_, m := r.match(r.root, span(0, 10))
	require.Equal(t, [4]int{4, 2, 0, 6}, matched(m))

	own := r.fresh(r.root, 2)
	require.Equal(t, 2, r.insert(Path{Root: r.root, Parent: shared[0]}, []uint32{4, 5, 70, 71}, own))
	blocks, m := r.match(r.root, span(0, 10))
	require.Equal(t, [4]int{6, 3, 0, 4}, matched(m))
	require.Equal(t, own[0], blocks[2])
	r.check()
}

// Tails that are computed beside what is offloaded stand alone, until they are outgrown.
func TestTailsGoWhenBlocksComeBack(t *testing.T) {
	for _, promote := range []bool{false, true} {
		r := newRig(t, 16, tiered(16, Config{BlockSize: 4, Policy: LRU}))
		r.cache(r.root, span(0, 12))
		require.True(t, r.tree.Evict(2, r.root))
		tail := r.cache(r.root, span(0, 6))
		_, m := r.match(r.root, span(0, 12))
		require.Equal(t, [4]int{6, 1, 2, 8}, matched(m))
		var b []block.Block
		if promote {
			b = r.load(span(0, 12), 1)
		} else {
			b = r.hold(Path{Root: r.root}, span(0, 8))
		}
		require.Equal(t, []bool{true, false}, r.has(tail))
		require.Equal(t, []bool{true, true}, r.has(b))
		require.Equal(t, "root 2 blocks\n  [0 1 2 3]*[4 5 6 7]*[8 9 10 11]-\n", dump(r.tree))
	}
}

// The ends of what was used least recently go first, and taking a match is a use.
func TestBoundOfBlocksAway(t *testing.T) {
	r := newRig(t, 16, tiered(5, Config{BlockSize: 2, Policy: LRU}))
	for _, from := range []int{0, 20, 40} {
		r.cache(r.root, span(from, from+4))
	}
	require.True(t, r.tree.Evict(4, r.root))
	r.take(r.root, span(0, 4)) // its blocks are offloaded: now those of 20 are older
	require.True(t, r.tree.Evict(2, r.root))
	away := func(from int) int { return r.tree.Match(r.root, Query{Tokens: span(from, from+4)}).Offloaded }
	require.Equal(t, [3]int{4, 2, 4}, [3]int{away(0), away(20), away(40)})
	r.cache(r.root, span(60, 64))
	require.True(t, r.tree.Evict(2, r.root))
	require.Equal(t, [4]int{2, 0, 4, 4}, [4]int{away(0), away(20), away(40), away(60)})
	_, m := r.match(r.root, span(20, 24))
	require.Equal(t, WasEvicted, m.MissReason())
}

// Drop takes what is nowhere and all that hangs on it, and nothing that is resident.
func TestDrop(t *testing.T) {
	r := newRig(t, 16, tiered(16, Config{BlockSize: 2, Policy: LRU}))
	r.cache(r.root, span(0, 8))
	r.cache(r.root, append(span(0, 4), 70, 71))
	keys := r.root.Keys(nil, 2, Query{Tokens: span(0, 8)})
	require.Zero(t, r.tree.Drop(keys[3]))
	require.True(t, r.tree.Evict(4, r.root))
	sub, _ := r.tree.Subscribe(10)
	require.Zero(t, r.tree.Drop(keys[0]))
	require.Equal(t, 4, r.tree.Drop(keys[1]))
	require.Zero(t, r.tree.Drop(keys[1]))
	require.Empty(t, listen(sub))
	_, m := r.match(r.root, span(0, 8))
	require.Equal(t, [4]int{2, 1, 0, 0}, matched(m))
	require.Equal(t, WasEvicted, m.MissReason())
	require.True(t, r.tree.Evict(1, r.root))
	require.Equal(t, 1, r.tree.Drop(keys[0]))
	require.Empty(t, r.tree.roots, "a scope without blocks and without entries")
}

// A lifetime goes on while a block is offloaded, and ends for what is below it, too.
func TestBlocksAwayExpire(t *testing.T) {
	r := newRig(t, 16, tiered(16, Config{BlockSize: 2, Policy: LRU}))
	r.release(r.hold(Path{Root: r.root, RetentionHint: RetentionHint{TTL: 10 * time.Second}}, span(0, 8)))
	r.cache(r.root, span(0, 4)) // those are kept for longer
	require.True(t, r.tree.Evict(4, r.root))
	r.now = r.now.Add(9 * time.Second)
	_, m := r.match(r.root, span(0, 8))
	require.Equal(t, [4]int{0, 0, 0, 8}, matched(m))
	r.now = r.now.Add(2 * time.Second)
	_, m = r.match(r.root, span(0, 8))
	require.Equal(t, [4]int{0, 0, 0, 4}, matched(m))
	r.tree.Expire()
	require.Equal(t, 2, r.tree.Stats().Offloaded)

	// What comes back has its time from the next release on, and the longer one counts.
	r.release(r.hold(Path{Root: r.root, RetentionHint: RetentionHint{TTL: 10 * time.Second}}, span(50, 54)))
	require.True(t, r.tree.Evict(2, r.root))
	b, _, err := r.tree.Take(nil, r.root, Query{Tokens: span(50, 54)}, RetentionHint{}, Match{})
	require.NoError(t, err)
	require.Empty(t, b)
	keys := r.root.Keys(nil, 2, Query{Tokens: span(50, 54)})
	b = r.fresh(r.root, 2)
	n, err := r.tree.Promote(block.Block{}, keys, b, RetentionHint{TTL: 30 * time.Second})
	require.NoError(t, err)
	require.Equal(t, 2, n)
	r.now = r.now.Add(20 * time.Second)
	r.release(b)
	r.now = r.now.Add(20 * time.Second)
	_, m = r.match(r.root, span(50, 54))
	require.Equal(t, 4, m.Tokens)
	r.now = r.now.Add(20 * time.Second)
	_, m = r.match(r.root, span(50, 54))
	require.Zero(t, m.Tokens)
}

// A shortest prefix counts what is offloaded: it can come back.
func TestShortestPrefixCountsBlocksAway(t *testing.T) {
	r := newRig(t, 16, tiered(16, Config{BlockSize: 2, Policy: LRU, MinPrefix: 6}))
	r.cache(r.root, span(0, 8))
	require.True(t, r.tree.Evict(3, r.root))
	_, m := r.match(r.root, span(0, 8))
	require.Equal(t, [4]int{2, 1, 0, 6}, matched(m))
	_, m = r.match(r.root, span(0, 5))
	require.Equal(t, [4]int{}, matched(m))
}

// What is not exact comes back to readers who accept it, and to no others.
func TestFidelityOfBlocksAway(t *testing.T) {
	r := newRig(t, 16, tiered(16, Config{BlockSize: 2, Policy: LRU}))
	r.cache(r.root, span(0, 2))
	lossy := Path{Root: r.root, Fidelity: Truncated, Parent: r.take1(span(0, 2)), Extra: []Key{{7}}}
	b := r.fresh(r.root, 2)
	require.Equal(t, 2, r.insert(lossy, span(2, 6), b))
	r.release(append([]block.Block{lossy.Parent}, b...))
	require.True(t, r.tree.Evict(2, r.root))
	q := Query{Tokens: span(0, 6), Extra: []Key{{}, {7}}}
	require.Zero(t, r.tree.Match(r.root, q).Offloaded)
	q.Accept = Truncated
	require.Equal(t, 4, r.tree.Match(r.root, q).Offloaded)
	q.Extra = nil
	require.Zero(t, r.tree.Match(r.root, q).Offloaded)
}

// Only what is resident counts for limits, and what a quota displaces stays away.
func TestLimitsCountResidentBlocks(t *testing.T) {
	r := newRig(t, 16, tiered(16, Config{BlockSize: 2, Policy: LRU}))
	a := salted("a")
	require.NoError(t, r.tree.SetLimits(a, Limits{Quota: 3, Floor: 2}))
	r.cache(a, span(0, 6))
	r.cache(a, span(20, 24))
	s := r.tree.SaltStats(a)
	require.Equal(t, [2]int{3, 2}, [2]int{s.Blocks, s.Offloaded})
	require.Equal(t, 1, r.tree.Evictable(r.root))

	blocks, _ := r.take(a, span(20, 24)) // the quota has room for one more while these are in use
	have, m, err := r.tree.Take(nil, a, Query{Tokens: span(0, 6)}, RetentionHint{}, Match{})
	require.NoError(t, err)
	require.Equal(t, [4]int{2, 1, 0, 4}, matched(m))
	keys := r.tree.OffloadedKeys(nil, a, Query{Tokens: span(0, 6)}, m)
	fresh := r.fresh(a, 2)
	n, err := r.tree.Promote(have[0], keys, fresh, RetentionHint{})
	require.NoError(t, err)
	require.Zero(t, n, "all three are in use")
	require.NoError(t, r.tree.SetLimits(a, Limits{Quota: 4}))
	n, err = r.tree.Promote(have[0], keys, fresh, RetentionHint{})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	r.release(append(have, fresh...))
	r.release(blocks)
	require.NoError(t, r.tree.SetLimits(a, Limits{Quota: 1}))
	s = r.tree.SaltStats(a)
	require.Equal(t, [2]int{1, 4}, [2]int{s.Blocks, s.Offloaded})
	require.NoError(t, r.tree.SetLimits(a, Limits{}))
	r.check()
}

// A lease pins what is resident.
func TestPinLeavesBlocksAway(t *testing.T) {
	r := newRig(t, 16, tiered(16, Config{BlockSize: 2, Policy: LRU}))
	r.cache(r.root, span(0, 8))
	require.True(t, r.tree.Evict(2, r.root))
	l, err := r.tree.Pin(r.root, Query{Tokens: span(0, 8)}, time.Hour)
	require.NoError(t, err)
	require.Equal(t, [4]int{4, 2, 0, 0}, matched(l.Match))
	require.Equal(t, 2, r.tree.Stats().Pinned)
	require.NoError(t, r.tree.Unpin(l))
}

// Runs of which a part is offloaded are cut and joined like others.
func TestLongRunsAway(t *testing.T) {
	r := newRig(t, 2000, tiered(2000, Config{BlockSize: 1, Policy: LRU}))
	long := append(span(0, 200), span(1000, 1200)...) // runs of 256 and 144
	r.cache(r.root, long)
	other := append(span(0, 100), span(2000, 2050)...)
	r.cache(r.root, other)
	for r.alloc.Cached() > 0 {
		require.True(t, r.tree.Evict(1, r.root))
		if r.alloc.Cached()%10 == 0 {
			r.check()
		}
	}
	_, m := r.match(r.root, long)
	require.Equal(t, 400, m.Offloaded)
	for _, n := range []int{50, 50, 30, 126, 1, -1} {
		r.load(long, n)
		r.check()
	}
	_, m = r.match(r.root, long)
	require.Equal(t, [4]int{400, 400, 0, 0}, matched(m))
	_, m = r.match(r.root, other)
	require.Equal(t, [4]int{100, 100, 0, 50}, matched(m))
	b, _ := r.match(r.root, long)
	require.True(t, r.tree.Forget(b[20]))
	r.check()
	require.Equal(t, Stats{}.Offloaded, r.tree.Stats().Offloaded)
}

// A match that was made before blocks left or came back is looked up again.
func TestStaleMatchOfBlocksAway(t *testing.T) {
	r := newRig(t, 16, tiered(16, Config{BlockSize: 2, Policy: LRU}))
	q := Query{Tokens: span(0, 12)}
	r.cache(r.root, q.Tokens)
	take := func(m Match, want [4]int) {
		b, m, err := r.tree.Take(nil, r.root, q, RetentionHint{}, m)
		require.NoError(t, err)
		require.Equal(t, want, matched(m))
		require.Len(t, b, m.Blocks)
		require.Len(t, r.tree.OffloadedKeys(nil, r.root, q, m), m.Offloaded/2)
		r.release(b)
		r.check()
	}
	all := r.tree.Match(r.root, q)
	require.True(t, r.tree.Evict(4, r.root))
	require.Len(t, r.tree.OffloadedKeys(nil, r.root, q, all), 4)
	take(all, [4]int{4, 2, 0, 8})
	some := r.tree.Match(r.root, q)
	r.release(r.load(q.Tokens, 3))
	require.Len(t, r.tree.OffloadedKeys(nil, r.root, q, some), 1)
	take(some, [4]int{10, 5, 0, 2})
	most := r.tree.Match(r.root, q)
	require.Equal(t, 1, r.tree.Drop(r.root.Keys(nil, 2, q)[5]))
	require.Empty(t, r.tree.OffloadedKeys(nil, r.root, q, most))
	take(most, [4]int{10, 5, 0, 0})
}

// Where claims leave too few blocks to take, nothing follows what was taken.
func TestShortTakeHasNothingAway(t *testing.T) {
	r := newRig(t, 8, tiered(8, Config{BlockSize: 2, Policy: LRU}))
	r.cache(r.root, span(0, 12))
	require.True(t, r.tree.Evict(2, r.root))
	var c block.Claim
	require.NoError(t, r.alloc.Reserve([]block.Reservation{{Claim: &c, Blocks: 6}}))
	order := r.awayKeys()
	b, m := r.take(r.root, span(0, 12))
	require.Len(t, b, 2)
	require.Equal(t, [4]int{4, 2, 0, 0}, matched(m))
	require.Equal(t, order, r.awayKeys())
	r.alloc.Cancel(&c)
}

// take1 takes a prompt of one block.
func (r *rig) take1(tokens []uint32) block.Block {
	r.t.Helper()
	b, m := r.take(r.root, tokens)
	require.Equal(r.t, 1, m.Blocks)
	return b[0]
}

// held is the blocks of a prompt, which somebody owns.
func (r *rig) held(tokens []uint32) []block.Block {
	b, _ := r.match(r.root, tokens)
	return b
}
