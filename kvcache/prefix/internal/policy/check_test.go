package policy

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/intrusive"
	"github.com/stretchr/testify/require"
)

// apart is the paths of blocks that are all alone on theirs.
type apart struct{}

func (apart) Place(id uint32) Place { return Place{Hash: uint64(id) + 1, Parent: None} }
func (apart) IsEnd(uint32) bool     { return true }

func newQueue(with func(*Blocks, int) Queue, blocks int) Queue {
	b := NewBlocks(apart{}, with)
	b.Grow(blocks)
	q := b.NewQueue(blocks)
	for id := range uint32(blocks) {
		q.Store(id, apart{}.Place(id))
		q.Insert(id, 0)
	}
	return q
}

// A queue that is broken says so.
func TestCheckFinds(t *testing.T) {
	all := func(uint32) bool { return true }
	for name, harm := range map[string]func(*lru){
		"size":        func(q *lru) { q.levels[0].Push(q.inLevel, 2) },
		"order":       func(q *lru) { q.inLevel[0], q.inLevel[1] = q.inLevel[1], q.inLevel[0] },
		"empty level": func(q *lru) { q.levels = append(q.levels, level{9, intrusive.Empty}) },
		"rank":        func(q *lru) { q.entries[1].rank++ },
		"owner":       func(q *lru) { q.entries[1].cached = false },
	} {
		q := newQueue(LRU, 3)
		q.Remove(2)
		require.NoError(t, q.Check(2, all))
		require.Error(t, q.Check(3, all))
		require.Error(t, q.Check(2, func(id uint32) bool { return id != 1 }))
		harm(q.(*lru))
		require.Error(t, q.Check(2, all), name)
	}
	for name, harm := range map[string]func(*adaptive){
		"cell":   func(p *adaptive) { p.entries[1].cell++ },
		"cells":  func(p *adaptive) { p.residents[p.entries[0].cell].Pull(p.inCell, 0) },
		"ghosts": func(p *adaptive) { p.ghosts.live++ },
	} {
		q := newQueue(Adaptive, 3)
		require.NoError(t, q.Check(3, all))
		harm(q.(*adaptive))
		require.Error(t, q.Check(3, all), name)
	}
}

// What moves to another queue is evicted there in the order of its release, or as released now.
func TestMove(t *testing.T) {
	b := NewBlocks(apart{}, LRU)
	b.Grow(4)
	for _, renew := range []bool{false, true} {
		from, to := b.NewQueue(4), b.NewQueue(4)
		for id := range uint32(4) {
			from.Store(id, apart{}.Place(id))
		}
		from.Insert(2, 0)
		to.Insert(3, 0)
		from.Insert(0, 0)
		from.Insert(1, 0)
		before := to.Turn()
		b.Move(from, to, []uint32{0, 2}, renew)
		require.NoError(t, from.Check(1, func(id uint32) bool { return id == 1 }))
		require.NoError(t, to.Check(3, func(id uint32) bool { return id != 1 }))
		require.Equal(t, before, to.Turn())
		for _, want := range []uint32{3, 2, 0} {
			id := to.Victim()
			require.Equal(t, want, id)
			require.Equal(t, want == 2 && !renew, to.Turn().Before(before))
			to.Remove(id)
		}
		require.Equal(t, None, to.Victim())
	}
}
