package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/external"
	"github.com/stretchr/testify/require"
)

// sample is a command in a document, and what the document says that it printed.
type sample struct {
	args []string
	out  string
}

// samples are the commands of a page of docs.
func samples(t *testing.T, page string) (out []sample) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	require.NoError(t, err)
	plain := strings.ReplaceAll(string(text), "\r\n", "\n") // as a checkout on Windows may have it
	for _, block := range strings.Split(plain, "```console\n$ ferrumkv ")[1:] {
		block, _, closed := strings.Cut(block, "```")
		require.True(t, closed, page)
		command, printed, _ := strings.Cut(strings.ReplaceAll(block, "\\\n", " "), "\n")
		out = append(out, sample{words(command), printed})
	}
	return out
}

// words are the arguments of a command line. Quotation marks hold blanks together.
func words(line string) (out []string) {
	for _, w := range regexp.MustCompile(`"[^"]*"|[^\s"]+`).FindAllString(line, -1) {
		out = append(out, strings.Trim(w, `"`))
	}
	return out
}

// taken is what differs from run to run in a report.
var taken = regexp.MustCompile(`in [\d.]+ \S+, \d+ tokens/s`)

// What docs/commands.md shows of generate and tokenize is what the program prints, times excepted.
func TestCommandsDocument(t *testing.T) {
	shown := 0
	for _, s := range samples(t, "commands.md") {
		if s.args[0] != "generate" && s.args[0] != "tokenize" {
			continue
		}
		shown++
		r := succeeds(t, s.args...)
		require.Equal(t, taken.ReplaceAllString(s.out, "in …"), taken.ReplaceAllString(r.stdout+r.stderr, "in …"), s.args)
	}
	require.Equal(t, 4, shown, "samples of generate and tokenize")
}

// speed is what differs from run to run after an answer.
var speed = regexp.MustCompile(`; [\d.]+ tokens/s;`)

// So it is for chat: lines in brackets go to standard error, the others to standard output.
func TestCommandsDocumentChat(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "commands.md"))
	require.NoError(t, err)
	m := regexp.MustCompile("(?s)\n\\$ cat story.jinja\n(.*?)\\$ printf '(.*?)' \\| ferrumkv (chat .*?)\n(.*?)```").FindStringSubmatch(strings.ReplaceAll(string(text), "\r\n", "\n"))
	require.Len(t, m, 5)
	says(t, strings.ReplaceAll(m[2], `\n`, "\n"))
	args := words(m[3])
	args[slices.Index(args, "story.jinja")] = file(t, "story.jinja", m[1])
	r := succeeds(t, args...)
	var stdout, stderr string
	for line := range strings.Lines(m[4]) {
		if strings.HasPrefix(line, "[") {
			stderr += line
		} else {
			stdout += line
		}
	}
	require.Equal(t, stdout, r.stdout)
	require.Equal(t, speed.ReplaceAllString(stderr, ";"), speed.ReplaceAllString(r.stderr, ";"))
}

// What a sample of load names is what the command names.
func TestCommandsDocumentLoad(t *testing.T) {
	value := regexp.MustCompile(`(?m)^(\w+( \w+)?) {2,}\S.*$`) // names are before two blanks or more
	shown := 0
	for _, s := range samples(t, "commands.md") {
		if s.args[0] != "load" {
			continue
		}
		shown++
		at := slices.Index(s.args, "--duration")
		args := append(slices.Replace(s.args, at, at+2, "--requests", "2"), "--url", listens(t, &llm{hits: true}))
		require.Equal(t, value.ReplaceAllString(s.out, "$1"), value.ReplaceAllString(succeeds(t, args...).stdout, "$1"))
	}
	require.Equal(t, 1, shown, "samples of load")
}

// So it is for replay, where the trace is at hand.
func TestCommandsDocumentReplay(t *testing.T) {
	shown := 0
	for _, s := range samples(t, "commands.md") {
		if s.args[0] != "replay" {
			continue
		}
		shown++
		file := s.args[2]
		s.args[2] = external.Path(t, "traces", "mooncake", file)
		require.Equal(t, s.out, strings.ReplaceAll(succeeds(t, s.args...).stdout, s.args[2], file), s.args)
	}
	require.Equal(t, 3, shown, "samples of replay")
}
