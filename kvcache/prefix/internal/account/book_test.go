package account

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/policy"
	"github.com/stretchr/testify/require"
)

// apart is the paths of blocks that are all alone on theirs.
type apart struct{}

func (apart) Place(uint32) policy.Place { return policy.Place{Parent: policy.None} }
func (apart) IsEnd(uint32) bool         { return true }

// rig is a book, and the cached blocks of a tree, with their groups.
type rig struct {
	*Book
	t      testing.TB
	next   uint32
	cached map[uint32]*Group
}

func newRig(t testing.TB, blocks int) *rig {
	b := policy.NewBlocks(apart{}, policy.LRU)
	b.Grow(blocks)
	return &rig{Book: NewBook(func() int { return blocks }, b), t: t, cached: map[uint32]*Group{}}
}

// fill gives a group n cached blocks.
func (r *rig) fill(g *Group, n int) {
	for range n {
		g.Queue().Store(r.next, apart{}.Place(r.next))
		r.Enter(g)
		r.Cache(g, r.next, 0)
		r.cached[r.next] = g
		r.next++
	}
}

// evict evicts a block of a group.
func (r *rig) evict(g *Group) uint32 {
	id := g.Queue().Victim()
	require.Equal(r.t, g, r.cached[id])
	r.Take(g, id)
	r.Leave(g)
	delete(r.cached, id)
	return id
}

func (r *rig) check() error {
	have := map[*Group][2]int{r.common: {}}
	for _, g := range r.cached {
		have[g] = [2]int{have[g][0] + 1, have[g][1] + 1}
	}
	return r.Check(have, func(id uint32) bool { return r.cached[id] != nil })
}

// A book that is not that of its tree says so.
func TestCheckFinds(t *testing.T) {
	for name, harm := range map[string]func(*rig){
		"blocks": func(r *rig) { r.common.blocks++ },
		"cached": func(r *rig) { r.common.cached++ },
		"spare":  func(r *rig) { r.spare++ },
		"floors": func(r *rig) { r.floors++ },
		"heap":   func(r *rig) { r.able.Remove(r.common) },
		"queue":  func(r *rig) { r.common.queue.Remove(0) },
	} {
		r := newRig(t, 8)
		r.fill(r.Common(), 3)
		require.NoError(t, r.check())
		harm(r)
		require.Error(t, r.check(), name)
	}
}

// A group's place is in the heap that says who may evict from it, and floors hold.
func TestHeapsOfGroups(t *testing.T) {
	const groups = 300
	r := newRig(t, 3*groups)
	for i := 1; i <= groups; i++ {
		r.fill(r.Limit(r.Common(), 4, i%3, 0, nil), 3)
	}
	require.NoError(t, r.check())
	require.Equal(t, 2*groups, r.Evictable(r.Common()))
	require.Equal(t, []int{groups, 0}, []int{len(r.able.All()), len(r.floored.All())})
	for range 2 * groups {
		r.evict(r.Victim(r.Common()))
	}
	require.NoError(t, r.check())
	for _, g := range r.cached {
		require.Equal(t, g.floor, g.blocks)
	}
	require.Equal(t, []int{0, 2 * groups / 3}, []int{len(r.able.All()), len(r.floored.All())})
	for len(r.cached) > 0 {
		r.evict(r.AnyVictim())
	}
	require.Nil(t, r.AnyVictim())
	require.Zero(t, r.spare)
}

// A salt's blocks go with it to a group of its own and back.
func TestLimitMovesBlocks(t *testing.T) {
	r := newRig(t, 8)
	r.fill(r.Common(), 4)
	g := r.Limit(r.Common(), 2, 1, 3, []uint32{3, 0, 1})
	r.cached[0], r.cached[1], r.cached[3] = g, g, g
	require.NoError(t, r.check())
	require.Equal(t, []int{-1, 1, 0}, []int{g.Room(), r.Floors(r.Common()), r.Floors(g)})
	require.Equal(t, uint32(0), r.evict(g))
	require.Zero(t, g.Room())
	require.Equal(t, r.Common(), r.Limit(g, 0, 0, 2, []uint32{3, 1}))
	r.cached[1], r.cached[3] = r.Common(), r.Common()
	require.NoError(t, r.check())
	require.False(t, r.Limited())
	require.Equal(t, []uint32{2, 1, 3}, []uint32{r.evict(r.common), r.evict(r.common), r.evict(r.common)})
}
