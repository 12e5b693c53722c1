package memory

import (
	"bytes"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// extended is a table of n more blocks.
func extended[E any](t testing.TB, m *Memory[E], table []block.Block, n, shared int) []block.Block {
	t.Helper()
	table, err := m.Extend(table, n, shared)
	require.NoError(t, err)
	return table
}

// What is refused leaves everything as it was.
func TestErrors(t *testing.T) {
	_, err := New[float32](Format{Codes: 1}, 0, 4)
	require.ErrorIs(t, err, block.ErrRange{})

	m, err := New[float32](Format{Codes: 2}, 3, 4)
	require.NoError(t, err)
	table := extended(t, m, nil, 2, 0)
	got, err := m.Extend(table, 2, 0)
	require.Equal(t, block.ErrOutOfBlocks{Need: 2, Free: 1}, err)
	require.Equal(t, table, got)
	require.NoError(t, m.Retain(table))
	got, err = m.Extend(table, 1, 3)
	require.Equal(t, block.ErrOutOfBlocks{Need: 2, Free: 1}, err, "the copy is counted")
	require.Equal(t, table, got)
	require.NoError(t, m.Release(table))
	require.NoError(t, m.Release(table))

	require.ErrorIs(t, m.Release(table), block.ErrDoubleFree)
	require.ErrorIs(t, m.Retain(table), block.ErrNotHeld)
	_, err = m.Extend(table, 1, 3)
	require.ErrorIs(t, err, block.ErrNotHeld)
	again := extended(t, m, nil, 3, 0)
	_, err = m.Extend(table, 0, 3)
	require.ErrorIs(t, err, block.ErrStale)
	require.ErrorIs(t, m.Release(table), block.ErrStale)
	require.ErrorIs(t, m.Grow(math.MaxInt), block.ErrRange{})
	require.Equal(t, []int{3, 3, 3}, []int{m.Blocks(), m.Held(), m.Peak()})
	require.NoError(t, m.Release(again))
	require.NoError(t, m.Check())
}

// A block's memory on demand is there from its first owner to its last, zero at first, and its
// place is used again.
func TestOnDemand(t *testing.T) {
	m, err := NewOnDemand[byte](Format{Codes: 3, Words: 1}, 4)
	require.NoError(t, err)
	table := extended(t, m, nil, 2, 0)
	r := m.Rows(table[1], 0, 4)
	require.Equal(t, Rows[byte]{make([]byte, 12), make([]uint32, 4)}, r)
	r.Codes[5], r.Words[3] = 9, 8
	require.NoError(t, m.Retain(table[1:]))
	require.NoError(t, m.Release(table))
	require.NoError(t, m.Check())
	require.Equal(t, r, m.Rows(table[1], 0, 4), "it has an owner yet")
	require.NoError(t, m.Release(table[1:]))
	require.NoError(t, m.Check())
	for _, s := range *m.slabs.Load() {
		require.Equal(t, Rows[byte]{}, s)
	}
	table = extended(t, m, table[:0], 2, 0)
	require.Equal(t, make([]byte, 12), m.Codes(table[0], 0, 4))
	require.Equal(t, make([]byte, 12), m.Codes(table[1], 0, 4))
	require.Equal(t, 2, m.Blocks())

	lists := map[*Rows[byte]]bool{}
	for range 2000 {
		table = extended(t, m, table, 1, 0)
		lists[&(*m.slabs.Load())[0]] = true
	}
	require.Less(t, len(lists), 50, "a list of blocks grows seldom")
	require.NoError(t, m.Release(table))
}

// Check sees memory that is missing, left over or of another size.
func TestCheckSeesContradictions(t *testing.T) {
	for name, plant := range map[string]func(m *Memory[byte], held, free block.Block){
		"missing":    func(m *Memory[byte], held, _ block.Block) { (*m.slabs.Load())[held.ID] = Rows[byte]{} },
		"left over":  func(m *Memory[byte], _, free block.Block) { (*m.slabs.Load())[free.ID] = m.Room(m.tokens) },
		"too small":  func(m *Memory[byte], held, _ block.Block) { (*m.slabs.Load())[held.ID] = m.Room(m.tokens - 1) },
		"no words":   func(m *Memory[byte], held, _ block.Block) { (*m.slabs.Load())[held.ID].Words = nil },
		"short list": func(m *Memory[byte], _, _ block.Block) { s := (*m.slabs.Load())[:1]; m.slabs.Store(&s) },
	} {
		m, err := NewOnDemand[byte](Format{Codes: 2, Words: 1}, 2)
		require.NoError(t, err)
		table := extended(t, m, nil, 2, 0)
		require.NoError(t, m.Release(table[1:]))
		require.NoError(t, m.Check())
		plant(m, table[0], table[1])
		require.ErrorIs(t, m.Check(), block.ErrCorrupt, name)
	}
}

// Handing blocks out, copying a shared one and taking them back allocates nothing where memory
// is there and tables have room.
func TestAllocatesNothing(t *testing.T) {
	m, err := New[float64](Format{Codes: 8}, 16, 4)
	require.NoError(t, err)
	table, fork := make([]block.Block, 0, 9), make([]block.Block, 0, 9)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		table, _ = m.Extend(table, 4, 0)
		_ = m.Retain(table)
		fork, _ = m.Extend(append(fork[:0], table...), 1, 3)
		m.Codes(fork[4], 0, 1)[0]++
		if m.Release(fork) != nil || m.Release(table) != nil {
			panic("not released")
		}
		table = table[:0]
	}))
	require.Equal(t, 6, m.Peak(), "four, one more and a copy")
}

