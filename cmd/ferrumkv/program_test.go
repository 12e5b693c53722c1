//go:build unix

package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgramCtrlC(t *testing.T) {
	cmd := program(t, nil, "generate", "--temperature", "1", "--max-tokens", "1000")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = bufio.NewReader(out).ReadByte() // it streams
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, exitInterrupted, exit.ExitCode())
	require.True(t, strings.HasSuffix(stderr.String(), "used\nferrumkv: interrupted\n"), "after the report: %s", &stderr)
}

// SIGTERM ends the program as Ctrl-C does, with the exit code of what it ended.
func TestProgramTerminated(t *testing.T) {
	cmd := program(t, nil, "generate", "--temperature", "1", "--max-tokens", "1000")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = bufio.NewReader(out).ReadByte()
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, exitTerminated, exit.ExitCode())
	require.True(t, strings.HasSuffix(stderr.String(), "used\nferrumkv: terminated\n"), "after the report: %s", &stderr)
}
