package host

import (
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

func TestPagedCloneSharesUntilWritten(t *testing.T) {
	s := newStore(t, 8, 4, 1)
	a, err := s.NewCache(32)
	require.NoError(t, err)
	require.NoError(t, a.AppendTensor(ramp(0, 6, 1)))
	b, err := a.Clone()
	require.NoError(t, err)
	require.Equal(t, 2, s.BlocksInUse(), "nothing was copied")
	before, err := a.Token(4)
	require.NoError(t, err)

	require.NoError(t, b.Append([]float64{100}))
	require.Equal(t, 3, s.BlocksInUse(), "the half-filled block was")
	require.NoError(t, a.Append([]float64{200}))
	require.Equal(t, 3, s.BlocksInUse(), "and is now a's alone")
	after, err := a.Token(4)
	require.NoError(t, err)
	require.Same(t, &before[0], &after[0])

	require.Equal(t, []float64{0, 1, 2, 3, 4, 5, 200}, a.AsTensor().Data)
	require.Equal(t, []float64{0, 1, 2, 3, 4, 5, 100}, b.AsTensor().Data)
	a.Release()
	require.Equal(t, []float64{0, 1, 2, 3, 4, 5, 100}, b.AsTensor().Data)
	closePaged(t, b)
}

// A full last block is never copied, and a step over its border takes the copy and
// the new blocks at once or not at all.
func TestPagedCopyOnWriteAtBorders(t *testing.T) {
	for _, tc := range []struct{ have, add, blocks int }{
		{4, 1, 2}, {8, 1, 3}, {3, 1, 2}, {3, 2, 3}, {5, 3, 3}, {5, 4, 4},
	} {
		s := newStore(t, tc.blocks, 4, 1)
		a, err := s.NewCache(100)
		require.NoError(t, err)
		require.NoError(t, a.AppendTensor(ramp(0, tc.have, 1)))
		b, err := a.Clone()
		require.NoError(t, err)
		require.NoError(t, b.AppendTensor(ramp(float64(tc.have), tc.add, 1)))
		require.Equal(t, tc.blocks, s.BlocksInUse())
		require.Equal(t, ramp(0, tc.have, 1), a.AsTensor())
		require.Equal(t, ramp(0, tc.have+tc.add, 1), b.AsTensor())
		closePaged(t, a, b)
	}
	s := newStore(t, 3, 4, 1)
	a, err := s.NewCache(100)
	require.NoError(t, err)
	require.NoError(t, a.AppendTensor(ramp(0, 6, 1)))
	b, err := a.Clone()
	require.NoError(t, err)
	require.ErrorIs(t, b.AppendTensor(ramp(0, 3, 1)), block.ErrOutOfBlocks{Need: 2, Free: 1})
	require.Equal(t, 2, s.BlocksInUse())
	require.Equal(t, ramp(0, 6, 1), b.AsTensor())
	closePaged(t, a, b)
}

// What one clone cut off must survive in the other when the first writes again.
func TestPagedTruncateRespectsSharing(t *testing.T) {
	s := newStore(t, 8, 4, 1)
	a, err := s.NewCache(32)
	require.NoError(t, err)
	require.NoError(t, a.AppendTensor(ramp(0, 10, 1)))
	b, err := a.Clone()
	require.NoError(t, err)
	for _, n := range []int{9, 8, 6, 4, 1} {
		require.NoError(t, b.Truncate(n))
		require.NoError(t, b.Append([]float64{-1}))
		require.Equal(t, ramp(0, 10, 1), a.AsTensor())
		require.Equal(t, append(ramp(0, n, 1).Data, -1), b.AsTensor().Data)
	}
	closePaged(t, a, b)
}

func TestPagedStoreIsShared(t *testing.T) {
	s := newStore(t, 3, 4, 2)
	a, err := s.NewCache(math.MaxInt)
	require.NoError(t, err, "larger than its store")
	require.Equal(t, 3, a.NumBlocks())
	b, err := s.NewCache(8)
	require.NoError(t, err)
	require.NoError(t, a.AppendTensor(ramp(0, 5, 2)))
	require.NoError(t, b.AppendTensor(ramp(0, 4, 2)))
	require.ErrorIs(t, b.Append([]float64{1, 2}), block.ErrOutOfBlocks{Need: 1, Free: 0})
	require.Equal(t, 4, b.Len())
	require.NoError(t, a.AppendTensor(ramp(10, 3, 2)), "there is room in the last block")
	a.Clear()
	require.NoError(t, b.Append([]float64{1, 2}))
	closePaged(t, a, b)
	require.Equal(t, 3, s.Peak())
}

// A cache copied as a struct gives its blocks back twice; that cannot be repaired
// and is not passed over.
func TestPagedStructCopyPanics(t *testing.T) {
	c, err := NewPagedKvCache[float64](8, 1)
	require.NoError(t, err)
	require.NoError(t, c.Append([]float64{1}))
	copied := *c
	c.Clear()
	require.Panics(t, copied.Clear)
	copied.exclusive = false
	require.PanicsWithValue(t, misused, func() { _ = copied.Append([]float64{1}) })
	_, err = copied.Clone()
	require.ErrorIs(t, err, block.ErrNotHeld)
	require.NoError(t, c.store.Check())
}

// Clones of one half-filled block, each in a goroutine of its own, all write at once.
func TestPagedConcurrentClones(t *testing.T) {
	const clones, tokens, dim = 8, 40, 3
	for range 20 {
		s := newStore(t, 64, 16, dim)
		base, err := s.NewCache(64)
		require.NoError(t, err)
		require.NoError(t, base.AppendTensor(ramp(0, 20, dim)))
		caches := []*PagedKvCache[float64]{base}
		for range clones - 1 {
			c, err := base.Clone()
			require.NoError(t, err)
			caches = append(caches, c)
		}
		var wg sync.WaitGroup
		errs := make([]error, clones)
		for i, c := range caches {
			wg.Go(func() {
				for k := 0; k < tokens-20 && errs[i] == nil; k++ {
					errs[i] = c.AppendTensor(ramp(float64(1000*i+k), 1, dim))
					c.AsTensor()
					if own, err := c.Clone(); err == nil && k%5 == 0 {
						errs[i] = own.Append(make([]float64, dim))
						own.Release()
					} else if err == nil {
						own.Release()
					}
				}
			})
		}
		wg.Wait()
		for i, c := range caches {
			require.NoError(t, errs[i])
			want := ramp(0, 20, dim).Data
			for k := range tokens - 20 {
				want = append(want, ramp(float64(1000*i+k), 1, dim).Data...)
			}
			require.True(t, slices.Equal(want, c.AsTensor().Data))
		}
		require.Equal(t, 1+clones*2, s.BlocksInUse(), "one shared block, and two each")
		closePaged(t, caches...)
	}
}

// Every clone of a cache with a store of its own can become full on its own, while
// others read and write; released ones leave their room to the next.
func TestPagedClonesFillUpOnTheirOwn(t *testing.T) {
	root, err := NewPagedKvCache[float64](33, 2)
	require.NoError(t, err)
	fill := func(c *PagedKvCache[float64], with float64) {
		for c.Len() < 33 {
			if err := c.Append([]float64{with, float64(c.Len())}); err != nil {
				t.Error(err)
				return
			}
		}
	}
	for range 20 {
		require.NoError(t, root.Append([]float64{0, float64(root.Len())}))
	}
	var users sync.WaitGroup
	for u := range 5 {
		c, err := root.Clone()
		require.NoError(t, err)
		users.Go(func() {
			fill(c, float64(u+1))
			for i, row := range c.AsTensor().Data {
				want := float64(i / 2)
				if i%2 == 0 {
					want = 0
					if i/2 >= 20 {
						want = float64(u + 1)
					}
				}
				if row != want {
					t.Errorf("clone %d, element %d: %v, not %v", u, i, row, want)
				}
			}
			c.Release()
			c.Release()
		})
	}
	fill(root, 9)
	users.Wait()
	room := root.store.Blocks()
	for range 50 {
		c, err := root.Clone()
		require.NoError(t, err)
		c.Release()
	}
	require.Equal(t, room, root.store.Blocks(), "released clones leave their room")
	require.LessOrEqual(t, room, 6*3)
	root.Release()
	require.Zero(t, root.store.BlocksInUse())
	require.NoError(t, root.store.Check())
}
