package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// with is a run of the program whose standard input is a pipe with a text.
func with(t *testing.T, input string, args ...string) result {
	t.Helper()
	cmd := program(t, nil, args...)
	cmd.Stdin = struct{ io.Reader }{strings.NewReader(input)} // which exec puts into a pipe
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run()
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// A prompt is the text of a pipe or of a file, without the end of its last line.
func TestGenerateReadsPrompts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prompt.txt")
	require.NoError(t, os.WriteFile(file, []byte("The big\ndog\r\n"), 0o600))
	want := succeeds(t, "generate", "-n", "8", "-p", "The big\ndog").stdout
	require.Equal(t, want, succeeds(t, "generate", "-n", "8", "-f", file).stdout)
	for _, args := range [][]string{{}, {"--prompt", "-"}, {"--file", "-"}} {
		r := with(t, "The big\ndog\n", append([]string{"generate", "-n", "8"}, args...)...)
		require.Equal(t, want, r.stdout, "%v: %s", args, r.stderr)
	}

	story := succeeds(t, "generate", "-n", "8").stdout
	require.True(t, strings.HasPrefix(story, defaultPrompt))
	require.Equal(t, story, with(t, "", "generate", "-n", "8").stdout, "nothing is piped in")
	require.Equal(t, want, with(t, "other", "generate", "-n", "8", "-f", file).stdout, "a flag goes first")
}

// --prompt and --file make one batch.
func TestGenerateBatchOfFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prompt.txt")
	require.NoError(t, os.WriteFile(file, []byte("Lily"), 0o600))
	lines := jsonLines(t, with(t, "piped", "generate", "-n", "2", "--json", "-f", file, "-p", "-", "-p", "The").stdout)
	require.Equal(t, []any{"piped", "The", "Lily"}, []any{lines[0]["prompt"], lines[1]["prompt"], lines[2]["prompt"]})
}

// What is read as a prompt has a limit, is waited for as long as it was asked for, and ends with the command.
func TestReadPrompt(t *testing.T) {
	cmd := &cobra.Command{}
	ctx, cancel := context.WithCancelCause(t.Context())
	cmd.SetContext(ctx)
	_, err := readPrompt(cmd, "it", io.LimitReader(zeros{}, longestPrompt+1), 0)
	require.EqualError(t, err, "it: is longer than 16.0 MiB, the most for a prompt")
	_, err = readPrompt(cmd, "it", io.LimitReader(zeros{}, longestPrompt), 0)
	require.NoError(t, err)

	open, writer := io.Pipe()
	defer writer.Close()
	_, err = readPrompt(cmd, "it", open, time.Millisecond)
	require.ErrorIs(t, err, errSilent)
	slow, feed := io.Pipe()
	go func() {
		_, _ = feed.Write([]byte("a"))
		time.Sleep(50 * time.Millisecond)
		_, _ = feed.Write([]byte("b"))
		feed.Close()
	}()
	text, err := readPrompt(cmd, "it", slow, 10*time.Second)
	require.NoError(t, err)
	require.Equal(t, "ab", text)
	time.AfterFunc(10*time.Millisecond, func() { cancel(errTerminated) })
	_, err = readPrompt(cmd, "it", open, 0)
	require.ErrorIs(t, err, errTerminated)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// The cache has room for the prompts that there are and their answers, as far as nothing else is said.
func TestGenerateRoom(t *testing.T) {
	for _, c := range []struct {
		env, args string
		tokens    float64 // of a sequence
		sequences float64
	}{
		{"", "-n 5", 17 + 5, 1},
		{"", "-n 5 -c 100", 100, 1},
		{"", "-n 5 --guesses 3", 17 + 5 + 3, 1},
		{"", "-n 5 -p ab -p abcd -p a", 5 + 5, 3},
		{"", "-n 2 -p ab --turn abcd --turn a", 3 + 2 + 4 + 2 + 1 + 2, 1},
		{"", "-n 1000000000 -p ab", 1024, 1},
		{"FERRUM_KV_CAPACITY=50", "-n 5", 50, 1},
		{"FERRUM_KV_CAPACITY=50", "-n 5 -c 60", 60, 1},
		{"FERRUM_PAGED_MAX_SEQS=4", "-n 5", 22, 4},
	} {
		out, err := program(t, []string{c.env}, append([]string{"generate", "--json"}, strings.Fields(c.args)...)...).Output()
		require.NoError(t, err, "%v", c)
		lines := jsonLines(t, string(out))
		report := lines[len(lines)-1]["report"].(map[string]any)
		require.Equal(t, []any{c.tokens, c.sequences}, []any{report["block_tokens"], report["blocks_total"]}, "%v", c)
	}
}

// The report says in words why texts ended.
func TestGenerateEnds(t *testing.T) {
	for args, want := range map[string]string{
		"-n 3":                          "at --max-tokens 3",
		"-n 3 -p a -p b":                "all 2 at --max-tokens 3",
		"-n 3 --turn a":                 "all 2 at --max-tokens 3",
		"-n 100 -c 20 -p a":             "at the 20 tokens of --context",
		"-n 15 -c 20 -p a -p abcdefghi": "1 at --max-tokens 15, 1 at the 20 tokens of --context",
		"-n 2000":                       "at the end of the text",
	} {
		require.Contains(t, succeeds(t, append([]string{"generate"}, strings.Fields(args)...)...).stderr, "\nended    "+want+"\n", args)
	}
}
