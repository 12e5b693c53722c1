package prefix

import (
	"math/bits"
	"slices"
)

// MissReason says why a lookup found no more than it did. It describes the first block that was not
// found.
type MissReason uint8

const (
	Complete   MissReason = iota // everything was found
	NeverSeen                    // it was never stored, or too long ago to be remembered
	WasEvicted                   // it was evicted or is offloaded; about as many evictions are remembered as there are blocks
	OtherSalt                    // it is stored under another salt
	OtherModel                   // it is stored under another fingerprint or adapter
	TooShort                     // the rest is not a full block, or the query is shorter than Config.MinPrefix
	numMissReasons
)

// NotLookedUp is the reason when nothing was looked up: reuse is off.
const NotLookedUp = numMissReasons

func (c MissReason) String() string {
	return [...]string{"complete", "never seen", "evicted", "other salt", "other model", "too short", "not looked up"}[min(c, NotLookedUp)]
}

// Redacted is the reason without what it says about other tenants: OtherSalt and OtherModel become
// NeverSeen.
func (c MissReason) Redacted() MissReason {
	if c == OtherSalt || c == OtherModel {
		return NeverSeen
	}
	return c
}

// missReason explains why the path of a query ends after node n, after that many blocks.
// n is nil where the root has no path at all.
func (t *Tree) missReason(r Root, q Query, n *node, blocks int) MissReason {
	tokens := q.tokens(blocks, t.blockSize)
	if len(tokens) < t.blockSize {
		return TooShort
	}
	m := mark{extra: q.extra(blocks)}
	parent := r.Key.word()
	if blocks > 0 {
		for n.depth >= blocks {
			n = n.parent
		}
		parent = t.entries[n.blocks[blocks-n.depth-1].ID].hash
	}
	switch {
	case t.ghosts.has(hashLabel(parent, tokens, m)):
		return WasEvicted
	case blocks > 0:
		return NeverSeen
	}
	return t.elsewhere(r, tokens, m)
}

// elsewhere explains why a root does not have a first block: others may.
func (t *Tree) elsewhere(r Root, tokens []uint32, m mark) MissReason {
	c := NeverSeen
	id := *t.firstBlocks.slot(tokens, m)
	for range maxSameHash {
		if id == none {
			break
		}
		e := &t.entries[id]
		if first, fm := e.node.label(0, t.blockSize); fm == m && slices.Equal(first, tokens) {
			if e.node.root.unsalted == r.unsalted {
				return OtherSalt
			}
			c = OtherModel
		}
		id = e.sameHash.next
	}
	return c
}

// maxSameHash bounds the search for one first block under many roots.
const maxSameHash = 64

// firstBlocks finds the first blocks of all roots by their labels: the heads of lists of
// those whose labels have the same hash, through their entries.
type firstBlocks []uint32

func (f firstBlocks) slot(tokens []uint32, m mark) *uint32 {
	return &f[hashLabel(0, tokens, m)&uint64(len(f)-1)]
}

// addFirst notes the first block of n, which is the first of its root.
func (t *Tree) addFirst(n *node) {
	id, head := n.blocks[0].ID, t.firstBlocks.slot(n.label(0, t.blockSize))
	t.entries[id].sameHash.prev, t.entries[id].sameHash.next = none, *head
	if *head != none {
		t.entries[*head].sameHash.prev = id
	}
	*head = id
}

// dropFirst forgets it.
func (t *Tree) dropFirst(n *node) {
	l := t.entries[n.blocks[0].ID].sameHash
	if l.next != none {
		t.entries[l.next].sameHash.prev = l.prev
	}
	if l.prev != none {
		t.entries[l.prev].sameHash.next = l.next
	} else {
		*t.firstBlocks.slot(n.label(0, t.blockSize)) = l.next
	}
}

// growFirsts makes about as many lists as there are blocks.
func (t *Tree) growFirsts() {
	size := tableSize(len(t.entries))
	if size <= len(t.firstBlocks) {
		return
	}
	t.firstBlocks = slices.Repeat([]uint32{none}, size)
	for _, e := range t.entries {
		if e.node != nil && e.depth == 0 {
			t.addFirst(e.node)
		}
	}
}

// tableSize is the number of places of a table for that many blocks, a power of two.
func tableSize(blocks int) int { return 1 << bits.Len(uint(max(blocks, 64)-1)) }

// ghosts remembers the paths of evicted blocks by 16 bits of their hashes, four for
// each place that a hash can have: the latest push the first one out. So memory is
// 2 bytes a block, and a million fit a processor's cache. One answer in 16,000 is
// wrong, and misleads a statistic.
type ghosts struct{ sets []uint64 }

// grow makes room for at least as many ghosts as there are blocks.
func (g *ghosts) grow(blocks int) {
	if size := tableSize(blocks) / 4; size > len(g.sets) {
		g.sets = append(g.sets, make([]uint64, size-len(g.sets))...)
	}
}

// find is the set of a hash, and the bits that stand for it there, which are not 0.
func (g *ghosts) find(hash uint64) (set *uint64, tag uint64) {
	return &g.sets[hash&uint64(len(g.sets)-1)], hash>>48 | 1
}

func (g *ghosts) add(hash uint64) {
	set, tag := g.find(hash)
	*set = *set<<16 | tag
}

func (g *ghosts) has(hash uint64) bool {
	set, tag := g.find(hash)
	for s := *set; s != 0; s >>= 16 {
		if s&0xffff == tag {
			return true
		}
	}
	return false
}

func (g *ghosts) drop(hash uint64) {
	set, tag := g.find(hash)
	for shift := 0; shift < 64; shift += 16 {
		if *set>>shift&0xffff == tag {
			*set &^= 0xffff << shift
		}
	}
}
