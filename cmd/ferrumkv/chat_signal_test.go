//go:build unix

package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Ctrl-C stops an answer, and the conversation goes on; at the prompt it ends the program, as SIGTERM does anywhere. What is said is saved.
func TestProgramChatSignals(t *testing.T) {
	snap, template := filepath.Join(t.TempDir(), "talk.snap"), file(t, "t.jinja", storyTemplate)
	for _, c := range []struct {
		end  os.Signal
		code int
		told string
	}{{os.Interrupt, exitInterrupted, "ferrumkv: interrupted\n"}, {syscall.SIGTERM, exitTerminated, "ferrumkv: terminated\n"}} {
		cmd := program(t, nil, "chat", "--template", template, "--save", snap, "--temperature", "1", "--repeat-penalty", "1.01", "--repeat-last-n", "-1")
		var stderr bytes.Buffer
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		pipe, err := cmd.StdoutPipe()
		require.NoError(t, err)
		notes, err := cmd.StderrPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		out, beside := bufio.NewReader(pipe), bufio.NewReader(io.TeeReader(notes, &stderr))
		for range 2 {
			_, err = io.WriteString(in, said[0]+"\n")
			require.NoError(t, err)
			_, err = out.ReadByte() // it streams
			require.NoError(t, err)
			require.NoError(t, cmd.Process.Signal(os.Interrupt))
			_, err = out.ReadString('\n')
			require.NoError(t, err)
			note, err := beside.ReadString('\n')
			require.NoError(t, err)
			require.Regexp(t, `^\[computed .*; interrupted\]\n$`, note)
		}
		require.NoError(t, cmd.Process.Signal(c.end))
		_, err = io.Copy(io.Discard, beside)
		require.NoError(t, err)
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &exit)
		require.Equal(t, c.code, exit.ExitCode(), &stderr)
		require.Contains(t, stderr.String(), c.told)
		answers := chats(t, said[1], "--resume", snap, "--max-tokens", "2")
		require.Greater(t, answers[0]["reused_tokens"], 40.)
	}
}
