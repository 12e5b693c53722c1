package backendtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
)

// A check that panics or fails late has its buffers freed and its reason told.
func TestAttempt(t *testing.T) {
	be, err := cpu.Open(cpu.Options{Threads: 1})
	require.NoError(t, err)
	b := bench[*cpu.Buffer]{be: be}
	require.NoError(t, b.attempt(func(r *rig[*cpu.Buffer]) { r.region("x", backend.F32, 0, 5) }))
	require.ErrorContains(t, b.attempt(func(r *rig[*cpu.Buffer]) {
		r.region("x", backend.F32, 0, 5)
		require.Equal(r, 1, 2, "a reason")
	}), "a reason")
	require.ErrorContains(t, b.attempt(func(r *rig[*cpu.Buffer]) {
		r.region("x", backend.F32, 0, 5)
		panic("a crash")
	}), "a crash")
	require.ErrorAs(t, b.attempt(func(r *rig[*cpu.Buffer]) { r.skip("no such %s", "thing") }), &skipped{})
	require.Zero(t, be.Info().Buffers)
	require.ErrorContains(t, b.attempt(func(*rig[*cpu.Buffer]) { _, _ = be.Alloc(backend.F32, 1) }), "live buffers")
	require.NoError(t, be.Close())
}
