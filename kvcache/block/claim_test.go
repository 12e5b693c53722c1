package block

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// A8: what was predicted is what is there, whoever else allocates.
func TestA8ClaimedBlocksAreThere(t *testing.T) {
	a := open(t, 6)
	var one, two Claim
	require.NoError(t, a.Reserve([]Reservation{{&one, 2}, {&two, 3}}))
	require.Equal(t, 5, a.Reserved())
	require.Equal(t, 1, a.Available())
	_, err := a.AllocateN(nil, 2)
	require.Equal(t, ErrOutOfBlocks{Need: 2, Free: 1}, err)
	take(t, a, 1)
	got, err := a.AllocateClaimed(&one, nil, 2)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, Claim{}, one, "used up: a zero value again")
	_, err = a.AllocateClaimed(&two, nil, 4)
	require.Equal(t, ErrOutOfBlocks{Need: 4, Free: 3}, err)
	require.Equal(t, 3, two.Blocks())
	_, err = a.AllocateClaimed(&two, nil, 3)
	require.NoError(t, err)
	require.Equal(t, 0, a.Reserved())
}

func TestReserveIsIdempotent(t *testing.T) {
	a := open(t, 10)
	var one, two Claim
	want := []Reservation{{&one, 2}, {&two, 3}, {&one, 4}}
	for range 3 {
		require.NoError(t, a.Reserve(want))
		require.Equal(t, 4, one.Blocks(), "duplicates merge by maximum")
		require.Equal(t, 3, two.Blocks())
		require.Equal(t, 7, a.Reserved())
	}
	require.NoError(t, a.Reserve([]Reservation{{&one, 1}}))
	require.Equal(t, 4, one.Blocks(), "never lowered")
	require.NoError(t, a.Reserve(nil))
}

func TestReserveAllOrNothing(t *testing.T) {
	a, other := open(t, 10), open(t, 10)
	var one, two, foreign Claim
	require.NoError(t, a.Reserve([]Reservation{{&one, 2}}))
	require.NoError(t, other.Reserve([]Reservation{{&foreign, 1}}))
	copied := one
	for _, tc := range []struct {
		last Reservation
		err  error
	}{
		{Reservation{&two, 8}, ErrOutOfBlocks{Need: 9, Free: 8}},
		{Reservation{&two, math.MaxInt}, ErrOutOfBlocks{Need: math.MaxInt, Free: 8}},
		{Reservation{&two, -1}, ErrRange{}},
		{Reservation{nil, 1}, ErrUnknown},
		{Reservation{&foreign, 1}, ErrUnknown},
		{Reservation{&copied, 3}, ErrUnknown},
	} {
		require.ErrorIs(t, a.Reserve([]Reservation{{&one, 3}, tc.last}), tc.err)
		require.Equal(t, 2, one.Blocks())
		require.Equal(t, 0, two.Blocks())
		require.Equal(t, 2, a.Reserved())
		require.NoError(t, a.Check())
	}
	require.NoError(t, a.Reserve([]Reservation{{&one, 3}, {&two, 7}}), "exactly all")
}

func TestAllocateClaimed(t *testing.T) {
	a, other := open(t, 5), open(t, 5)
	var c, empty Claim
	require.NoError(t, a.Reserve([]Reservation{{&c, 2}}))
	dst := make([]Block, 1, 8)
	got, err := a.AllocateClaimed(&c, dst, 3)
	require.NoError(t, err, "two promised, one available")
	require.Equal(t, []uint32{0, 0, 1, 2}, ids(got))
	got, err = a.AllocateClaimed(&empty, nil, 1)
	require.NoError(t, err, "a claim of nothing is no hindrance")
	require.Equal(t, []uint32{3}, ids(got))
	require.NoError(t, a.Reserve([]Reservation{{&c, 1}}))
	for _, tc := range []struct {
		a   *BlockAllocator
		c   *Claim
		n   int
		err error
	}{{a, nil, 1, ErrUnknown}, {other, &c, 1, ErrUnknown}, {a, &c, -1, ErrRange{}}, {a, &c, 2, ErrOutOfBlocks{Need: 2, Free: 1}}} {
		same, err := tc.a.AllocateClaimed(tc.c, dst, tc.n)
		require.ErrorIs(t, err, tc.err)
		require.Equal(t, dst, same)
		require.Equal(t, 1, c.Blocks())
	}
}

func TestCancel(t *testing.T) {
	a, other := open(t, 5), open(t, 5)
	var c Claim
	a.Cancel(&c)
	a.Cancel(nil)
	require.NoError(t, a.Reserve([]Reservation{{&c, 4}}))
	copied := c
	other.Cancel(&c)
	a.Cancel(&copied)
	require.Equal(t, 4, a.Reserved())
	a.Cancel(&c)
	a.Cancel(&c)
	require.Equal(t, 0, a.Reserved())
	require.NoError(t, other.Reserve([]Reservation{{&c, 1}}), "free to go to another allocator")
	other.Cancel(&c)
}

// A cached block that somebody was promised cannot be taken back.
func TestTakeRespectsClaims(t *testing.T) {
	a := open(t, 2)
	b := take(t, a, 2)
	require.NoError(t, a.ReleaseN(b, 2))
	var c Claim
	require.NoError(t, a.Reserve([]Reservation{{&c, 1}}))
	require.NoError(t, a.Take(b[0]))
	require.Equal(t, ErrOutOfBlocks{Need: 1, Free: 0}, a.Take(b[1]))
	_, err := a.Allocate()
	require.ErrorIs(t, err, ErrOutOfBlocks{})
	_, err = a.AllocateClaimed(&c, nil, 1)
	require.NoError(t, err)
}
