package prefix

import "sort"

// queue is a list of cached blocks: released first at the front.
type queue struct {
	rank uint32
	list
}

// evictionGroup is a set of cached blocks that compete with each other: those of all
// tenants together that have no limits, or those of one that has.
type evictionGroup struct {
	t      *Tree
	queues []queue // by rising rank, none empty
	policy evictionPolicy
	limits Limits
	blocks int // in the tree
	queued int // of them, without an owner

	spare int                   // blocks that can be evicted for anybody
	turn  turn                  // if there are cached ones
	home  *heap[*evictionGroup] // it is in, and where
	place int32
}

// find is the place in s.queues of a rank, or where it would be.
func (s *evictionGroup) find(rank uint32) (int, bool) {
	i := sort.Search(len(s.queues), func(i int) bool { return s.queues[i].rank >= rank })
	return i, i < len(s.queues) && s.queues[i].rank == rank
}

// push puts a block at the back of the queue of its entry's rank.
func (s *evictionGroup) push(id uint32) {
	rank := s.t.entries[id].rank
	i, there := s.find(rank)
	if !there {
		s.queues = append(s.queues, queue{})
		copy(s.queues[i+1:], s.queues[i:])
		s.queues[i] = queue{rank, empty}
	}
	s.queues[i].push(s.t.waiting, id)
}

// pull takes a block out of its queue, from wherever it stands.
func (s *evictionGroup) pull(id uint32) {
	i, _ := s.find(s.t.entries[id].rank)
	q := &s.queues[i]
	if q.pull(s.t.waiting, id); q.size == 0 {
		s.queues = append(s.queues[:i], s.queues[i+1:]...)
	}
}

// front is the block that has waited longest in a queue among those that end a
// path: the first one, since a path is released from its end.
func (s *evictionGroup) front(q queue) uint32 {
	for id := q.head; id != none; id = s.t.entries[id].neighbours.next {
		if e := &s.t.entries[id]; e.node.leafTail(e.index()) {
			return id
		}
	}
	return none
}

// enqueue makes a block whose last owner has gone wait in its share.
func (t *Tree) enqueue(id uint32) {
	e := &t.entries[id]
	tn := e.node.root.tenant
	s := tn.group
	t.clock++
	e.stamp, e.state = t.clock, queued
	t.limit(id)
	s.policy.released(s, id)
	s.queued++
	tn.queued++
	t.queued++
	t.groups.changed(s)
}

// unqueue takes a block out of its share's queues: it has an owner again, or goes.
func (t *Tree) unqueue(id uint32) {
	e := &t.entries[id]
	tn := e.node.root.tenant
	s := tn.group
	s.policy.taken(s, id)
	t.expiry.remove(id)
	e.state = held
	s.queued--
	tn.queued--
	t.queued--
	t.groups.changed(s)
}
