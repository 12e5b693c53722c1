package prefix

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/account"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/intrusive"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/policy"
)

// Config configures a tree. BlockSize is required.
type Config struct {
	BlockSize int              // tokens of a block, 1 or more
	Policy    Policy           // what is evicted first; unset: Adaptive
	MinPrefix int              // tokens; a shorter match is a miss
	Now       func() time.Time // the clock of leases and lifetimes, safe for concurrent use; nil: time.Now

	// MaxOffloaded is the most offloaded entries that the tree keeps; 0: none. At the limit the end
	// of the least recently used path is dropped.
	MaxOffloaded int
	// Demote is called for every full block that is evicted, by Evict, EvictAny or a quota, before
	// it becomes free. true says that its content is stored elsewhere under its key, so that its
	// entry stays, offloaded. Demote is called with the locks of the allocator and of the tree
	// held: it must not call the tree. It may read the block until the call that evicts returns.
	// Required when MaxOffloaded is not 0, and not called otherwise.
	Demote func(b block.Block, key Key) bool

	// Left, where set, is called for every block that leaves the tree, evicted or forgotten, once it
	// has: what else was kept with the block is of no use any more. Like Demote it must not call the
	// tree.
	Left func(b block.Block)
}

// Tree maps prefixes to blocks of an allocator. Methods that change something must be called under
// the lock that guards the allocator; the others are safe at any time. A Tree must not be copied.
type Tree struct {
	alloc     *block.BlockAllocator
	blockSize int
	minPrefix int
	now       func() time.Time
	left      func(block.Block) // nil: not called

	mu          sync.RWMutex
	entries     []entry // by block number
	roots       map[Key]*root
	tenants     map[Key]*tenant // by salt
	policies    *policy.Blocks
	book        *account.Book
	firstBlocks firstBlocks
	ghosts      ghosts
	expiry      expiry
	leases      intrusive.Heap[*Lease]
	hub         hub

	version   uint64       // of the structure: a Match of another one is out of date
	clock     uint64       // counts checks of blocks, and leases
	stats     Stats        // but Held and Roots
	offloaded offloadTable // entries without a block of the allocator
}

// New returns an empty tree over the blocks of alloc. From now on the tree decides which cached
// block is evicted: call Evict before allocating more than is free. ErrArgument for an invalid
// configuration.
func New(alloc *block.BlockAllocator, cfg Config) (*Tree, error) {
	switch {
	case alloc == nil:
		return nil, ErrArgument{Op: "new", Why: "the allocator is nil"}
	case cfg.BlockSize < 1 || cfg.BlockSize > 1<<24:
		return nil, ErrArgument{Op: "new", Why: fmt.Sprintf("blocks of %d tokens: need 1 to %d", cfg.BlockSize, 1<<24)}
	case cfg.MinPrefix < 0:
		return nil, ErrArgument{Op: "new", Why: fmt.Sprintf("a shortest prefix of %d tokens: need 0 or more", cfg.MinPrefix)}
	case cfg.Policy > lastPolicy:
		return nil, ErrArgument{Op: "new", Why: fmt.Sprintf("policy %d is none", cfg.Policy)}
	case cfg.MaxOffloaded < 0 || cfg.MaxOffloaded > maxOffloaded:
		return nil, ErrArgument{Op: "new", Why: fmt.Sprintf("%d offloaded entries: need 0 to %d", cfg.MaxOffloaded, maxOffloaded)}
	case cfg.MaxOffloaded > 0 && cfg.Demote == nil:
		return nil, ErrArgument{Op: "new", Why: "MaxOffloaded is set, and Demote is nil"}
	}
	t := &Tree{
		alloc: alloc, blockSize: cfg.BlockSize, minPrefix: cfg.MinPrefix, now: cfg.Now, left: cfg.Left,
		roots: map[Key]*root{}, tenants: map[Key]*tenant{},
	}
	if cfg.Policy == 0 {
		cfg.Policy = Adaptive
	}
	if t.now == nil {
		t.now = time.Now
	}
	t.offloaded, t.expiry, t.leases = newOffloadTable(cfg), t.newExpiry(), newLeases()
	t.policies = policy.NewBlocks((*paths)(t), policies[cfg.Policy])
	t.book = account.NewBook(alloc.Total, t.policies)
	if err := t.fit("new"); err != nil {
		return nil, err
	}
	return t, nil
}

// made is ErrArgument of a tree that New did not make: it has nothing, and nothing can be
// put into it.
func (t *Tree) made(op string) error {
	if t.alloc == nil {
		return ErrArgument{Op: op, Why: "the tree was not made by New"}
	}
	return nil
}

// BlockSize is the number of tokens of a block.
func (t *Tree) BlockSize() int { return t.blockSize }

// root finds the part of a scope, nil if it has no blocks.
func (t *Tree) root(r Root) *root { return t.roots[r.Key] }

// makeRoot is root, making it.
func (t *Tree) makeRoot(r Root) *root {
	if have := t.roots[r.Key]; have != nil {
		return have
	}
	made := &root{Root: r, tenant: t.makeTenant(r.tenant)}
	made.node.root = made
	made.tenant.roots++
	t.roots[r.Key] = made
	return made
}

// sortedRoots are all roots in an order that is the same in every process.
func (t *Tree) sortedRoots() []*root {
	return slices.SortedFunc(maps.Values(t.roots), func(a, b *root) int { return a.Key.compare(b.Key) })
}

// prune forgets a root if it has no blocks.
func (t *Tree) prune(r *root) {
	if r.node.kids != nil || r.node.farKids != nil || r.busy || t.roots[r.Key] != r {
		return
	}
	delete(t.roots, r.Key)
	r.tenant.roots--
	t.dropTenant(r.Root.tenant)
}
