package device

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// lacks makes the device lack the kernel that fills, until it was loaded; meanwhile is called during that.
func (g *gpu) lacks(meanwhile func() error) {
	g.fail["fkv_fill"] = &Missing{Load: func() error {
		err := meanwhile()
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.fail, "fkv_fill")
		return err
	}}
}

// An operation without its kernel ends, so that others go on while it is loaded, and begins anew.
func TestOperationsLoadWhatIsMissing(t *testing.T) {
	g := open()
	s := g.stream(t, "s")
	b, other := g.alloc(t, 1000, false), g.alloc(t, 2000, false)
	fill := func() error { return g.Fill(s, b, 0, 10, 1) }

	g.lacks(func() error { return g.free(other) })
	require.NoError(t, fill())

	refused := errors.New("no code for the device")
	g.lacks(func() error { return refusal{refused} })
	err := fill()
	require.ErrorIs(t, err, refused)
	require.ErrorContains(t, err, "test:0: fill: ")

	g.lacks(func() error { return g.free(b) })
	require.ErrorIs(t, fill(), backend.ErrFreed)

	b = g.alloc(t, 3000, false)
	g.lacks(func() error { return errors.Join(g.close(), backend.ErrClosed) })
	require.ErrorContains(t, fill(), "test:0: fill: device")
	require.ErrorIs(t, fill(), backend.ErrClosed)
}
