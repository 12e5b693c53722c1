package prefix

import (
	"fmt"
	"strings"
)

// Policy decides which cached block is evicted first. Under every policy only the
// end of a path is evicted, and of equals the one that was released first.
type Policy uint8

const (
	// Adaptive is the default: see adaptive.go.
	Adaptive Policy = iota + 1
	// LRU evicts what was released first.
	LRU
	// LFU evicts what was taken least often.
	LFU
	// Segmented is LRU in two segments: a block that was taken again is protected,
	// and a fifth of the blocks can be. One-off prompts do not displace it. After
	// segmented LRU (Karedla, Love and Wherry, 1994).
	Segmented
	// Priority evicts what has the lowest Keep.Priority.
	Priority

	// Off is for configurations that can do without a tree. New refuses it.
	Off

	lastPolicy = Priority
)

var policyNames = [...]string{"unset", "adaptive", "lru", "lfu", "slru", "priority", "off"}

func (p Policy) String() string { return policyNames[min(p, Off)] }

// ParsePolicy is the policy of a name: adaptive, lru, lfu, slru, priority or off.
func ParsePolicy(name string) (Policy, error) {
	for p := Adaptive; p <= Off; p++ {
		if strings.EqualFold(name, p.String()) {
			return p, nil
		}
	}
	return 0, ErrArgument{Op: "policy", Why: fmt.Sprintf("%q: accepts %s", name, PolicyNames())}
}

// PolicyNames is the names that ParsePolicy accepts, for messages.
func PolicyNames() string { return strings.Join(policyNames[1:], ", ") }

// ranker is a policy at work in a share. A rank is a queue; the fronts of the
// lower ones go first. A block's ancestors never have a lower rank than it has.
type ranker interface {
	stored(e, parent *entry)              // a new block, which is held
	used(s *share, e *entry, waited bool) // taken again; waited: it had no owner
	released(s *share, id uint32)         // pushes it
	taken(s *share, id uint32)            // pulls it
	victim(s *share) uint32               // none: there is none
	evicted(s *share, id uint32)          // about to go
}

// newRanker makes the ranker of a share that has room for so many blocks.
func newRanker(t *Tree, room int) ranker {
	switch t.policy {
	case LFU:
		return byUse{}
	case Segmented:
		return segmented{protectable: room / 5}
	case Priority:
		return byPriority{}
	case Adaptive:
		return newAdaptive(t, room)
	}
	return recency{}
}

// recency is LRU, and what the other policies do where they do nothing else.
type recency struct{}

func (recency) stored(*entry, *entry)        {}
func (recency) used(*share, *entry, bool)    {}
func (recency) released(s *share, id uint32) { s.push(id) }
func (recency) taken(s *share, id uint32)    { s.pull(id) }
func (recency) evicted(*share, uint32)       {}

func (recency) victim(s *share) uint32 {
	for _, q := range s.queues {
		if id := s.front(q); id != none {
			return id
		}
	}
	return none
}

// byUse is LFU.
type byUse struct{ recency }

func (byUse) released(s *share, id uint32) {
	e := &s.t.entries[id]
	e.rank = e.hits
	s.push(id)
}

// byPriority is Priority.
type byPriority struct{ recency }

func (byPriority) released(s *share, id uint32) {
	e := &s.t.entries[id]
	e.rank = uint32(e.priority)
	s.push(id)
}

// segmented is segmented LRU. What leaves the protected segment gets a second
// life at the back of the other.
type segmented struct {
	recency
	protectable int // blocks
}

const (
	probation = iota
	protected
)

func (segmented) used(_ *share, e *entry, _ bool) { e.rank = protected }

func (p segmented) released(s *share, id uint32) {
	s.push(id)
	last := &s.queues[len(s.queues)-1]
	if last.rank == protected && last.size > p.protectable {
		oldest := last.head
		s.pull(oldest)
		s.t.entries[oldest].rank = probation
		s.push(oldest)
	}
}
