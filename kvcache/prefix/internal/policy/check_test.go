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

func newQueue(with func(*Blocks, int) Queue, blocks int) *Queue {
	b := NewBlocks(apart{})
	b.Grow(blocks)
	q := with(b, blocks)
	for id := range uint32(blocks) {
		q.Store(id, apart{}.Place(id))
		q.Insert(id, 0)
	}
	return &q
}

// A queue that is broken says so.
func TestCheckFinds(t *testing.T) {
	all := func(uint32) bool { return true }
	for name, harm := range map[string]func(*Queue){
		"size":        func(q *Queue) { q.levels[0].Push(q.blocks.links, 2) },
		"order":       func(q *Queue) { q.blocks.links(0).Prev, q.blocks.links(1).Next = 1, 0 },
		"empty level": func(q *Queue) { q.levels = append(q.levels, level{9, intrusive.Empty}) },
		"rank":        func(q *Queue) { q.blocks.entries[1].rank++ },
		"owner":       func(q *Queue) { q.blocks.entries[1].cached = false },
	} {
		q := newQueue(LRU, 3)
		q.Remove(2)
		require.NoError(t, q.Check(2, all))
		require.Error(t, q.Check(3, all))
		require.Error(t, q.Check(2, func(id uint32) bool { return id != 1 }))
		harm(q)
		require.Error(t, q.Check(2, all), name)
	}
	for name, harm := range map[string]func(*Queue, *adaptive){
		"cell":   func(q *Queue, _ *adaptive) { q.blocks.entries[1].cell++ },
		"cells":  func(q *Queue, a *adaptive) { a.residents[q.blocks.entries[0].cell].Pull(q.blocks.cells, 0) },
		"ghosts": func(_ *Queue, a *adaptive) { a.ghosts.live++ },
	} {
		q := newQueue(Adaptive, 3)
		require.NoError(t, q.Check(3, all))
		harm(q, q.order.(*adaptive))
		require.Error(t, q.Check(3, all), name)
	}
}

// What moves to another queue is evicted there in the order of its release, or as released now.
func TestMove(t *testing.T) {
	b := NewBlocks(apart{})
	b.Grow(4)
	for _, renew := range []bool{false, true} {
		from, to := LRU(b, 4), LRU(b, 4)
		for id := range uint32(4) {
			from.Store(id, apart{}.Place(id))
		}
		from.Insert(2, 0)
		to.Insert(3, 0)
		from.Insert(0, 0)
		from.Insert(1, 0)
		before := to.Turn()
		Move(&from, &to, []uint32{0, 2}, renew)
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
