package account

import (
	"encoding/binary"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/policy"
	"github.com/stretchr/testify/require"
)

// apart is the paths of blocks that are all alone on theirs.
type apart struct{}

func (apart) Place(uint32) policy.Place { return policy.Place{Parent: policy.None} }
func (apart) IsEnd(uint32) bool         { return true }

// rig is a book, and what a tree has that it is kept of.
type rig struct {
	*Book
	t      testing.TB
	next   uint32
	owner  map[uint32]*Tenant
	cached map[uint32]bool
}

func newRig(t testing.TB, blocks int) *rig {
	b := policy.NewBlocks(apart{}, policy.LRU)
	b.Grow(blocks)
	book := NewBook(func() int { return blocks }, b)
	return &rig{Book: book, t: t, owner: map[uint32]*Tenant{}, cached: map[uint32]bool{}}
}

func salt(i int) (s [32]byte) {
	binary.LittleEndian.PutUint64(s[:], uint64(i))
	return s
}

// fill gives a tenant n cached blocks.
func (r *rig) fill(tn *Tenant, n int) {
	for range n {
		tn.Group().Queue().Store(r.next, apart{}.Place(r.next))
		r.Enter(tn)
		r.Cache(tn, r.next, 0)
		r.owner[r.next], r.cached[r.next] = tn, true
		r.next++
	}
}

// evict evicts a block of a group.
func (r *rig) evict(g *Group) *Tenant {
	id := g.Queue().Victim()
	require.NotEqual(r.t, policy.None, id)
	tn := r.owner[id]
	r.Take(tn, id)
	r.Leave(tn)
	delete(r.owner, id)
	delete(r.cached, id)
	return tn
}

func (r *rig) check() error {
	have := map[*Tenant]Content{}
	for id, tn := range r.owner {
		c := have[tn]
		c[Blocks]++
		if r.cached[id] {
			c[Cached]++
		}
		have[tn] = c
	}
	return r.Check(have, func(id uint32) bool { return r.cached[id] })
}

// A book that is not that of its tree says so.
func TestCheckFinds(t *testing.T) {
	for name, harm := range map[string]func(*rig, *Tenant){
		"blocks":            func(r *rig, _ *Tenant) { r.counts[Blocks]++ },
		"cached":            func(r *rig, _ *Tenant) { r.counts[Cached]++ },
		"offloaded":         func(r *rig, _ *Tenant) { r.counts[Offloaded]++ },
		"count of a tenant": func(_ *rig, tn *Tenant) { tn.counts[Blocks]++ },
		"count of a group":  func(r *rig, _ *Tenant) { r.common.cached++ },
		"count of spare":    func(r *rig, _ *Tenant) { r.spare++ },
		"heap":              func(r *rig, _ *Tenant) { r.able.Remove(r.common) },
		"queue":             func(r *rig, _ *Tenant) { r.common.queue.Remove(0) },
	} {
		r := newRig(t, 8)
		tn := r.Open([32]byte{})
		r.fill(tn, 3)
		require.NoError(t, r.check())
		harm(r, tn)
		require.Error(t, r.check(), name)
	}
}

// A group's place is in the heap that says who may evict from it, and floors hold.
func TestHeapsOfGroups(t *testing.T) {
	const tenants = 300
	r := newRig(t, 4*tenants)
	for i := 1; i <= tenants; i++ {
		_, err := r.SetLimits(salt(i), 4, i%3, func(*Tenant) []uint32 { return nil })
		require.NoError(t, err)
		r.fill(r.Open(salt(i)), 3)
	}
	require.NoError(t, r.check())
	require.Equal(t, 2*tenants, r.Evictable([32]byte{}))
	require.Equal(t, []int{tenants, 0}, []int{r.able.Len(), r.floored.Len()})
	for range 2 * tenants {
		r.evict(r.Victim(r.common))
	}
	require.NoError(t, r.check())
	for i := 1; i <= tenants; i++ {
		require.Equal(t, i%3, r.CountsOf(salt(i))[Blocks])
	}
	require.Equal(t, []int{0, 2 * tenants / 3}, []int{r.able.Len(), r.floored.Len()})
	for r.common.cached+r.floored.Len() > 0 {
		r.evict(r.AnyVictim())
	}
	require.Nil(t, r.AnyVictim())
	require.NoError(t, r.check())
}

// A tenant's blocks go with it to a group of its own and back.
func TestSetLimitsMovesBlocks(t *testing.T) {
	r := newRig(t, 8)
	a, b := r.Open(salt(1)), r.Open(salt(2))
	r.fill(a, 2)
	r.fill(b, 1)
	r.fill(a, 1)
	g, err := r.SetLimits(salt(1), 2, 0, func(*Tenant) []uint32 { return []uint32{3, 0, 1} })
	require.NoError(t, err)
	require.NoError(t, r.check())
	require.True(t, g.Room() == -1 && g == a.Group() && b.Group() == r.common)
	require.Equal(t, a, r.evict(g))
	require.Zero(t, g.Room())
	g, err = r.SetLimits(salt(1), 0, 0, func(*Tenant) []uint32 { return []uint32{3, 1} })
	require.NoError(t, err)
	require.NoError(t, r.check())
	require.Equal(t, r.common, g)
	require.Equal(t, []*Tenant{b, a, a}, []*Tenant{r.evict(g), r.evict(g), r.evict(g)})
	r.Close(a)
	r.Close(b)
	require.Zero(t, r.Tenants())
}