// Owners of the same blocks write at once, in goroutines of their own, while the memory grows.
func TestConcurrentOwners(t *testing.T) {
	for _, onDemand := range []bool{false, true} {
		m, err := New[byte](Format{Codes: 4, Words: 1}, 16, 8)
		if onDemand {
			m, err = NewOnDemand[byte](Format{Codes: 4, Words: 1}, 8)
		}
		require.NoError(t, err)
		base := extended(t, m, nil, 1, 0)
		m.Codes(base[0], 0, 1)[0] = 77
		var owners sync.WaitGroup
		for i := range 6 {
			require.NoError(t, m.Retain(base))
			if !onDemand {
				require.NoError(t, m.Grow(16*(i+1)))
			}
			owners.Go(func() {
				table := append([]block.Block(nil), base...)
				for n := range 20 {
					longer, err := m.Extend(table, n%2, 5)
					if err != nil {
						t.Error(err)
						return
					}
					table = longer
					own := m.Rows(table[0], 5, 6)
					own.Codes[3], own.Words[0] = byte(i), uint32(n)
					if r := m.Rows(table[0], 5, 6); m.Codes(table[0], 0, 1)[0] != 77 || r.Codes[3] != byte(i) || r.Words[0] != uint32(n) {
						t.Errorf("owner %d reads what another wrote", i)
					}
				}
				if err := m.Release(table); err != nil {
					t.Error(err)
				}
			})
		}
		owners.Wait()
		require.NoError(t, m.Release(base))
		require.Zero(t, m.Held())
		require.NoError(t, m.Check())
	}
}

// A run ends where the next block lies elsewhere: another number, or another slab.
func TestRun(t *testing.T) {
	m, err := New[byte](Format{Codes: 2}, 4, 3)
	require.NoError(t, err)
	require.NoError(t, m.Grow(8))
	table, err := m.Extend(nil, 8, 0)
	require.NoError(t, err)
	slices.SortFunc(table, func(a, b block.Block) int { return int(a.ID) - int(b.ID) })
	require.Zero(t, m.Run(nil))
	require.Equal(t, 4, m.Run(table), "a slab")
	require.Equal(t, 3, m.Run(table[1:4]))
	require.Equal(t, 1, m.Run([]block.Block{table[1], table[3]}))
	require.Equal(t, 2, m.Run([]block.Block{table[5], table[6], table[5]}))
	for i := range table[:4] {
		copy(m.Codes(table[i], 0, 3), bytes.Repeat([]byte{byte(i)}, 6))
	}
	require.Equal(t, append(bytes.Repeat([]byte{1}, 6), 2, 2), m.Codes(table[1], 0, 4))
}
