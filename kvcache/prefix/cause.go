package prefix

import (
	"math/bits"
	"slices"
)

// Cause is why a lookup found no more than it did: Complete, NeverSeen, WasEvicted,
// OtherSalt, OtherModel, TooShort or NotAsked. It is said of the first block that was
// not found.
type Cause uint8

const (
	Complete   Cause = iota // everything asked for was found
	NeverSeen               // it was not stored before, or longer ago than is remembered
	WasEvicted              // it was there, or is away; about as many are remembered as there are blocks
	OtherSalt               // it is there under another salt
	OtherModel              // it is there under another fingerprint or adapter
	TooShort                // the rest is not a full block, or all is less than the shortest prefix
	numCauses
)

// NotAsked is the cause where nothing was looked up: nothing is reused.
const NotAsked = numCauses

func (c Cause) String() string {
	return [...]string{"complete", "never seen", "evicted", "other salt", "other model", "too short", "not asked"}[min(c, NotAsked)]
}

// Told is the cause as it may be told to the one who asked: what others have is
// none of his business.
func (c Cause) Told() Cause {
	if c == OtherSalt || c == OtherModel {
		return NeverSeen
	}
	return c
}

// cause explains why the path of a query ends behind node n, after so many blocks.
// n is nil where the root has no path at all.
func (t *Tree) cause(r Root, q Query, n *node, blocks int) Cause {
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
func (t *Tree) elsewhere(r Root, tokens []uint32, m mark) Cause {
	c := NeverSeen
	id := *t.firsts.slot(tokens, m)
	for range mostTwins {
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
		id = e.twins.next
	}
	return c
}

// mostTwins bounds the search for one first block under many roots.
const mostTwins = 64

// firsts finds the first blocks of all roots by their labels: the heads of lists of
// those whose labels have the same hash, through their entries.
type firsts []uint32

func (f firsts) slot(tokens []uint32, m mark) *uint32 {
	return &f[hashLabel(0, tokens, m)&uint64(len(f)-1)]
}

// addFirst notes the first block of n, which is the first of its root.
func (t *Tree) addFirst(n *node) {
	id, head := n.blocks[0].ID, t.firsts.slot(n.label(0, t.blockSize))
	t.entries[id].twins = link{none, *head}
	if *head != none {
		t.entries[*head].twins.prev = id
	}
	*head = id
}

// dropFirst forgets it.
func (t *Tree) dropFirst(n *node) {
	l := t.entries[n.blocks[0].ID].twins
	if l.next != none {
		t.entries[l.next].twins.prev = l.prev
	}
	if l.prev != none {
		t.entries[l.prev].twins.next = l.next
	} else {
		*t.firsts.slot(n.label(0, t.blockSize)) = l.next
	}
}

// growFirsts makes about as many lists as there are blocks.
func (t *Tree) growFirsts() {
	size := tableSize(len(t.entries))
	if size <= len(t.firsts) {
		return
	}
	t.firsts = slices.Repeat([]uint32{none}, size)
	for _, e := range t.entries {
		if e.node != nil && e.depth == 0 {
			t.addFirst(e.node)
		}
	}
}

// tableSize is the number of places of a table for so many blocks, a power of two.
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
