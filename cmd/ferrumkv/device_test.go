package main

import (
	"fmt"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// The limit that --threads names is the device's own.
func TestMaxThreads(t *testing.T) {
	be, err := deviceFlags{backend: "cpu", threads: maxThreads}.open()
	require.NoError(t, err)
	require.Equal(t, maxThreads, be.Info().Units)
	require.NoError(t, be.Close())
	_, err = backend.Open(fmt.Sprintf("cpu:threads=%d", maxThreads+1))
	require.Error(t, err)
}
