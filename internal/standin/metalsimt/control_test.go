//go:build linux && cgo && metalsimt && !nometal

package metalsimt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/metal/mtl"
)

func TestFailuresComeOnce(t *testing.T) {
	before := Count()
	devices, err := mtl.Devices()
	require.NoError(t, err)
	d := devices[0]

	FailBuffer(2)
	b, err := d.NewBuffer(100)
	require.NoError(t, err)
	_, err = d.NewBuffer(100)
	require.ErrorIs(t, err, backend.ErrOutOfMemory{})
	now := Count()
	require.EqualValues(t, 1, now.Injected-before.Injected)
	require.EqualValues(t, 100, now.Bytes-before.Bytes)
	require.EqualValues(t, 1, now.Buffers-before.Buffers)

	FailLibrary(1)
	_, err = d.NewLibrary("", false)
	require.Error(t, err)
	require.EqualValues(t, 2, Count().Injected-before.Injected)

	require.True(t, Lose(0))
	require.False(t, Lose(len(devices)))
	_, err = d.NewQueue()
	require.Error(t, err)
	require.True(t, Find(0))
	q, err := d.NewQueue()
	require.NoError(t, err)
	q.Close()

	b.Release()
	for _, d := range devices {
		d.Release()
	}
	require.Equal(t, before.Live(), Count().Live())
	require.NotZero(t, Calls("newBufferWithLength:options:"))
	require.Zero(t, Calls("newBufferWithLength:"))
	Seed(0)
}
