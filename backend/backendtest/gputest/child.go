package gputest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// envChild makes a test the body of a child process: a driver is opened once a process,
// and what it shows depends on the environment.
const envChild = "FERRUM_TEST_CHILD"

// Child runs tests of this program, by a pattern, in a process with more environment, and
// returns what it printed.
func Child(t *testing.T, tests string, env ...string) string {
	cmd := exec.Command(os.Args[0], "-test.run="+tests, "-test.v")
	cmd.Env = append(append(os.Environ(), envChild+"=1"), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// InChild reports whether this process was started by Child.
func InChild() bool { return os.Getenv(envChild) != "" }

// PrintOpens prints what opening and listing say of a device and of its kind. It is the
// body of a child process.
func PrintOpens[B backend.Buffer](t *testing.T, kind string, open func(i int) (backend.Backend[B], error)) {
	if !InChild() {
		t.Skip("the body of a child process")
	}
	be, err := open(0)
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
		if strings.HasPrefix(e.Name, kind) {
			fmt.Printf("LIST %s, %s, %v\n", e.Name, e.Driver, e.Err)
		}
	}
}
