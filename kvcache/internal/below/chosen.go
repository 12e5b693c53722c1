package below

import (
	"context"
	"slices"
	"sync"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// chosen is a tier that outlives the process and that only a variable set. It stores the blocks of roots that were chosen, which the next
// process cannot mistake; those of an adapter without a version stay above it, and are not an error.
type chosen struct {
	tier.Tier
	mu          sync.Mutex
	now, before map[tier.Key]bool
}

// mostChosen is how many roots are remembered at least. A root that was displaced is not stored until it is chosen again.
const mostChosen = 1 << 14

// choose allows blocks of a root to be stored.
func (c *chosen) choose(root tier.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now[root] {
		return
	}
	if c.now == nil || len(c.now) >= mostChosen {
		c.before, c.now = c.now, map[tier.Key]bool{}
	}
	c.now[root] = true
}

func (c *chosen) has(root tier.Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now[root] || c.before[root]
}

// Put stores the blocks of roots that were chosen.
func (c *chosen) Put(ctx context.Context, blocks []tier.Block) error {
	other := func(b tier.Block) bool { return !c.has(b.Root) }
	if slices.ContainsFunc(blocks, other) {
		blocks = slices.DeleteFunc(slices.Clone(blocks), other)
	}
	return c.Tier.Put(ctx, blocks)
}

// Admit is nil if blocks of a scope, with its root, may go to the tiers, or stay above those that outlive the process.
func (b *Below[B]) Admit(s prefix.Scope, root func(prefix.Scope) prefix.Root) error {
	if !b.outlive {
		return nil
	}
	err := s.Persistable()
	if b.chosen == nil {
		return err
	}
	if err == nil {
		b.chosen.choose(root(s).Key)
	}
	return nil
}
