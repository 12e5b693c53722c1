package prefix

import "sort"

// none is the end of a queue.
const none = ^uint32(0)

// queue is a list of cached blocks through their entries: released first at the front.
type queue struct {
	rank       uint32
	head, tail uint32
	size       int
}

// share is a set of cached blocks that compete with each other: those of all
// tenants together that have no limits, or those of one that has.
type share struct {
	t      *Tree
	queues []queue // by rising rank, none empty
	ranker ranker
	limits Limits
	blocks int // in the tree
	queued int // of them, without an owner

	spare int   // blocks that can be evicted for anybody
	turn  turn  // if there are any
	place int32 // in the heap of shares, if there are any
}

// find is the place in s.queues of a rank, or where it would be.
func (s *share) find(rank uint32) (int, bool) {
	i := sort.Search(len(s.queues), func(i int) bool { return s.queues[i].rank >= rank })
	return i, i < len(s.queues) && s.queues[i].rank == rank
}

// push puts a block at the back of the queue of its entry's rank.
func (s *share) push(id uint32) {
	e := &s.t.entries[id]
	i, there := s.find(e.rank)
	if !there {
		s.queues = append(s.queues, queue{})
		copy(s.queues[i+1:], s.queues[i:])
		s.queues[i] = queue{rank: e.rank, head: none, tail: none}
	}
	q := &s.queues[i]
	e.prev, e.next = q.tail, none
	if q.tail == none {
		q.head = id
	} else {
		s.t.entries[q.tail].next = id
	}
	q.tail = id
	q.size++
}

// pull takes a block out of its queue, from wherever it stands.
func (s *share) pull(id uint32) {
	e := &s.t.entries[id]
	i, _ := s.find(e.rank)
	q := &s.queues[i]
	if e.prev == none {
		q.head = e.next
	} else {
		s.t.entries[e.prev].next = e.next
	}
	if e.next == none {
		q.tail = e.prev
	} else {
		s.t.entries[e.next].prev = e.prev
	}
	e.prev, e.next = none, none
	if q.size--; q.size == 0 {
		s.queues = append(s.queues[:i], s.queues[i+1:]...)
	}
}

// front is the block that has waited longest in a queue among those that end a
// path: the first one, since a path is released from its end.
func (s *share) front(q queue) uint32 {
	for id := q.head; id != none; id = s.t.entries[id].next {
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
	s := tn.share
	t.clock++
	e.stamp, e.state = t.clock, queued
	t.limit(id)
	s.ranker.released(s, id)
	s.queued++
	tn.queued++
	t.queued++
	t.shares.changed(s)
}

// unqueue takes a block out of its share's queues: it has an owner again, or goes.
func (t *Tree) unqueue(id uint32) {
	e := &t.entries[id]
	tn := e.node.root.tenant
	s := tn.share
	s.ranker.taken(s, id)
	t.expiry.remove(id)
	e.state = held
	s.queued--
	tn.queued--
	t.queued--
	t.shares.changed(s)
}
