package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	_ "github.com/ferrumkv/ferrumkv/internal/variants/fromenv"
	"github.com/stretchr/testify/require"
)

// The limit that --threads names is the device's own.
func TestMaxThreads(t *testing.T) {
	be, err := deviceFlags{backend: "cpu", threads: maxThreads}.open()
	require.NoError(t, err)
	require.Equal(t, maxThreads, be.Info().ComputeUnits)
	require.NoError(t, be.Close())
	_, err = backend.Open(fmt.Sprintf("cpu:threads=%d", maxThreads+1))
	require.Error(t, err)
}

// envKernels lists folders of kernels for the test programs, see internal/variants.
const envKernels = "FERRUM_TEST_KERNELS"

// Generate, doctor and bench work on the device that FERRUM_TEST_DEVICE names.
func TestOnDevice(t *testing.T) {
	device := given["FERRUM_TEST_DEVICE"]
	if device == "" {
		t.Skip("FERRUM_TEST_DEVICE names no device, cuda:0 say")
	}
	on := func(args ...string) *exec.Cmd {
		return program(t, []string{envCUDADriver + "=" + given[envCUDADriver], envKernels + "=" + given[envKernels]}, append(args, "--backend", device)...)
	}
	output := func(args ...string) string {
		t.Helper()
		var stderr strings.Builder
		cmd := on(args...)
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.NoError(t, err, "%s", &stderr)
		return string(out)
	}
	first := golden(t)[0]
	for _, cache := range [][]string{{"--layout", "contiguous"}, {"--layout", "paged", "--kv-dtype", "f32"}} {
		text := output(append([]string{"generate", "--max-tokens", "24"}, cache...)...)
		require.Equal(t, expected(first.Prompt, first.Text[:24]), text)
	}
	doctor := jsonLines(t, output("doctor", "--json"))[0]
	var names []any
	for _, b := range doctor["backends"].([]any) {
		b := b.(map[string]any)
		if b["available"].(bool) {
			names = append(names, b["name"])
			require.Positive(t, b["total_memory"])
			require.Contains(t, b["kv_types"], "f16")
		}
	}
	require.Contains(t, names, any(device))
	require.Equal(t, []any{}, doctor["problems"])
	rows := jsonLines(t, output("bench", "--json", "--time", "1ms", "--footprint", "1", "--context", "96", "--q-heads", "4", "--kv-heads", "2", "--head-dim", "64"))
	require.Len(t, rows, 3*2)
	for _, r := range rows {
		require.Positive(t, r["gbps"])
		require.Positive(t, r["fraction"])
	}
	cmd := on("generate", "--kv-dtype", "u32")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "holds keys and values in ")
}
