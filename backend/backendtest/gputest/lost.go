package gputest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// A lost device is reported once as the driver said it, then as ErrLost without
// asking the driver. It can be closed; another and the same can be opened.
func testLost[B launch.Buffer](t *testing.T, d *Device[B]) {
	c := d.standin(t)
	start := c.Live()
	m := newMembers(t, d.openNow(t))
	c.Lose(0)

	err := m.s.Sync()
	require.ErrorIs(t, err, backend.ErrLost)
	require.True(t, c.Loss(err), "%v", err)
	require.ErrorContains(t, err, d.name()+": sync: ")
	require.ErrorContains(t, err, c.LossIs)

	launched, waited := c.Launched(), c.Waited()
	for name, err := range m.uses() {
		require.ErrorIs(t, err, backend.ErrLost, name)
		require.False(t, c.Loss(err), "%s: the cause is reported once", name)
	}
	require.Equal(t, launched, c.Launched())
	require.Equal(t, waited, c.Waited())
	require.Equal(t, 1, m.be.Info().Buffers)
	require.Zero(t, m.be.Info().FreeMemory)

	if neighbour, err := d.Open(1); err == nil {
		require.NoError(t, Exercise(neighbour), "the next device works meanwhile")
		require.NoError(t, neighbour.Close())
	}
	require.NoError(t, m.be.Close(), "its loss was reported")
	require.ErrorIs(t, m.be.Close(), backend.ErrClosed)
	c.Restore(0)
	d.works(t)
	require.Equal(t, start, c.Live())
}

// A loss that nobody has heard of yet is the error of Close, which gives everything
// back all the same.
func testLossFoundByClose[B launch.Buffer](t *testing.T, d *Device[B]) {
	c := d.standin(t)
	start := c.Live()
	m := newMembers(t, d.openNow(t))
	c.Lose(0)
	require.ErrorIs(t, m.be.Close(), backend.ErrLost)
	c.Restore(0)
	require.Equal(t, start, c.Live())
	d.works(t)
}

// works opens the first device and uses it.
func (d *Device[B]) works(t testing.TB) {
	be := d.openNow(t)
	require.NoError(t, Exercise(be))
	require.NoError(t, be.Close())
}
