package block

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func open(t testing.TB, blocks int) *BlockAllocator {
	t.Helper()
	a, err := New(blocks)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Check()) })
	return a
}

func take(t testing.TB, a *BlockAllocator, n int) []Block {
	t.Helper()
	bs, err := a.AllocateN(nil, n)
	require.NoError(t, err)
	require.Len(t, bs, n)
	return bs
}

func ids(bs []Block) []uint32 {
	out := make([]uint32, len(bs))
	for i, b := range bs {
		out[i] = b.ID
	}
	return out
}

// order is the free list from its front.
func order(a *BlockAllocator) []uint32 {
	out := []uint32{}
	for _, id := range []uint32{a.top, a.nodes[a.head].next} {
		for ; id != a.head; id = a.nodes[id].next {
			out = append(out, id)
		}
	}
	return out
}

func TestNewRange(t *testing.T) {
	for _, n := range []int{math.MinInt, -1, 0, maxBlocks + 1, math.MaxInt} {
		_, err := New(n)
		require.ErrorIs(t, err, ErrRange{}, "%d blocks", n)
		require.Equal(t, ErrRange{What: "blocks", Have: n, Min: 1, Max: maxBlocks}, err)
	}
	a := open(t, 1)
	require.Equal(t, 1, a.Total())
	require.Equal(t, nodeBytes, int(unsafe.Sizeof(node{})), "the documented cost of a block")
}

// A1: hand out in order, take from the middle, cached ones last, then out of
// blocks, and the ring is empty.
func TestA1QueueOperations(t *testing.T) {
	a := open(t, 5)
	first := take(t, a, 3)
	require.Equal(t, []uint32{0, 1, 2}, ids(first))
	require.NoError(t, a.ReleaseN(first, 3))
	require.Equal(t, []uint32{3, 4, 2, 1, 0}, order(a))
	require.NoError(t, a.Take(first[1]))
	require.Equal(t, []uint32{3, 4, 2, 0}, order(a))
	require.NoError(t, a.Release(first[1], true))
	require.Equal(t, []uint32{3, 4, 2, 0, 1}, order(a))
	require.Equal(t, []uint32{3, 4, 2, 0, 1}, ids(take(t, a, 5)))
	_, err := a.Allocate()
	require.Equal(t, ErrOutOfBlocks{Need: 1, Free: 0}, err)
	require.Equal(t, node{prev: a.head, next: a.head}, a.nodes[a.head])
}

// A2: filled blocks go to the back, each group from its tail; an empty group is nothing.
func TestA2FilledBlocksGoToTheBack(t *testing.T) {
	a := open(t, 6)
	b := take(t, a, 6)
	require.NoError(t, a.Release(b[0], true))
	require.NoError(t, a.ReleaseN([]Block{b[5], b[4]}, 2))
	require.NoError(t, a.ReleaseN([]Block{b[3], b[2], b[1]}, 3))
	require.NoError(t, a.ReleaseN(nil, 0))
	require.Equal(t, []uint32{0, 4, 5, 1, 2, 3}, order(a))
	require.Equal(t, 6, a.Cached())
}

// A3: blocks that hold nothing go to the front, the later group before the earlier
// one. Within a group the tail goes first here, too.
func TestA3EmptyBlocksGoToTheFront(t *testing.T) {
	a := open(t, 6)
	b := take(t, a, 6)
	require.NoError(t, a.Release(b[0], true))
	require.NoError(t, a.ReleaseN([]Block{b[5], b[4]}, 0))
	require.NoError(t, a.ReleaseN([]Block{b[3], b[2], b[1]}, 1))
	require.Equal(t, []uint32{1, 2, 4, 5, 0, 3}, order(a))
	require.Equal(t, []uint32{1, 2, 4, 5, 0, 3}, ids(take(t, a, 6)))
}

// A4: n blocks come in order, none for 0, and what was handed out has no links.
func TestA4AllocateN(t *testing.T) {
	a := open(t, 4)
	dst := make([]Block, 0, 4)
	dst, err := a.AllocateN(dst, 0)
	require.NoError(t, err)
	require.Empty(t, dst)
	dst, err = a.AllocateN(dst, 2)
	require.NoError(t, err)
	dst, err = a.AllocateN(dst, 1)
	require.NoError(t, err)
	require.Equal(t, []Block{{0, 1}, {1, 1}, {2, 1}}, dst)
	for _, b := range dst {
		require.Equal(t, node{gen: 1, refs: 1, next: b.ID}, a.nodes[b.ID])
	}
	same, err := a.AllocateN(dst, -1)
	require.ErrorIs(t, err, ErrRange{})
	require.Equal(t, dst, same)
}

