package prefix

import (
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/intrusive"
)

// An entry is resident, with a block of the allocator, or offloaded: its block left the device
// and its content is found elsewhere by its key. On a path the resident blocks come first:
// eviction starts at the end and promotion at the beginning. So the offloaded blocks of a node
// are its last ones, and all entries below them are offloaded.
//
// An offloaded block has no owner and no handle that others know. Its number is one that the
// allocator does not reach, counted down from the largest, so that nodes hold numbers of one
// kind. Only full blocks are offloaded: to load a part of a block costs as much as to load all
// of it, and saves less.

// maxOffloaded is the largest Config.MaxOffloaded.
const maxOffloaded = 1 << 30

// offloadTable is what a tree knows of the blocks that are offloaded.
type offloadTable struct {
	list    intrusive.List // those that were used least recently at the front; each after all that is below it
	links   []intrusive.Link
	entries []entry // the last number is that of the first
	free    []uint32
	numbers map[Key]uint32
	most    int
	demote  func(block.Block, Key) bool
}

func newOffloadTable(cfg Config) offloadTable {
	return offloadTable{list: intrusive.Empty, numbers: map[Key]uint32{}, most: cfg.MaxOffloaded, demote: cfg.Demote}
}

// index is the place of a number in the table, and the number of a place.
func (a *offloadTable) index(id uint32) uint32 { return none - 1 - id }

func (a *offloadTable) entry(id uint32) *entry { return &a.entries[a.index(id)] }

// size is the number of blocks that are offloaded.
func (a *offloadTable) size() int { return a.list.Len() }

// number is one that is not used.
func (a *offloadTable) number() uint32 {
	if last := len(a.free) - 1; last >= 0 {
		id := a.free[last]
		a.free = a.free[:last]
		return id
	}
	a.entries, a.links = append(a.entries, entry{}), append(a.links, intrusive.Link{})
	return none - uint32(len(a.entries))
}

// enlist notes the entry of a block with a key, and returns its number.
func (t *Tree) enlist(e entry, key Key) uint32 {
	a := &t.offloaded
	id := a.number()
	e.state = absent
	*a.entry(id) = e
	a.list.Push(a.links, a.index(id))
	a.numbers[key] = id
	t.stats.Offloaded++
	e.node.root.tenant.stats.Offloaded++
	if e.expires != 0 {
		t.expiry.Put(id)
	}
	return id
}

// unlist forgets it.
func (t *Tree) unlist(tn *tenant, id uint32, key Key) {
	a := &t.offloaded
	t.expiry.Remove(id)
	a.list.Pull(a.links, a.index(id))
	delete(a.numbers, key)
	*a.entry(id) = entry{}
	a.free = append(a.free, id)
	t.stats.Offloaded--
	tn.stats.Offloaded--
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
	if !t.offloaded.demote(b, key) {
		return false
	}
	was := t.entries[id]
	t.vacate(n, i)
	t.version++
	t.stats.Demoted++
	n.root.tenant.stats.Demoted++
	n.blocks[i] = block.Block{ID: t.enlist(entry{
		node: n, hash: was.hash, depth: was.depth, ttl: was.ttl, expires: was.expires, priority: was.priority,
	}, key)}
	t.setOffloaded(n, n.offloaded+1)
	for t.offloaded.size() > t.offloaded.most { // by one
		e := &t.offloaded.entries[t.offloaded.list.Front()]
		t.ghosts.add(e.hash)
		t.forget(e.node, e.index()) // nothing is below it
	}
	return true
}

// reclaim gives the place of what is offloaded and goes on with a block's label after a path that
// ends in at to that block, and returns its node and what was asked for it before and now; nil:
// nothing is offloaded there.
func (t *Tree) reclaim(at *node, a addition) (*node, RetentionHint) {
	n := t.nextOffloaded(at, a.depth, a.label, a.mark)
	if n == nil {
		return nil, a.keep
	}
	i := n.resident()
	id := n.blocks[i].ID
	e := *t.offloaded.entry(id)
	e.keep(a.keep)
	t.unlist(n.root.tenant, id, n.keys[i])
	t.version++
	t.stats.Promoted++
	n.root.tenant.stats.Promoted++
	n.blocks[i] = a.block
	t.setOffloaded(n, n.offloaded-1)
	return n, RetentionHint{TTL: e.ttl, Priority: int(e.priority)}
}

// setOffloaded says how many of n's blocks are offloaded, which may make it a child of the other kind.
func (t *Tree) setOffloaded(n *node, away int) {
	if n.far() == (away == len(n.blocks)) {
		n.offloaded = away
		return
	}
	p := n.parent
	p.dropChild(n)
	n.offloaded = away
	t.addChild(p, n)
}

// wanted counts the offloaded entries of a match as used now.
func (t *Tree) wanted(m Match) {
	a := &t.offloaded
	n := m.far
	for end := m.Blocks + m.Offloaded/t.blockSize; end > m.Blocks; end-- { // the end of a path is the first to go
		for n.depth >= end {
			n = n.parent
		}
		i := a.index(n.blocks[end-1-n.depth].ID)
		a.list.Pull(a.links, i)
		a.list.Push(a.links, i)
	}
}

// checkOffloaded checks the list of what is offloaded, and that it has all that is.
func (t *Tree) checkOffloaded() error {
	a := &t.offloaded
	all, ok := a.list.All(a.links)
	seen := map[*entry]bool{}
	for _, i := range all {
		e := &a.entries[i]
		if ok = ok && e.state == absent; !ok {
			break
		}
		if _, parent, _ := t.parent(e.node, e.index()); seen[parent] {
			return corrupt("block %d would leave before what is below it", a.index(i))
		}
		if a.numbers[e.node.keys[e.index()]] != a.index(i) || (e.expires != 0) != t.expiry.Has(a.index(i)) {
			return corrupt("block %d is not found by its key, or does not expire", a.index(i))
		}
		seen[e] = true
	}
	if !ok {
		return corrupt("the list of offloaded blocks is broken, after %d of its %d", len(seen), len(all))
	}
	away := t.stats.Offloaded
	if away != a.size() || away != len(a.numbers) || away+len(a.free) != len(a.entries) || away > a.most {
		return corrupt("%d blocks are offloaded, at most %d; %d listed, %d keys", away, a.most, a.size(), len(a.numbers))
	}
	return nil
}
