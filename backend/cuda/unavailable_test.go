//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/standin"
)

// envChild makes a test of this package the body of a child process: the driver
// library is opened once a process, and what it shows depends on the environment.
const envChild = "FERRUM_TEST_CHILD"

// child runs a test of this package in a process with more environment, and returns
// what it printed.
func child(t *testing.T, test string, env ...string) string {
	cmd := exec.Command(os.Args[0], "-test.run="+test, "-test.v")
	cmd.Env = append(append(os.Environ(), envChild+"=1"), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// TestChildOpens prints what opening and listing say. It is run by TestUnavailable.
func TestChildOpens(t *testing.T) {
	if os.Getenv(envChild) == "" {
		t.Skip("the body of a child process")
	}
	be, err := Open(0)
	var why backend.ErrUnavailable
	if !errors.As(err, &why) {
		fmt.Printf("OPEN %v\n", err)
	} else {
		fmt.Printf("OPEN %s: %s\n", why.Backend, why.Why)
	}
	if err == nil {
		require.NoError(t, be.Close())
	}
	for _, e := range backend.List() {
		if strings.HasPrefix(e.Name, "cuda") {
			fmt.Printf("LIST %s, %s, %v\n", e.Name, e.Driver, e.Err)
		}
	}
}

// Whatever is missing is said in words, by Open and by List, and nothing crashes.
func TestUnavailable(t *testing.T) {
	out := child(t, "^TestChildOpens$", driverVar+"=/nonexistent")
	require.Contains(t, out, "OPEN cuda: /nonexistent not found; it comes with the NVIDIA driver\n")
	require.Contains(t, out, "LIST cuda, , backend: cuda is not available: /nonexistent not found; it comes with the NVIDIA driver\n")

	if _, ok := standin.Open(); !ok {
		t.Skip("the rest is shown by the stand-in")
	}
	for _, c := range []struct {
		words string
		env   []string
	}{
		{"OPEN cuda: the driver finds no NVIDIA device\n", []string{"FERRUM_SIMT_DEVICES=0"}},
		{"LIST cuda, , backend: cuda is not available: the driver finds no NVIDIA device\n", []string{"FERRUM_SIMT_DEVICES=0"}},
		{"OPEN cuda: driver too old: it is for CUDA 10.2, need 11.0 (driver 450) or newer\n", []string{"FERRUM_SIMT_VERSION=10020"}},
		{"compute capability 7.5, need 8.0 or newer\nLIST cuda, , backend: cuda:1 is not available: ", []string{"FERRUM_SIMT_CAPABILITY=7.5"}},
		{"it is for CUDA 11.4, need 11.8 (driver 520) or newer\n", []string{"FERRUM_SIMT_CAPABILITY=10.0", "FERRUM_SIMT_VERSION=11040"}},
		{"OPEN <nil>\n", []string{"FERRUM_SIMT_CAPABILITY=10.0", "FERRUM_SIMT_VERSION=12080"}},
		{"LIST cuda:1, CUDA 11.4 (" + standin.Path() + "), <nil>\n", []string{"FERRUM_SIMT_CAPABILITY=8.6", "FERRUM_SIMT_VERSION=11040"}},
	} {
		require.Contains(t, child(t, "^TestChildOpens$", c.env...), c.words)
	}
}

// A device without memory pools does all of it as well.
func TestWithoutPools(t *testing.T) {
	control(t)
	if os.Getenv(envChild) != "" {
		return
	}
	out := child(t, "^(TestAlloc.*|TestFreed.*|TestInfo.*|TestImport.*|TestAfterClose|TestCloseWhileInUse|TestTransfersAreThoseOfASlice|TestHalfByteElements|"+
		"TestOutOfMemoryAnywhere|TestFailedCallAnywhere|TestLost.*|TestLossFoundByClose)$", "FERRUM_SIMT_POOLS=0", "RAPID_CHECKS=20")
	require.Contains(t, out, "--- PASS: TestOutOfMemoryAnywhere")
	require.NotContains(t, out, "--- SKIP")
}
