//go:build linux && cgo && !nocuda

package cuda

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend/backendtest/gputest"
	"github.com/ferrumkv/ferrumkv/internal/standin"
)

// TestChildOpens prints what opening and listing say. It is run by TestUnavailable.
func TestChildOpens(t *testing.T) { gputest.PrintOpens(t, "cuda", gpu().Open) }

// Whatever is missing is said in words, by Open and by List, and nothing crashes.
func TestUnavailable(t *testing.T) {
	out := gputest.Child(t, "^TestChildOpens$", driverVar+"=/nonexistent")
	require.Contains(t, out, "OPEN cuda: /nonexistent not found; it comes with the NVIDIA driver")
	require.Contains(t, out, "LIST cuda, , backend: cuda is not available: /nonexistent not found; it comes with the NVIDIA driver") // and, beside a GPU, what may hide it

	if _, ok := standin.Open(); !ok {
		t.Skip("the rest is shown by the stand-in")
	}
	for _, c := range []struct {
		words string
		env   []string
	}{
		{"OPEN cuda: the driver finds no NVIDIA device\n", []string{"FERRUM_SIMT_DEVICES=0"}},
		{"LIST cuda, , backend: cuda is not available: the driver finds no NVIDIA device\n", []string{"FERRUM_SIMT_DEVICES=0"}},
		{"OPEN cuda: driver too old: it is for CUDA 11.8, need CUDA 12.0 (driver 525) or newer\n", []string{"FERRUM_SIMT_VERSION=11080"}},
		{"compute capability 7.5, need 8.0 or newer\nLIST cuda, , backend: cuda:1 is not available: ", []string{"FERRUM_SIMT_CAPABILITY=7.5"}},
		{"it is for CUDA 12.3, need 12.4 (driver 550) or newer\n", []string{"FERRUM_SIMT_CAPABILITY=10.0", "FERRUM_SIMT_VERSION=12030"}},
		{"OPEN <nil>\n", []string{"FERRUM_SIMT_CAPABILITY=10.0", "FERRUM_SIMT_VERSION=12080"}},
		{"LIST cuda:1, CUDA 12.0 (" + standin.Path() + "), <nil>\n", []string{"FERRUM_SIMT_CAPABILITY=8.6", "FERRUM_SIMT_VERSION=12000"}},
	} {
		require.Contains(t, gputest.Child(t, "^TestChildOpens$", c.env...), c.words)
	}
}

// A device without memory pools does all of it as well.
func TestWithoutPools(t *testing.T) {
	control(t)
	if gputest.InChild() {
		return
	}
	out := gputest.Child(t, "^TestGPU$/^(alloc|freed|import|after|close|transfers|half|failures|los|graphs)|^(TestAllocErrors|TestImport.*|Test.*Captur.*Owner|TestAllocWaitsForFreedMemory|TestInfoLeavesALossToOthers)$",
		"FERRUM_SIMT_POOLS=0", "RAPID_CHECKS=20")
	require.Contains(t, out, "--- PASS: TestGPU/failures_anywhere/out_of_memory")
	// Nothing is left out, but what sanitizers make untrue.
	require.NotContains(t, strings.ReplaceAll(out, "--- SKIP: TestGPU/transfers_allocate_nothing", ""), "--- SKIP")
}
