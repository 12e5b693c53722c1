package block

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Defects of earlier block allocators that this one does not have.

// A free that does not look at what it is given puts a block into the list twice,
// and two sequences write the same memory.
func TestRegressionDoubleFree(t *testing.T) {
	a := open(t, 3)
	b, err := a.Allocate()
	require.NoError(t, err)
	require.NoError(t, a.Release(b, false))
	require.ErrorIs(t, a.Release(b, false), ErrDoubleFree)
	require.Equal(t, []uint32{0, 1, 2}, ids(take(t, a, 3)), "every block once")
	require.ErrorIs(t, a.Release(b, false), ErrStale, "and now it is somebody else's")
	require.Equal(t, 3, a.Held())
}

// An id that was never handed out, or lies beyond the pool, entered the list.
func TestRegressionFreeOutOfRange(t *testing.T) {
	a := open(t, 2)
	for _, b := range []Block{{ID: 2, Gen: 1}, {ID: math.MaxUint32, Gen: 1}, {ID: 1, Gen: 0}} {
		require.ErrorIs(t, a.Release(b, false), ErrUnknown)
		require.ErrorIs(t, a.ReleaseN([]Block{b}, 0), ErrUnknown)
	}
	require.Equal(t, []uint32{0, 1}, order(a))
}

// A count of sharers in 16 bits wrapped on one free too many.
func TestRegressionReferenceCountDoesNotWrap(t *testing.T) {
	a := open(t, 1)
	b, err := a.Allocate()
	require.NoError(t, err)
	for range math.MaxUint16 + 1 {
		require.NoError(t, a.Retain(b))
	}
	for range math.MaxUint16 + 2 {
		require.NoError(t, a.Release(b, false))
	}
	require.ErrorIs(t, a.Release(b, false), ErrDoubleFree)
	require.Equal(t, 1, a.Free())
}

// Growing a sequence took block after block and left those it had when the pool
// ran dry.
func TestRegressionPartialAllocationLeaks(t *testing.T) {
	a := open(t, 4)
	take(t, a, 2)
	var c Claim
	require.NoError(t, a.Reserve([]Reservation{{&c, 1}}))
	for range 10 {
		_, err := a.AllocateN(nil, 3)
		require.ErrorIs(t, err, ErrOutOfBlocks{})
		_, err = a.AllocateClaimed(&c, nil, 3)
		require.ErrorIs(t, err, ErrOutOfBlocks{})
		require.ErrorIs(t, a.Reserve([]Reservation{{&c, 2}, {&Claim{}, 2}}), ErrOutOfBlocks{})
		require.Equal(t, 2, a.Held())
		require.Equal(t, 1, a.Reserved())
	}
}

// Last-in-first-out reuse gave up the hottest cached block first.
func TestRegressionHottestBlockIsReusedFirst(t *testing.T) {
	a := open(t, 2)
	b := take(t, a, 2)
	require.NoError(t, a.Release(b[0], true))
	require.NoError(t, a.Release(b[1], true))
	got, err := a.Allocate()
	require.NoError(t, err)
	require.Equal(t, b[0].ID, got.ID, "the one released longest ago")
}
