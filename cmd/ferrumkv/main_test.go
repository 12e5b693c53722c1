package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
	modeldata "github.com/ferrumkv/ferrumkv/testdata/model"
	"github.com/stretchr/testify/require"
)

// asProgram is a variable that makes the test binary be the program, for tests
// that need a process: the environment is read once in each, and signals are theirs.
const asProgram = "FERRUMKV_TEST_AS_PROGRAM"

// given is what was set of this library's variables.
var given = map[string]string{}

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" || len(os.Args) > 1 && os.Args[1] == chat.Apart {
		main()
		return
	}
	for _, v := range os.Environ() { // the tests say themselves what is set
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, "FERRUM_") {
			given[name] = value
			os.Unsetenv(name)
		}
	}
	// A GPU of this machine would be the default device; the tests that want one
	// name its driver.
	os.Setenv(envCUDADriver, "/nonexistent/libcuda.so.1")
	os.Stdin, _ = os.Open(os.DevNull) // what the tests run in may have left a pipe open there
	backend.Register("counted", -1, counted{})
	os.Exit(m.Run())
}

// program is the test binary as the program, with more in its environment.
func program(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append(append(os.Environ(), asProgram+"=1"), env...)
	return cmd
}

// result is what a run of the program in this process gave.
type result struct {
	code           int
	stdout, stderr string
}

func inProcess(args ...string) result {
	var stdout, stderr bytes.Buffer
	code := run(context.Background(), args, &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// succeeds runs the program and wants exit code 0 and no progress in what it wrote.
func succeeds(t *testing.T, args ...string) result {
	t.Helper()
	r := inProcess(args...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.NotContains(t, r.stdout+r.stderr, "\r", "progress goes to terminals only")
	return r
}

// fails runs the program and wants one line on stderr that contains all of want.
func fails(t *testing.T, args []string, want ...string) result {
	t.Helper()
	r := inProcess(args...)
	require.Equal(t, exitError, r.code, "ferrumkv %v", args)
	require.Equal(t, 1, strings.Count(r.stderr, "\n"), "one line: %q", r.stderr)
	require.True(t, strings.HasPrefix(r.stderr, "ferrumkv: ") && strings.HasSuffix(r.stderr, "\n"), "%q", r.stderr)
	for _, w := range want {
		require.Contains(t, r.stderr, w)
	}
	return r
}

// jsonLines decodes one object a line.
func jsonLines(t *testing.T, text string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(text) {
		var v map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &v), line)
		out = append(out, v)
	}
	return out
}

// golden is the expected texts of the embedded model.
func golden(t *testing.T) []struct{ Prompt, Text string } {
	t.Helper()
	data, err := modeldata.Files.ReadFile("expected.json")
	require.NoError(t, err)
	var expected struct {
		Cases []struct{ Prompt, Text string }
	}
	require.NoError(t, json.Unmarshal(data, &expected))
	require.NotEmpty(t, expected.Cases)
	return expected.Cases
}

// counted is a driver of the CPU that notes what is left when a device is closed.
type counted struct{}

var leftovers struct {
	sync.Mutex
	buffers []int // live ones at each Close
}

func (counted) Devices() ([]backend.Device, error) {
	return []backend.Device{{Name: "counted"}}, nil
}

func (counted) Open(string) (backend.Backend[backend.AnyBuffer], error) {
	be, err := backend.Open("cpu")
	return countedDevice{be}, err
}

// countedDevice does not offer its memory to the host, so it also stands for a
// device that data is copied to.
type countedDevice struct {
	backend.Backend[backend.AnyBuffer]
}

func (d countedDevice) Close() error {
	leftovers.Lock()
	defer leftovers.Unlock()
	leftovers.buffers = append(leftovers.buffers, d.Info().Buffers)
	return d.Backend.Close()
}

// noLeftovers checks the devices that were closed since it was called last.
func noLeftovers(t *testing.T) {
	t.Helper()
	leftovers.Lock()
	defer leftovers.Unlock()
	buffers := leftovers.buffers
	leftovers.buffers = nil
	require.NotEmpty(t, buffers, "no device was closed")
	for _, n := range buffers {
		require.Zero(t, n, "buffers that were not freed")
	}
}
