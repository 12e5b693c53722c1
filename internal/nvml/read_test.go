package nvml

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// installed puts a program of that name and text into a path of its own.
func installed(t *testing.T, script string) {
	if runtime.GOOS == "windows" {
		t.Skip("the program is a shell script")
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, Program), []byte("#!/bin/sh\n"+script), 0o755))
}

func TestRead(t *testing.T) {
	installed(t, `echo '[{"bus": "00000000:3B:00.0", "celsius": 41, "throttled": ["heat"], "of_a_later_version": 1}]'`)
	readings, err := Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, []Reading{{Bus: "00000000:3B:00.0", Celsius: 41, Throttled: []string{"heat"}}}, readings)
}

// Without the program, or with one that fails, there are no readings and a reason.
func TestReadFails(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Read(t.Context())
	require.ErrorIs(t, err, ErrNotInstalled)

	for script, want := range map[string]string{
		"echo 'ferrumkv-nvml: init: error 9' >&2; exit 1": "ferrumkv-nvml: init: error 9",
		"exit 3":        "ferrumkv-nvml: exit status 3",
		"echo nonsense": "invalid character",
	} {
		t.Run(want, func(t *testing.T) {
			installed(t, script)
			readings, err := Read(t.Context())
			require.ErrorContains(t, err, want)
			require.Nil(t, readings)
		})
	}

	t.Run("cancelled", func(t *testing.T) {
		installed(t, "while :; do :; done")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := Read(ctx)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// The program may lie beside the one that asks, as in a bundle.
func TestReadFindsWhatLiesBeside(t *testing.T) {
	installed(t, "exit 1")
	self, err := os.Executable()
	require.NoError(t, err)
	beside := filepath.Join(filepath.Dir(self), Program)
	require.NoError(t, os.WriteFile(beside, []byte("#!/bin/sh\necho '[]'"), 0o755))
	t.Cleanup(func() { require.NoError(t, os.Remove(beside)) })
	readings, err := Read(t.Context())
	require.NoError(t, err)
	require.Empty(t, readings)
}

// NVML counts the devices in an order of its own, and all of the machine's.
func TestAt(t *testing.T) {
	readings := []Reading{{Bus: "00000000:5E:00.0", Celsius: 70}, {Bus: "00000000:3B:00.0", Celsius: 41}}
	r, ok := At("0000:3b:00.0", readings)
	require.True(t, ok)
	require.Equal(t, 41, r.Celsius)
	for _, bus := range []string{"0000:04:00.0", ""} {
		r, ok = At(bus, readings)
		require.False(t, ok)
		require.Zero(t, r)
	}
}
