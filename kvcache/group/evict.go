package group

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Evictable is the number of cached blocks that Evict can free for a sequence of scope r.
func (c *Cache) Evictable(r prefix.Root) int {
	return min(c.Tree().Evictable(r)*c.full, c.blocks().Cached()-c.old.n) + c.old.n
}

// Evict makes n cached blocks free, for a sequence of scope r, or none and returns false: blocks that can go without
// their entry while there are more of them than Config.Share, then entries in the order of the tree's policy, with what
// is with them.
func (c *Cache) Evict(n int, r prefix.Root) bool { return c.layout().evict(n, r) }

func (c rows) evict(n int, r prefix.Root) bool {
	return n <= c.Evictable(r) && c.free(n, func() bool { return c.Tree().Evict(1, r) })
}

// EvictAny is Evict for a caller that was promised blocks before: it ignores floors.
func (c *Cache) EvictAny(n int) bool { return c.layout().evictAny(n) }

func (c rows) evictAny(n int) bool {
	return n <= c.blocks().Cached() && c.free(n, func() bool { return c.Tree().EvictAny(1) })
}

// free evicts until n more blocks are free; entry evicts one entry.
func (c rows) free(n int, entry func() bool) bool {
	for want := c.blocks().Free() + n; c.blocks().Free() < want; {
		if c.old.n > c.most {
			c.oldest()
		} else if !entry() {
			if c.old.n == 0 {
				return false
			}
			c.oldest()
		}
	}
	return true
}

// oldest evicts the block that can go alone and was released first.
func (c rows) oldest() { c.detach(c.table[c.places[c.old.first-1].at-1]) }

// Forget takes a block that is about to be written away from its entry. One of a Full part takes the entry with it, and
// what is below.
func (c *Cache) Forget(b block.Block) bool { return c.layout().forget(b) }

func (c rows) forget(b block.Block) bool {
	known, end := c.Has(b)
	switch {
	case !known:
		return false
	case end || !c.alone(c.places[b.ID].at):
		return c.Tree().Forget(c.entry(b))
	}
	c.detach(b)
	return true
}

// lease is the blocks that a lease of the tree needs besides.
type lease struct {
	*prefix.Lease
	blocks []block.Block
}

// Pin leases the longest known prefix of a query for the time d, with the blocks of every part that make it a hit.
func (c *Cache) Pin(r prefix.Root, q prefix.Query, d time.Duration) (*prefix.Lease, error) {
	return c.layout().pin(r, q, d)
}

func (c rows) pin(r prefix.Root, q prefix.Query, d time.Duration) (*prefix.Lease, error) {
	path, m := c.Tree().Lookup(c.path[:0], r, q)
	c.path = path
	size := max(c.Tree().BlockSize(), 1)
	n := c.longest(path, m) / size * size
	n = min(n, c.longest(path, c.Tree().First(m, n)))
	q.Tokens = q.Tokens[:n]
	l, err := c.Tree().Pin(r, q, d)
	if err != nil || l.Match.Tokens == 0 {
		return l, err
	}
	if l.Match.Tokens < n { // as in Take
		if err = c.Tree().Unpin(l); err != nil {
			return nil, err
		}
		return c.Tree().Pin(r, prefix.Query{}, d)
	}
	with := lease{Lease: l}
	for part := range c.parts {
		run := c.run(part, path, l.Match.Tokens)
		if err = c.own(run.Blocks); err != nil {
			return nil, errors.Join(err, c.Release(with.blocks), c.Tree().Unpin(l))
		}
		with.blocks = append(with.blocks, run.Blocks...)
	}
	c.leases = append(c.leases, with)
	return l, nil
}

// Unpin ends a lease before its time.
func (c *Cache) Unpin(l *prefix.Lease) error {
	err := c.Tree().Unpin(l)
	c.ended()
	return err
}

// Expire ends what has had its time.
func (c *Cache) Expire() {
	c.Tree().Expire()
	c.ended()
}

// ended gives back the blocks of leases that are over.
func (c *Cache) ended() {
	kept := c.leases[:0]
	for _, l := range c.leases {
		if !l.Ended() {
			kept = append(kept, l)
			continue
		}
		_ = c.Release(l.blocks) // ours
	}
	clear(c.leases[len(kept):])
	c.leases = kept
}

// Leased calls visit for every block that a lease owns.
func (c *Cache) Leased(visit func(block.Block)) { c.layout().leased(visit) }

func (c rows) leased(visit func(block.Block)) {
	for _, l := range c.leases {
		for _, b := range l.blocks {
			visit(b)
		}
	}
}

// LeasedEntries calls visit for every entry that a lease owns besides blocks.
func (c *Cache) LeasedEntries(visit func(block.Block)) { c.layout().leasedEntries(visit) }

func (c rows) leasedEntries(visit func(block.Block)) { c.Tree().Leased(visit) }

// Close ends all subscriptions.
func (c *Cache) Close() { c.Tree().Close() }

// Check verifies that every block is with one entry at most, that the blocks of Full parts are with every entry that is
// full, and that the cached blocks are those that are with entries and have no owners.
func (c *Cache) Check() error { return c.layout().check() }

func (c rows) check() error {
	if err := errors.Join(c.Tree().Check(), c.Entries().Check()); err != nil {
		return err
	}
	with, cached, counts := 0, 0, make([]int, len(c.parts))
	for at, b := range c.table {
		if b == (block.Block{}) {
			continue
		}
		with++
		counts[c.part(uint32(at+1))]++
		refs, err := c.blocks().Refs(b)
		if err != nil || c.places[b.ID].at != uint32(at+1) {
			return fmt.Errorf("block %d is with an entry that it does not know of (%v)", b.ID, err)
		}
		if known, _ := c.Tree().Has(c.names[at/c.width]); !known {
			return fmt.Errorf("block %d is with entry %d, which the tree does not have", b.ID, at/c.width)
		}
		if refs == 0 {
			cached++
		}
		if queued := c.places[b.ID].queued; queued != (refs == 0 && c.alone(uint32(at+1))) {
			return fmt.Errorf("block %d with %d owners waits to be evicted: %v", b.ID, refs, queued)
		}
	}
	if cached != c.blocks().Cached() {
		return fmt.Errorf("%d blocks are cached, %d of them with entries", c.blocks().Cached(), cached)
	}
	for id := range c.places {
		if c.places[id].at != 0 {
			with--
		}
	}
	if !slices.Equal(counts, c.counts) {
		return fmt.Errorf("%v blocks of the parts are with entries, counted %v", counts, c.counts)
	}
	if with != 0 {
		return fmt.Errorf("%d blocks are with entries that do not have them", -with)
	}
	return nil
}
