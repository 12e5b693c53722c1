package backendtest

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/stretchr/testify/require"
)

func TestTmpCPU(t *testing.T) {
	Run(t, func(t testing.TB) backend.Backend[*cpu.Buffer] {
		be, err := cpu.Open(cpu.Options{})
		require.NoError(t, err)
		return be
	})
}