// A5: giving a block twice in one call is an error and changes nothing, also the
// blocks before it.
func TestA5SameBlockTwice(t *testing.T) {
	a := open(t, 3)
	b := take(t, a, 3)
	for _, filled := range []int{0, 1, 2, 3} {
		require.ErrorIs(t, a.ReleaseN([]Block{b[1], b[0], b[0]}, filled), ErrDoubleFree)
		require.Equal(t, 3, a.Held())
		require.NoError(t, a.Check())
	}
	require.NoError(t, a.Retain(b[0]))
	require.NoError(t, a.ReleaseN([]Block{b[1], b[0], b[0]}, 2), "two owners")
	require.Equal(t, []uint32{0, 1}, order(a), "what one of them calls unfilled is not cached")
	require.Equal(t, 1, a.Cached())
}

// A7: a request for more than there is changes nothing, whether or not others are cached.
func TestA7AllOrNothing(t *testing.T) {
	a := open(t, 11)
	shared := take(t, a, 3)
	cold := take(t, a, 3)
	require.NoError(t, a.ReleaseN(cold, 3))
	before := order(a)
	dst, err := a.AllocateN(shared, 9)
	require.Equal(t, ErrOutOfBlocks{Need: 9, Free: 8}, err)
	require.ErrorIs(t, err, ErrOutOfBlocks{})
	require.Equal(t, shared, dst)
	require.Equal(t, before, order(a))
	for _, b := range shared {
		require.Equal(t, 1, refs(t, a, b))
	}
	for _, b := range cold {
		require.Equal(t, 0, refs(t, a, b))
	}
}

func refs(t testing.TB, a *BlockAllocator, b Block) int {
	t.Helper()
	n, err := a.Refs(b)
	require.NoError(t, err)
	return n
}

// A9: a cached block counts once as available; taking it back and allocating
// another one needs exactly the two.
func TestA9CachedBlockCountsOnce(t *testing.T) {
	a := open(t, 3)
	b := take(t, a, 3)
	require.NoError(t, a.ReleaseN(b[:2], 1))
	require.Equal(t, 2, a.Available())
	require.NoError(t, a.Take(b[0]))
	require.Equal(t, 1, a.Available())
	got, err := a.Allocate()
	require.NoError(t, err)
	require.Equal(t, b[1].ID, got.ID)
	require.Equal(t, 3, a.Held())
}

// B1: the least recently released chain is used up first, from its tail to its
// head, and after every block without content.
func TestB1OrderOfReuse(t *testing.T) {
	a := open(t, 8)
	first, second := take(t, a, 3), take(t, a, 3)
	require.NoError(t, a.ReleaseN(first, 2))  // 0 1 full, 2 not
	require.NoError(t, a.ReleaseN(second, 3)) // 3 4 5 full
	require.Equal(t, []uint32{2, 6, 7, 1, 0, 5, 4, 3}, order(a))
	require.Equal(t, 3, a.Free())
	require.Equal(t, 5, a.Cached())
}

// B2: taking the first chain's prefix back takes exactly its blocks out of the
// order and leaves the rest in place.
func TestB2TakeFromTheMiddle(t *testing.T) {
	a := open(t, 8)
	first, second := take(t, a, 4), take(t, a, 3)
	require.NoError(t, a.ReleaseN(first, 4))
	require.NoError(t, a.ReleaseN(second, 3))
	require.Equal(t, []uint32{7, 3, 2, 1, 0, 6, 5, 4}, order(a))
	require.NoError(t, a.Take(first[0]))
	require.NoError(t, a.Take(first[1]))
	require.Equal(t, []uint32{7, 3, 2, 6, 5, 4}, order(a))
	require.ErrorIs(t, a.Take(first[0]), ErrNotCached, "held: to be retained")
}

// B3: with room for two, the block that a hit took is not the one that is given up.
func TestB3TakenBlockIsNotReused(t *testing.T) {
	a := open(t, 2)
	b := take(t, a, 2)
	require.NoError(t, a.ReleaseN(b, 2))
	require.NoError(t, a.Take(b[0]))
	got, err := a.Allocate()
	require.NoError(t, err)
	require.Equal(t, b[1].ID, got.ID)
	require.ErrorIs(t, a.Take(b[1]), ErrStale)
}

