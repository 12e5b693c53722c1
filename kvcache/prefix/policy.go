package prefix

import (
	"fmt"
	"strings"
)

// Policy decides which cached block is evicted first. Every policy evicts only the ends of paths,
// and of equal blocks the one that was released first.
type Policy uint8

const (
	// Adaptive is the default. It learns from past hits how likely blocks are to be used again, by
	// their age and history, and evicts those that earn the fewest hits for their memory. After LHD
	// (Beckmann, Chen and Cidon, NSDI 2018).
	Adaptive Policy = iota + 1
	// LRU evicts the block that was released first.
	LRU
	// LFU evicts the block that was taken least often.
	LFU
	// Segmented is LRU in two segments: blocks that were taken again are protected, up to a fifth
	// of all blocks, so that prompts that are used once do not displace them. After segmented LRU
	// (Karedla, Love and Wherry, 1994).
	Segmented
	// Priority evicts the block with the lowest RetentionHint.Priority.
	Priority

	// Off means that there is no tree, in a configuration. New does not accept it.
	Off

	lastPolicy = Priority
)

var policyNames = [...]string{"unset", "adaptive", "lru", "lfu", "slru", "priority", "off"}

func (p Policy) String() string { return policyNames[min(p, Off)] }

// ParsePolicy returns the policy of a name: adaptive, lru, lfu, slru, priority or off.
func ParsePolicy(name string) (Policy, error) {
	for p := Adaptive; p <= Off; p++ {
		if strings.EqualFold(name, p.String()) {
			return p, nil
		}
	}
	return 0, ErrArgument{Op: "policy", Why: fmt.Sprintf("%q: accepts %s", name, PolicyNames())}
}

// MarshalText is String, of a valid policy: JSON has policies by their names.
func (p Policy) MarshalText() ([]byte, error) {
	if p < Adaptive || p > Off {
		return nil, ErrArgument{Op: "policy", Why: fmt.Sprintf("%d: accepts %d to %d", p, Adaptive, Off)}
	}
	return []byte(p.String()), nil
}

// UnmarshalText is ParsePolicy.
func (p *Policy) UnmarshalText(text []byte) error {
	v, err := ParsePolicy(string(text))
	if err == nil {
		*p = v
	}
	return err
}

// PolicyNames lists the names that ParsePolicy accepts, for error messages.
func PolicyNames() string { return strings.Join(policyNames[1:], ", ") }

// evictionPolicy is a policy at work in an eviction group. A rank is a queue; blocks at the fronts
// of lower ranks are evicted first. The blocks before a block on its path never have a lower rank.
type evictionPolicy interface {
	stored(e, parent *entry)                      // a new block, which is held
	used(s *evictionGroup, e *entry, waited bool) // taken again; waited: it had no owner
	released(s *evictionGroup, id uint32)         // pushes it
	taken(s *evictionGroup, id uint32)            // pulls it
	victim(s *evictionGroup) uint32               // none: there is none
	evicted(s *evictionGroup, id uint32)          // about to go
}

// newEvictionPolicy makes the policy of a group of that many blocks.
func newEvictionPolicy(t *Tree, room int) evictionPolicy {
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

func (recency) stored(*entry, *entry)                {}
func (recency) used(*evictionGroup, *entry, bool)    {}
func (recency) released(s *evictionGroup, id uint32) { s.push(id) }
func (recency) taken(s *evictionGroup, id uint32)    { s.pull(id) }
func (recency) evicted(*evictionGroup, uint32)       {}

func (recency) victim(s *evictionGroup) uint32 {
	for _, q := range s.queues {
		if id := s.front(q); id != none {
			return id
		}
	}
	return none
}

// byUse is LFU.
type byUse struct{ recency }

func (byUse) released(s *evictionGroup, id uint32) {
	e := &s.t.entries[id]
	e.rank = e.hits
	s.push(id)
}

// byPriority is Priority.
type byPriority struct{ recency }

func (byPriority) released(s *evictionGroup, id uint32) {
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

func (segmented) used(_ *evictionGroup, e *entry, _ bool) { e.rank = protected }

func (p segmented) released(s *evictionGroup, id uint32) {
	s.push(id)
	last := &s.queues[len(s.queues)-1]
	if last.rank == protected && last.size > p.protectable {
		oldest := last.head
		s.pull(oldest)
		s.t.entries[oldest].rank = probation
		s.push(oldest)
	}
}
