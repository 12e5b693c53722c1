package prefix

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// EventKind says what happened to blocks, as in vLLM's KV cache events.
type EventKind uint8

const (
	Stored EventKind = iota + 1
	Removed
	Cleared // all blocks were removed
)

func (k EventKind) String() string {
	return [...]string{"none", "stored", "removed", "cleared"}[min(k, Cleared)]
}

// Event describes a change of the resident blocks of a tree to another process: a demoted block is
// removed, a promoted one stored, and offloaded entries have no events. The slices of an event are
// shared by all subscriptions and must not be changed.
type Event struct {
	// Seq counts the events of a tree from 1 on. When one is missing, the receiver's view of the
	// tree is incomplete.
	Seq  uint64
	Kind EventKind
	// Lost is the number of events that were dropped just before this one because the channel was
	// full.
	Lost uint64

	// Group is 0 for the blocks of a tree, and for entries whose blocks are of several groups of layers: those of layers
	// that keep everything come and go with them. Another number is a group whose blocks come and go alone, with
	// entries that are stored (package group). What is removed without a group is removed for all of them.
	Group int

	Keys []Key // of the blocks, in the order of their path
	// The rest is set for stored blocks only.
	Parent   Key        // key of the block before the first one; zero: the first one follows Root
	Root     Key        // of the scope
	Tokens   []uint32   // BlockSize for each block; the last may have fewer
	Extra    []Key      // one for each block; nil: none has an extra key
	Fidelity []Fidelity // one for each block; nil: all are exact
}

// Subscription is a stream of events. It never blocks the cache: events that do not fit the channel
// are dropped, and the next one that fits says how many were.
type Subscription struct {
	C    <-chan Event // closed by Unsubscribe
	c    chan Event
	lost uint64
}

// hub passes events on to the subscriptions.
type hub struct {
	seq  uint64
	subs []*Subscription
	mute bool
}

func (h *hub) active() bool { return len(h.subs) > 0 }

func (h *hub) send(e Event) {
	if h.mute || !h.active() {
		return
	}
	h.seq++
	for _, s := range h.subs {
		e.Seq, e.Lost = h.seq, s.lost
		select {
		case s.c <- e:
			s.lost = 0
		default:
			s.lost++
		}
	}
}

// MaxEventBuffer is the most events that Subscribe buffers.
const MaxEventBuffer = 1_000_000

// Subscribe returns a stream of the events from now on, buffered for that many events (1 to
// MaxEventBuffer), and the current content of the tree as events with the last sequence number. The
// tree computes keys of its blocks only while there are subscriptions.
func (t *Tree) Subscribe(buffer int) (*Subscription, []Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := make(chan Event, min(max(buffer, 1), MaxEventBuffer))
	s := &Subscription{C: c, c: c}
	if t.alloc == nil { // the zero Tree: nothing will happen in it
		close(c)
		return s, nil
	}
	t.hub.subs = append(t.hub.subs, s)
	var have []Event
	for _, r := range t.sortedRoots() {
		each(&r.node, func(n *node) {
			if here := n.resident(); here > 0 {
				e := t.event(n, 0, here)
				e.Seq = t.hub.seq
				have = append(have, e)
			}
		})
	}
	return s, have
}

// Unsubscribe ends a subscription and closes its channel.
func (t *Tree) Unsubscribe(s *Subscription) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.hub.subs, s); i >= 0 {
		t.hub.subs = slices.Delete(t.hub.subs, i, i+1)
		close(s.c)
	}
}

// Close ends all subscriptions.
func (t *Tree) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.hub.subs {
		close(s.c)
	}
	t.hub.subs = nil
}

// event says that blocks from to to−1 of n are stored.
func (t *Tree) event(n *node, from, to int) Event {
	e := Event{
		Kind: Stored, Root: n.root.Key, Keys: slices.Clone(t.keysOf(n)[from:to]),
		Tokens: slices.Clone(n.tokens[from*t.blockSize : min(to*t.blockSize, len(n.tokens))]),
	}
	if n.depth+from > 0 {
		e.Parent = t.keyBefore(n, from)
	}
	for i := from; n.marks != nil && i < to; i++ {
		e.Extra = append(e.Extra, n.marks[i].extra)
		e.Fidelity = append(e.Fidelity, n.marks[i].fidelity)
	}
	return e
}

// keysOf is the keys of n's blocks. Those that nobody has asked for before are computed
// now, and of what leads to n.
func (t *Tree) keysOf(n *node) []Key {
	known := len(n.keys)
	if known == len(n.blocks) {
		return n.keys
	}
	parent := t.keyBefore(n, known)
	if n.marks == nil {
		n.keys = slices.Grow(n.keys, len(n.blocks)-known)
		n.keys = Root{Key: parent}.Keys(n.keys, t.blockSize, Query{Tokens: n.tokens[known*t.blockSize:]})
		return n.keys
	}
	for i := known; i < len(n.blocks); i++ {
		tokens, m := n.label(i, t.blockSize)
		parent = chain(parent, tokens, m)
		n.keys = append(n.keys, parent)
	}
	return n.keys
}

// keyBefore is the key that block i of n is chained to. That of the block before it in n, if
// there is one, has been computed.
func (t *Tree) keyBefore(n *node, i int) Key {
	if i > 0 {
		return n.keys[i-1]
	}
	if n.depth == 0 {
		return n.root.Key
	}
	keys := t.keysOf(n.parent)
	return keys[len(keys)-1]
}

// announce tells of the blocks first to end−1 of the path that ends in n.
func (t *Tree) announce(n *node, first, end int) {
	if !t.hub.active() {
		return
	}
	var path []*node
	for ; n.depth+len(n.blocks) > first; n = n.parent {
		path = append(path, n)
	}
	for _, n := range slices.Backward(path) {
		t.hub.send(t.event(n, max(first-n.depth, 0), min(end-n.depth, len(n.blocks))))
	}
}

// removed tells of block i of n, which is about to go.
func (t *Tree) removed(n *node, i int) {
	if t.hub.active() && !t.hub.mute {
		t.hub.send(Event{Kind: Removed, Root: n.root.Key, Keys: []Key{t.keysOf(n)[i]}})
	}
}

// Tell sends an event of a group's blocks with an entry of the tree. The caller must hold the lock that guards the
// allocator.
func (t *Tree) Tell(kind EventKind, b block.Block, group int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.at(b)
	if e == nil || !t.hub.active() {
		return
	}
	told := Event{Kind: kind, Root: e.node.root.Key, Keys: []Key{t.keysOf(e.node)[e.index()]}}
	if kind == Stored {
		told = t.event(e.node, e.index(), e.index()+1)
	}
	told.Group = group
	t.hub.send(told)
}

// Describe is the event that says that a group's blocks are with an entry of the tree.
func (t *Tree) Describe(b block.Block, group int) Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.at(b)
	if e == nil {
		return Event{}
	}
	told := t.event(e.node, e.index(), e.index()+1)
	told.Group, told.Seq = group, t.hub.seq
	return told
}

// each visits a node and everything below it, parents first.
func each(n *node, visit func(*node)) {
	visit(n)
	stack := []*node{n.kids, n.farKids}
	for len(stack) > 0 {
		c := stack[len(stack)-1]
		if stack = stack[:len(stack)-1]; c != nil {
			visit(c)
			stack = append(stack, c.left, c.right, c.kids, c.farKids)
		}
	}
}
