package host

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// Defects of earlier paged host caches that this one does not have.

// Sizes wrapped: the largest capacity became a cache without blocks whose first
// append crashed, a large dim blocks without memory.
func TestRegressionPagedOverflowingSizes(t *testing.T) {
	for _, tc := range [][3]int{
		{math.MaxInt, 1, 16}, {math.MaxInt - 15, 1, 16}, {math.MaxInt, math.MaxInt, 1}, {1, math.MaxInt, 16},
		{16, math.MaxInt/16 + 1, 16}, {1, 1, math.MaxInt/2 + 1}, {math.MaxInt, 8, 1}, {min(1<<42, math.MaxInt), 64, 16},
	} {
		c, err := NewPagedKvCache[float64](tc[0], tc[1], PagedBlockSize(tc[2]))
		require.ErrorIs(t, err, backend.ErrArgument{}, "%v", tc)
		require.Nil(t, c)
	}
	require.Equal(t, math.MaxInt/16+1, blocksFor(math.MaxInt, 16))
	require.Equal(t, math.MaxInt, blocksFor(math.MaxInt, 1))
}

// Appending many tokens at once made a copy of all of them first.
func TestRegressionPagedBatchAppendAllocates(t *testing.T) {
	s := newStore(t, 64, 16, 8)
	c, err := s.NewCache(1024)
	require.NoError(t, err)
	token, many := make([]float64, 8), ramp(0, 100, 8)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for range 33 {
			if err := c.Append(token); err != nil {
				panic(err)
			}
		}
		for range 5 {
			if err := c.AppendTensor(many); err != nil {
				panic(err)
			}
		}
		if err := c.Truncate(20); err != nil {
			panic(err)
		}
		c.Clear()
	}), "append, append many, truncate, clear")

	require.NoError(t, c.AppendTensor(many))
	forks := make([]*PagedKvCache[float64], 0, 101)
	for range cap(forks) {
		f, err := c.Clone()
		require.NoError(t, err)
		forks = append(forks, f)
	}
	i := 0
	require.Zero(t, testing.AllocsPerRun(cap(forks)-1, func() {
		if err := forks[i].Append(token); err != nil {
			panic(err)
		}
		forks[i].Release()
		i++
	}), "the first write to a shared block")
	require.Zero(t, testing.AllocsPerRun(10, func() {
		for _, rows := range c.Blocks() {
			token[0] += rows[0]
		}
		if _, err := c.Token(c.Len() - 1); err != nil {
			panic(err)
		}
	}), "reading in place")
	closePaged(t, c)
}

// Full, overflow and wrong shape were one error with different words.
func TestRegressionPagedOneErrorForEverything(t *testing.T) {
	s := newStore(t, 1, 4, 2)
	full, err := s.NewCache(3)
	require.NoError(t, err)
	dry, err := s.NewCache(9)
	require.NoError(t, err)
	require.NoError(t, full.AppendTensor(ramp(0, 3, 2)))
	kinds := []error{backend.ErrArgument{}, backend.ErrCapacity{}, block.ErrOutOfBlocks{}, ErrIndex{}, backend.ErrClosed}
	_, index := full.Token(3)
	got := []error{full.Append(nil), full.Append([]float64{1, 2}), dry.Append([]float64{1, 2}), index, nil}
	full.Release()
	got[4] = full.Append([]float64{1, 2})
	for i, err := range got {
		for k, kind := range kinds {
			require.Equal(t, i == k, errors.Is(err, kind), "%v as %T", err, kind)
		}
	}
	closePaged(t, dry)
}

// The block table was never anything but the identity, and a clone copied every
// block, unused ones included.
func TestRegressionPagedCloneCopiesEverything(t *testing.T) {
	s := newStore(t, 100, 16, 4)
	c, err := s.NewCache(1600)
	require.NoError(t, err)
	require.NoError(t, c.AppendTensor(ramp(0, 90*16, 4)))
	for range 50 {
		clone, err := c.Clone()
		require.NoError(t, err)
		defer clone.Release()
		require.NoError(t, clone.Append(make([]float64, 4)))
		require.LessOrEqual(t, s.BlocksInUse(), 91)
		clone.Clear()
	}
	require.Equal(t, 90, s.BlocksInUse())
	c.Release()
}

// All tokens had to be copied out to look at one.
func TestRegressionPagedReadsOnlyByCopy(t *testing.T) {
	c := newPaged(t, 64, 4)
	require.NoError(t, c.AppendTensor(ramp(0, 50, 4)))
	view, err := c.Token(49)
	require.NoError(t, err)
	same, err := c.Token(49)
	require.NoError(t, err)
	require.Same(t, &view[0], &same[0])
	require.Zero(t, testing.AllocsPerRun(10, func() { _, _ = c.Token(3) }))
}

// A token without elements was accepted, and counted.
func TestRegressionPagedZeroDim(t *testing.T) {
	_, err := NewPagedKvCache[float64](16, 0)
	require.ErrorIs(t, err, backend.ErrArgument{})
}

// A batch that did not fit whole left its first part behind.
func TestRegressionPagedPartialAppend(t *testing.T) {
	s := newStore(t, 2, 4, 1)
	c, err := s.NewCache(12)
	require.NoError(t, err)
	require.NoError(t, c.AppendTensor(ramp(0, 3, 1)))
	for range 3 {
		require.ErrorIs(t, c.AppendTensor(ramp(3, 6, 1)), block.ErrOutOfBlocks{Need: 2, Free: 1})
		require.Equal(t, backend.ErrCapacity{Package: "host", Have: 13, Max: 12}, c.AppendTensor(ramp(3, 10, 1)))
		require.Equal(t, ramp(0, 3, 1), c.AsTensor())
		require.Equal(t, 1, s.BlocksInUse())
	}
	closePaged(t, c)
}
