package prefix

// Cause is why a lookup found no more than it did.
type Cause uint8

const (
	Complete   Cause = iota // everything asked for was found
	NeverSeen               // these tokens were not stored before, or very long ago
	WasEvicted              // they were there
	OtherSalt               // they are there under another salt
	OtherModel              // they are there under another fingerprint or adapter
	TooShort                // fewer tokens than a block, or than the shortest prefix
	numCauses
)

func (c Cause) String() string {
	return [...]string{"complete", "never seen", "evicted", "other salt", "other model", "too short"}[min(c, TooShort)]
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
	case t.firsts[hashLabel(r.unsalted, tokens, m)] > 0:
		return OtherSalt
	case t.firsts[hashLabel(0, tokens, m)] > 0:
		return OtherModel
	}
	return NeverSeen
}

// noteFirst counts a first block that enters (1) or leaves (−1) a root.
func (t *Tree) noteFirst(n *node, i, by int) {
	if n.depth+i > 0 {
		return
	}
	tokens, m := n.label(i, t.blockSize)
	for _, h := range [...]uint64{hashLabel(n.root.unsalted, tokens, m), hashLabel(0, tokens, m)} {
		if t.firsts[h] += by; t.firsts[h] == 0 {
			delete(t.firsts, h)
		}
	}
}

// ghosts remembers the paths of evicted blocks, each until another falls into its
// place: a bounded memory that costs one access a block. Wrong answers are as
// unlikely as equal 64-bit hashes, and mislead a statistic at worst.
type ghosts struct{ slots []uint64 }

// grow makes room for about as many ghosts as there are blocks.
func (g *ghosts) grow(blocks int) {
	size := 64
	for size < blocks {
		size *= 2
	}
	if size > len(g.slots) {
		g.slots = append(g.slots, make([]uint64, size-len(g.slots))...)
	}
}

func (g *ghosts) slot(hash uint64) *uint64 { return &g.slots[hash&uint64(len(g.slots)-1)] }

func (g *ghosts) add(hash uint64) { *g.slot(hash) = hash }

func (g *ghosts) has(hash uint64) bool { return *g.slot(hash) == hash }

func (g *ghosts) drop(hash uint64) {
	if s := g.slot(hash); *s == hash {
		*s = 0
	}
}
