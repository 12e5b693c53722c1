package backend_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

func TestErrOutOfMemory(t *testing.T) {
	for want, err := range map[string]backend.ErrOutOfMemory{
		"out of device memory": {},
		"backend: alloc: out of device memory: 1.5 GiB requested, at most 512.0 MiB available":           {Op: "alloc", Bytes: 3 << 29, Max: 512 << 20},
		"backend: alloc: out of device memory: 8589934593 bytes requested, at most 8589934592 available": {Op: "alloc", Bytes: 8<<30 + 1, Max: 8 << 30},
	} {
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, backend.ErrOutOfMemory{})
	}
}
