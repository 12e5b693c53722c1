package replay

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// policies are those of the tree, the ones that need no hints of the caller first.
var policies = [...]prefix.Policy{prefix.Adaptive, prefix.LRU, prefix.Segmented, prefix.LFU, prefix.Priority}

// Policies names the policies that a trace can be replayed under, besides Optimum.
func Policies() []string {
	var names []string
	for _, p := range policies {
		names = append(names, p.String())
	}
	return names
}

// Compared names the policies that are worth comparing: not prefix.Priority, since
// no trace has priorities, and without them it is LRU.
func Compared() []string { return Policies()[:len(policies)-1] }

// tree replays through the library's prefix tree and block allocator. A block of
// the trace is one of the tree with a single token, its number.
type tree struct {
	alloc  *block.BlockAllocator
	prefix *prefix.Tree
	root   prefix.Root
	path   []block.Block // of the request
	old    []block.Block // that another's took the place of: nobody else stores
}

func newTree(policy string, capacity int) (*tree, error) {
	p, err := prefix.ParsePolicy(policy)
	if err != nil {
		return nil, ErrSetting{"policy", policy, err.Error()}
	}
	alloc, err := block.New(capacity)
	if err != nil {
		return nil, err
	}
	t, err := prefix.New(alloc, prefix.Config{BlockSize: 1, Policy: p})
	if err != nil {
		return nil, err
	}
	return &tree{alloc: alloc, prefix: t}, nil
}

func (t *tree) request(path []uint32) (hits int, err error) {
	q := prefix.Query{Tokens: path}
	m := t.prefix.Match(t.root, q)
	if t.path, m, err = t.prefix.Take(t.path[:0], t.root, q, prefix.RetentionHint{}, m); err != nil {
		return 0, err
	}
	room := min(len(path)-m.Blocks, t.alloc.Free()+t.prefix.Evictable(t.root))
	if lack := room - t.alloc.Free(); lack > 0 && !t.prefix.Evict(lack, t.root) {
		return 0, fmt.Errorf("replay: %w: %d blocks that can be evicted were not", prefix.ErrCorrupt, lack)
	}
	if t.path, err = t.alloc.AllocateN(t.path, room); err != nil {
		return 0, err
	}
	where := prefix.Path{Root: t.root}
	if m.Blocks > 0 {
		where.Parent = t.path[m.Blocks-1]
	}
	if _, t.old, err = t.prefix.Insert(t.old[:0], where, path[m.Blocks:len(t.path)], t.path[m.Blocks:]); err != nil {
		return 0, err
	}
	return m.Blocks, t.prefix.Release(t.path)
}
