package prefix

import (
	"fmt"
	"strings"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/policy"
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

var policies = [...]func(b *policy.Blocks, room int) policy.Queue{
	Adaptive: policy.Adaptive, LRU: policy.LRU, LFU: policy.LFU, Segmented: policy.Segmented, Priority: policy.Priority,
}

// paths is a tree to its policies.
type paths Tree

func (p *paths) Place(id uint32) policy.Place {
	e := &p.entries[id]
	parent, _, _ := (*Tree)(p).parent(e.node, e.index())
	return policy.Place{Hash: e.hash, Depth: e.depth, Parent: parent}
}

func (p *paths) IsEnd(id uint32) bool {
	e := &p.entries[id]
	return e.node.leafTail(e.index())
}
