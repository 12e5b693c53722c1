package group

import (
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// plainRig is a cache whose entries are blocks, of n.
type plainRig struct {
	*testing.T
	c     *Cache
	pages *block.BlockAllocator
}

func newPlain(t *testing.T, n int) plainRig {
	pages, err := block.New(n)
	require.NoError(t, err)
	c, err := New(pages, Config{Tree: prefix.Config{BlockSize: 4}, Parts: []Part{full}})
	require.NoError(t, err)
	require.True(t, c.Plain())
	return plainRig{t, c, pages}
}

// offer inserts a text with new blocks, and returns those that the caller owns then.
func (r plainRig) offer(text string) (n int, blocks, old []block.Block) {
	blocks, err := r.pages.AllocateN(nil, (len(text)+2)/4)
	require.NoError(r, err)
	n, path, old, err := r.c.Insert(nil, nil, prefix.Path{Root: root(text)}, query(text).Tokens, func(_, i int) *block.Block { return &blocks[i] })
	require.NoError(r, err)
	require.Empty(r, path, "nothing is owned besides blocks")
	return n, blocks, old
}

func (r plainRig) check(owned ...[]block.Block) {
	require.NoError(r, r.c.Check())
	require.NoError(r, r.pages.Check())
	for _, bs := range owned {
		require.NoError(r, r.c.Release(bs))
	}
	require.Zero(r, r.pages.Held())
}

func TestPlainEntriesAreBlocks(t *testing.T) {
	r := newPlain(t, 8)
	n, blocks, old := r.offer(span("a", 12))
	require.Equal(t, 3, n)
	require.Empty(t, old)
	require.Equal(t, blocks, r.c.Wrote())
	require.Equal(t, blocks, r.c.PathOf(nil, blocks))
	require.Equal(t, blocks[1], r.c.Block(blocks[1], 0, 0))
	require.Equal(t, [2]int{3, 0}, [2]int{r.c.With(0), r.c.With(1)})
	require.Zero(t, r.c.Entries().Total())
	r.c.LeasedEntries(func(block.Block) { t.Error("no entries are leased besides blocks") })
	r.c.Drop(0, 0, blocks[0], RestorePoints{})

	n, same, old := r.offer(span("a", 12)) // what the tree has takes its place
	require.Equal(t, 3, n)
	require.Equal(t, blocks, same)
	require.Len(t, old, 3)
	require.Empty(t, r.c.Wrote())
	require.NoError(t, r.c.Release(old))
	r.check(blocks, same)
}

// A block whose beginning alone is offered stays where it is.
func TestPlainPartOfAnEntry(t *testing.T) {
	r := newPlain(t, 8)
	_, blocks, _ := r.offer(span("a", 8))
	n, path, old, err := r.c.Insert(nil, nil, prefix.Path{Root: root("a"), Parent: blocks[0]}, query(span("a", 6)).Tokens[4:], func(_, i int) *block.Block { return &blocks[1+i] })
	require.NoError(t, err)
	require.Zero(t, n)
	require.Empty(t, slices.Concat(path, old, r.c.Wrote()))
	r.check(blocks)
}

// What is found is shorter where claims leave too few blocks, and is not searched again.
func TestPlainTakesWhatClaimsLeave(t *testing.T) {
	r := newPlain(t, 4)
	_, blocks, _ := r.offer(span("a", 12))
	require.NoError(t, r.c.Release(blocks))
	q := query(span("a", 11))
	found, ok := r.c.Peek(root("a"), q)
	require.True(t, ok)
	require.Equal(t, 11, found.Tokens)
	m, missing := r.c.Match(root("a"), q)
	require.Equal(t, [2]int{11, 0}, [2]int{m.Tokens, missing})
	var claim block.Claim
	require.NoError(t, r.pages.Reserve([]block.Reservation{{Claim: &claim, Blocks: 2}}))
	f, err := r.c.Take(root("a"), q, prefix.RetentionHint{}, found)
	require.NoError(t, err)
	require.Equal(t, 8, f.Tokens)
	require.Equal(t, []Run{{Blocks: blocks[:2]}}, f.Runs)
	require.Equal(t, blocks[1], f.Last)
	require.Empty(t, f.Path)
	r.check(slices.Clone(f.Runs[0].Blocks))
}

// A path is handed over after the blocks that the taker has, and held up to a block.
func TestPlainHandsOver(t *testing.T) {
	r := newPlain(t, 8)
	_, blocks, _ := r.offer(span("a", 12))
	f, err := r.c.Hand(blocks, 6)
	require.NoError(t, err)
	require.Equal(t, [3]int{12, 3, 1}, [3]int{f.Tokens, f.Blocks, f.After})
	rest := slices.Clone(f.Runs[0].Blocks)
	require.Equal(t, blocks[1:], rest)
	require.NoError(t, r.c.Release(slices.Clone(blocks)))
	require.Equal(t, 2, r.pages.Held())
	_, err = r.c.Own(0, blocks, 12)
	require.ErrorIs(t, err, block.ErrNotHeld, "the first one is cached")
	g, err := r.c.Hand(nil, -1)
	require.NoError(t, err)
	require.Zero(t, g.After)
	require.Zero(t, [2]block.Block{r.c.Block(blocks[0], 1, 0), r.c.Block(blocks[0], 0, 1)})
	held, err := r.c.Hold(blocks[1:])
	require.NoError(t, err)
	require.Equal(t, blocks, held)
	entries, kept, err := r.c.Keep(blocks[:2], 3)
	require.NoError(t, err)
	require.Empty(t, entries)
	require.Equal(t, blocks[:2], kept)
	r.check(kept, held, rest)
}
