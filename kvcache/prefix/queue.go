package prefix

import (
	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/intrusive"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/policy"
)

// evictionGroup is a set of cached blocks that compete with each other: those of all
// tenants together that have no limits, or those of one that has.
type evictionGroup struct {
	t      *Tree
	queue  policy.Queue
	limits Limits
	blocks int // in the tree
	queued int // of them, without an owner

	spare int                             // blocks that can be evicted for anybody
	turn  policy.Turn                     // if there are cached ones
	home  *intrusive.Heap[*evictionGroup] // it is in, and where
	place int32
}

// enqueue makes a block whose last owner has gone wait in its share.
func (t *Tree) enqueue(id uint32) {
	e := &t.entries[id]
	tn := e.node.root.tenant
	s := tn.group
	e.state = queued
	t.limit(id)
	s.queue.Insert(id, e.priority)
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
	s.queue.Remove(id)
	t.expiry.Remove(id)
	e.state = held
	s.queued--
	tn.queued--
	t.queued--
	t.groups.changed(s)
}
