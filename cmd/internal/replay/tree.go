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
	old    []block.Block // that another's took the place of: none, since no other request stores
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
	if hits, err = t.take(path); err != nil {
		return 0, err
	}
	if err = t.extend(path, len(path)); err != nil {
		return 0, err
	}
	return hits, t.prefix.Release(t.path)
}

// take begins a request with the blocks that are there.
func (t *tree) take(path []uint32) (hits int, err error) {
	q := prefix.Query{Tokens: path}
	m := t.prefix.Match(t.root, q)
	t.path, m, err = t.prefix.Take(t.path[:0], t.root, q, prefix.RetentionHint{}, m)
	return m.Blocks, err
}

// extend has the request go on with blocks that are not there, up to block to of its path, as far as there is room.
func (t *tree) extend(path []uint32, to int) (err error) {
	had := len(t.path)
	room := t.room(to - had)
	if lack := room - t.alloc.Free(); lack > 0 && !t.prefix.Evict(lack, t.root) {
		return fmt.Errorf("replay: %w: %d blocks that can be evicted were not", prefix.ErrCorrupt, lack)
	}
	if t.path, err = t.alloc.AllocateN(t.path, room); err != nil {
		return err
	}
	where := prefix.Path{Root: t.root}
	if had > 0 {
		where.Parent = t.path[had-1]
	}
	_, t.old, err = t.prefix.Insert(t.old[:0], where, path[had:len(t.path)], t.path[had:])
	return err
}

// room is how many blocks, of those that are wanted, the request can have more.
func (t *tree) room(want int) int { return min(want, t.alloc.Free()+t.prefix.Evictable(t.root)) }