func TestHandles(t *testing.T) {
	a := open(t, 4)
	b, err := a.Allocate()
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		b   Block
		why error
	}{
		"zero value":           {Block{}, ErrUnknown},
		"id out of range":      {Block{ID: 4, Gen: 1}, ErrUnknown},
		"largest id":           {Block{ID: math.MaxUint32, Gen: 1}, ErrUnknown},
		"never handed out":     {Block{ID: 3, Gen: 1}, ErrStale},
		"generation of others": {Block{ID: b.ID, Gen: b.Gen + 1}, ErrStale},
	} {
		ops := map[string]error{
			"retain": a.Retain(tc.b), "release": a.Release(tc.b, true), "take": a.Take(tc.b), "discard": a.Discard(tc.b),
			"retain n": a.RetainN([]Block{b, tc.b}), "release n": a.ReleaseN([]Block{b, tc.b}, 1),
		}
		_, ops["refs"] = a.Refs(tc.b)
		for op, err := range ops {
			require.ErrorIs(t, err, tc.why, "%s: %s", op, name)
			var detail ErrBlock
			require.ErrorAs(t, err, &detail)
			require.Equal(t, tc.b, detail.Block)
		}
	}
	require.Equal(t, 1, refs(t, a, b), "nothing above changed it")
	require.Equal(t, 1, a.Held())
	require.Equal(t, "block: release block 4 of generation 1: not a block of this allocator", a.Release(Block{ID: 4, Gen: 1}, false).Error())
}

func TestSharing(t *testing.T) {
	a := open(t, 2)
	b := take(t, a, 2)
	require.NoError(t, a.RetainN(b))
	require.Equal(t, 2, refs(t, a, b[0]))
	require.NoError(t, a.Release(b[0], true))
	require.Equal(t, 2, a.Held(), "held until the last owner goes")
	require.NoError(t, a.Release(b[0], false))
	require.Equal(t, 1, a.Free(), "the last owner says what the content is worth")
	require.ErrorIs(t, a.Retain(b[0]), ErrNotHeld)
	require.ErrorIs(t, a.RetainN([]Block{b[1], b[0]}), ErrNotHeld)
	require.Equal(t, 2, refs(t, a, b[1]))
}

func TestOwnersDoNotWrap(t *testing.T) {
	a := open(t, 2)
	b := take(t, a, 2)
	a.nodes[b[1].ID].refs = math.MaxInt32
	require.ErrorIs(t, a.Retain(b[1]), ErrOwners)
	require.ErrorIs(t, a.RetainN(b), ErrOwners)
	require.Equal(t, 1, refs(t, a, b[0]))
	require.Equal(t, math.MaxInt32, refs(t, a, b[1]))
}

func TestGenerationWrapsPastZero(t *testing.T) {
	a := open(t, 1)
	a.nodes[0].gen = math.MaxUint32
	b, err := a.Allocate()
	require.NoError(t, err)
	require.Equal(t, Block{ID: 0, Gen: 1}, b)
}

func TestReleaseNRange(t *testing.T) {
	a := open(t, 2)
	b := take(t, a, 2)
	for _, filled := range []int{-1, 3} {
		require.Equal(t, ErrRange{What: "filled blocks", Have: filled, Min: 0, Max: 2}, a.ReleaseN(b, filled))
	}
	require.Equal(t, 2, a.Held())
}

func TestErrorTexts(t *testing.T) {
	require.EqualError(t, ErrOutOfBlocks{Need: 3, Free: 1}, "block: out of blocks: need 3, 1 available; release some, or use a larger pool")
	require.EqualError(t, ErrRange{What: "blocks", Have: 0, Min: 1, Max: 9}, "block: blocks: have 0, need 1 to 9")
	require.NotErrorIs(t, ErrRange{What: "blocks"}, ErrOutOfBlocks{})
	require.NotErrorIs(t, ErrOutOfBlocks{Need: 3, Free: 1}, ErrOutOfBlocks{Need: 2})
}

func TestDiscard(t *testing.T) {
	a := open(t, 3)
	b := take(t, a, 3)
	require.NoError(t, a.ReleaseN(b, 3))
	require.NoError(t, a.Discard(b[0]))
	require.Equal(t, []uint32{0, 2, 1}, order(a))
	require.Equal(t, 1, a.Free())
	require.ErrorIs(t, a.Discard(b[0]), ErrNotCached)
	require.ErrorIs(t, a.Take(b[0]), ErrNotCached)
	require.ErrorIs(t, a.Release(b[0], true), ErrDoubleFree)
}

func TestPeak(t *testing.T) {
	a := open(t, 4)
	b := take(t, a, 3)
	require.NoError(t, a.ReleaseN(b, 3))
	require.Equal(t, 3, a.Peak())
	take(t, a, 1)
	require.NoError(t, a.Take(b[0]))
	require.Equal(t, 3, a.Peak())
	take(t, a, 2)
	require.Equal(t, 4, a.Peak())
}
