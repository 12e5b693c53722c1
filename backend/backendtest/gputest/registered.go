package gputest

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

func testOpenErrors[B launch.Buffer](t *testing.T, d *Device[B]) {
	d.open(t)
	for _, i := range []int{-1, math.MaxInt} {
		require.ErrorIs(t, second(d.Open(i)), backend.ErrUnavailable{})
	}
	for _, device := range []string{"x", "-1", "1e3", "99"} {
		require.ErrorIs(t, second(backend.Open(d.Kind+":"+device)), backend.ErrUnavailable{}, device)
	}
	for _, name := range []string{d.Kind, d.name()} {
		be, err := backend.Open(name)
		require.NoError(t, err)
		require.Equal(t, d.name(), be.Info().Name)
		require.NoError(t, be.Close())
	}
}

// Devices that a program can have come before the CPU, with all that is known of them, in
// the driver's order.
func testListed[B launch.Buffer](t *testing.T, d *Device[B]) {
	be := d.open(t)
	list := backend.List()
	at := slices.IndexFunc(list, func(e backend.Entry) bool { return e.Name == d.name() })
	require.GreaterOrEqual(t, at, 0)
	require.NoError(t, list[at].Err)
	require.Equal(t, be.Info().Device, list[at].Model)
	require.Equal(t, be.Info().TotalMemory, list[at].Memory)
	require.Regexp(t, d.Driver, list[at].Driver)
	for i := 1; ; i++ {
		other, err := d.Open(i)
		if err != nil {
			require.ErrorIs(t, err, backend.ErrUnavailable{})
			break
		}
		require.Equal(t, other.Info().Name, list[at+i].Name)
		require.NoError(t, other.Close())
	}
}
