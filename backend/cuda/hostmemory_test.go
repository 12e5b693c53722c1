//go:build linux && cgo && !nocuda

package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/hostmemory"
)

// What is pinned stays within the bound of the environment; beyond it memory is like any other, and all of it is counted.
func TestPinnedLimit(t *testing.T) {
	t.Setenv(pinnedVar, "1000")
	be := open(t)
	require.Equal(t, backend.HostUse{Limit: 1000}, be.Info().Host)
	first, err := be.HostAlloc(600)
	require.NoError(t, err)
	beyond, err := be.HostAlloc(401)
	require.NoError(t, err)
	last, err := be.HostAlloc(400)
	require.NoError(t, err)
	none, err := be.HostAlloc(0)
	require.NoError(t, err)
	require.Equal(t, []bool{true, false, true}, []bool{first.Pinned(), beyond.Pinned(), last.Pinned()})
	require.Equal(t, backend.HostUse{Pinned: 1000, Other: 401, Limit: 1000, OverLimit: 1}, be.Info().Host)
	for _, m := range []backend.HostMemory{first, beyond, last} {
		require.Equal(t, make([]byte, len(m.Bytes())), m.Bytes())
	}
	require.NotNil(t, none.Bytes())
	require.NoError(t, first.Close())
	require.ErrorIs(t, first.Close(), backend.ErrClosed)
	again, err := be.HostAlloc(600)
	require.NoError(t, err)
	require.True(t, again.Pinned())
	for _, m := range []backend.HostMemory{beyond, last, none, again} {
		require.NoError(t, m.Close())
	}
	require.Equal(t, backend.HostUse{Limit: 1000, OverLimit: 1}, be.Info().Host)
}

func TestPinnedVariable(t *testing.T) {
	require.NoError(t, openNow(t).Close())
	for _, bad := range []string{"-1", "1GB", "all", "9223372036854775808"} {
		t.Setenv(pinnedVar, bad)
		_, err := Open(0)
		require.ErrorIs(t, err, backend.ErrConfig{Package: "cuda", Name: pinnedVar, Value: bad, Why: "accepts a number of bytes, 0 to pin none"})
	}
	t.Setenv(pinnedVar, "0")
	be := open(t)
	m, err := be.HostAlloc(1)
	require.NoError(t, err)
	require.False(t, m.Pinned())
	require.NoError(t, m.Close())
	t.Setenv(pinnedVar, "")
	require.Equal(t, hostmemory.Physical()/pinnedShare, open(t).Info().Host.Limit)
}

// Memory that the driver does not pin is other memory, and what went before is taken back.
func TestRefusedPinnedMemory(t *testing.T) {
	c := control(t)
	be := open(t)
	limit := be.Info().Host.Limit
	for i, refuse := range []func(int){c.FailAlloc, c.FailCall} {
		before := c.Counts()
		refuse(1)
		m, err := be.HostAlloc(100)
		require.NoError(t, err)
		require.Equal(t, before.Injected+1, c.Counts().Injected)
		require.False(t, m.Pinned())
		require.Equal(t, before.HostBytes, c.Counts().HostBytes)
		require.Equal(t, backend.HostUse{Other: 100, Limit: limit, Refused: uint64(i + 1)}, be.Info().Host)
		require.NoError(t, m.Close())
	}
	_, err := be.HostAlloc(-1)
	require.ErrorIs(t, err, backend.ErrArgument{})
	_, err = be.HostAlloc(1 << 62)
	require.ErrorIs(t, err, backend.ErrOutOfMemory{})
	require.Zero(t, be.Info().Host.Other)
}

// Pinned memory is there when the device is closed, and its context until both are.
func TestPinnedMemoryOutlivesTheDevice(t *testing.T) {
	c := control(t)
	before := c.Counts()
	be := openNow(t)
	m, err := be.HostAlloc(100)
	require.NoError(t, err)
	require.True(t, m.Pinned())
	require.NoError(t, be.Close())
	require.ErrorIs(t, second(be.HostAlloc(1)), backend.ErrClosed)
	m.Bytes()[99] = 1
	require.Equal(t, before.Contexts+1, c.Counts().Contexts)
	require.NoError(t, m.Close())
	require.Nil(t, m.Bytes())
	after := c.Counts()
	require.Equal(t, before.Live(), after.Live())
	require.Equal(t, before.HostBytes, after.HostBytes)
	require.Equal(t, before.Abandoned, after.Abandoned)
}

// Memory that another device of the process has pinned is copied as any other.
func TestPinnedMemoryOfAnotherBackend(t *testing.T) {
	be, other := open(t), open(t)
	c := newScenery(t, be, 3, 0, 100)
	set := c.set(stagingBytes, maxListed)
	host, err := other.HostAlloc(100)
	require.NoError(t, err)
	require.NoError(t, set.Pack(c.s, []uint32{1}, host, 0))
	require.Equal(t, c.block(1), host.Bytes(), "done at once")
	require.NoError(t, host.Close())
	require.ErrorIs(t, set.Pack(c.s, []uint32{1}, host, 0), backend.ErrClosed)
	require.NoError(t, set.Close())
}

// Long-lived memory does not remember the sets that it was used with.
func TestHostMemoryForgetsSets(t *testing.T) {
	be := open(t)
	c := newScenery(t, be, 3, 0, 100)
	host := c.host(100)
	for range 5 {
		set := c.set(stagingBytes, maxListed)
		require.NoError(t, set.Pack(c.s, []uint32{1}, host, 0))
		require.NoError(t, set.Unpack(c.s, []uint32{1}, host, 0))
		require.Len(t, host.lanes, 2)
		require.NoError(t, set.Close())
	}
	require.NoError(t, host.Close())
}
