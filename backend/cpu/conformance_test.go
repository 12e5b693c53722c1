package cpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
)

// The CPU passes the suite that every device passes.
func TestConformance(t *testing.T) {
	backendtest.Run(t, func(t testing.TB) backend.Backend[*cpu.Buffer] {
		be, err := cpu.Open(cpu.Options{})
		require.NoError(t, err)
		return be
	})
}
