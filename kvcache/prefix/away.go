package prefix

import "github.com/ferrumkv/ferrumkv/kvcache/block"

// An entry is resident, which means that its block is the allocator's, or away: the block
// left the device and its content is to be found elsewhere, under its key. Of a path the
// resident blocks come first: eviction goes from ends and promotion from the beginning. So
// the blocks of a node that are away are its last ones, and all that is below them is away.
//
// A block that is away has no owner and no handle that anybody else knows. Its number is one
// that the allocator does not reach, counted from the largest on downwards, so that nodes
// hold numbers of one kind. Only full blocks are away: to load a part of a block costs as
// much as to load all of it, and saves less.

// mostAway is the largest Config.MaxAway.
const mostAway = 1 << 30

// awayTable is what a tree knows of the blocks that are away.
type awayTable struct {
	list            // those that were used least recently at the front; each behind all that is below it
	entries []entry // the last number is that of the first
	free    []uint32
	numbers map[Key]uint32
	links   links
	most    int
	demote  func(block.Block, Key) bool
}

func (t *Tree) newAwayTable(cfg Config) awayTable {
	return awayTable{
		list: empty, numbers: map[Key]uint32{}, most: cfg.MaxAway, demote: cfg.Demote,
		links: func(id uint32) *link { return &t.away.entry(id).neighbours },
	}
}

func (a *awayTable) entry(id uint32) *entry { return &a.entries[none-1-id] }

// number is one that is not used.
func (a *awayTable) number() uint32 {
	if last := len(a.free) - 1; last >= 0 {
		id := a.free[last]
		a.free = a.free[:last]
		return id
	}
	a.entries = append(a.entries, entry{})
	return none - uint32(len(a.entries))
}

// enlist notes the entry of a block with a key, and returns its number.
func (t *Tree) enlist(e entry, key Key) uint32 {
	a := &t.away
	id := a.number()
	t.clock++
	e.state, e.stamp = absent, t.clock
	*a.entry(id) = e
	a.push(a.links, id)
	a.numbers[key] = id
	e.node.root.tenant.away++
	if e.expires != 0 {
		t.expiry.put(id)
	}
	return id
}

// unlist forgets it.
func (t *Tree) unlist(tn *tenant, id uint32, key Key) {
	a := &t.away
	t.expiry.remove(id)
	a.pull(a.links, id)
	delete(a.numbers, key)
	*a.entry(id) = entry{}
	a.free = append(a.free, id)
	tn.away--
}

// demote makes a cached block, which ends a resident path, free, and leaves its entry in the
// tree. It returns false, and has changed nothing, where the entry is not to stay.
func (t *Tree) demote(id uint32) bool {
	n := t.entries[id].node
	i := t.entries[id].index()
	if n.partial(t.blockSize) && i == len(n.blocks)-1 {
		return false
	}
	b, key := n.blocks[i], t.keysOf(n)[i]
	if !t.away.demote(b, key) {
		return false
	}
	was := t.entries[id]
	t.vacate(n, i)
	t.version++
	t.stats.demoted++
	n.root.tenant.stats.demoted++
	n.blocks[i] = block.Block{ID: t.enlist(entry{
		node: n, hash: was.hash, depth: was.depth, ttl: was.ttl, expires: was.expires, priority: was.priority,
	}, key)}
	t.setAway(n, n.away+1)
	for t.away.size > t.away.most { // by one
		e := t.away.entry(t.away.head)
		t.ghosts.add(e.hash)
		t.forget(e.node, e.index()) // nothing is below it
	}
	return true
}

// reclaim gives the place of what is away and goes on with a block's label behind a path that
// ends in at to that block, and returns its node and what was asked for it before and now; nil:
// nothing is away there.
func (t *Tree) reclaim(at *node, a addition) (*node, Keep) {
	n := t.nextAway(at, a.depth, a.label, a.mark)
	if n == nil {
		return nil, a.keep
	}
	i := n.resident()
	id := n.blocks[i].ID
	e := *t.away.entry(id)
	e.keep(a.keep)
	t.unlist(n.root.tenant, id, n.keys[i])
	t.version++
	t.stats.promoted++
	n.root.tenant.stats.promoted++
	n.blocks[i] = a.block
	t.setAway(n, n.away-1)
	return n, Keep{TTL: e.ttl, Priority: int(e.priority)}
}

// setAway says how many of n's blocks are away, which may make it a child of the other kind.
func (t *Tree) setAway(n *node, away int) {
	if n.far() == (away == len(n.blocks)) {
		n.away = away
		return
	}
	p := n.parent
	p.dropChild(n)
	n.away = away
	t.addChild(p, n)
}

// wanted keeps what a match has away as if it was used now.
func (t *Tree) wanted(m Match) {
	a := &t.away
	n := m.far
	for end := m.Blocks + m.Away/t.blockSize; end > m.Blocks; end-- { // the end of a path is the first to go
		for n.depth >= end {
			n = n.parent
		}
		id := n.blocks[end-1-n.depth].ID
		t.clock++
		a.entry(id).stamp = t.clock
		a.pull(a.links, id)
		a.push(a.links, id)
	}
}

// checkAway checks the list of what is away, and that it has all that is.
func (t *Tree) checkAway() error {
	a := &t.away
	walked, prev := 0, none
	for id := a.head; id != none; id, prev = a.entry(id).neighbours.next, id {
		e := a.entry(id)
		if walked++; walked > a.size || e.state != absent || e.neighbours.prev != prev {
			return corrupt("the list of blocks that are away is broken at %d", id)
		}
		if parent := t.parent(e.node, e.index()); parent != nil && parent.state == absent && parent.stamp <= e.stamp {
			return corrupt("block %d would leave before what is below it", id)
		}
		if a.numbers[e.node.keys[e.index()]] != id || (e.expires != 0) != t.expiry.has(id) {
			return corrupt("block %d is not found by its key, or does not expire", id)
		}
	}
	away, known := 0, 0
	for _, r := range t.roots {
		each(&r.node, func(n *node) { away += n.away })
	}
	for _, tn := range t.tenants {
		known += tn.away
	}
	if away != walked || away != a.size || away != known || away != len(a.numbers) || away+len(a.free) != len(a.entries) || away > a.most {
		return corrupt("%d blocks are away, at most %d; %d listed, %d of %d keys, %d of salts", away, a.most, walked, a.size, len(a.numbers), known)
	}
	return nil
}
