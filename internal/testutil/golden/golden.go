// Package golden runs scripts of tests and compares what they print with what stands in
// the script. A script is a text file that can be read and reviewed: cases, a blank line
// between two of them, each of commands and, after a line of four dashes, what they print:
//
//	# four tokens a block
//	open a
//	step a=1-6
//	----
//	a: 6 tokens in blocks 0 1
//
// A line that begins with # is a comment. With FERRUM_TEST_GOLDEN=write in the environment what
// commands print now is written into the script instead; git shows what has changed.
package golden

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// Env is the variable that has scripts rewritten where its value is "write".
const Env = "FERRUM_TEST_GOLDEN"

// Command is a line of a script.
type Command struct {
	Name string
	Args []Arg
}

// Arg is a word of a command, "key=value" or a key alone.
type Arg struct{ Key, Value string }

// Run runs a script of a folder, which tests embed: their programs may run where there are no
// sources. It is written where it was read from, as seen from the package of the test. do
// returns what a command prints, whole lines or nothing.
func Run(t *testing.T, folder fs.FS, path string, do func(t testing.TB, c Command) string) {
	t.Helper()
	was, err := fs.ReadFile(folder, path)
	if err != nil {
		t.Fatal(err)
	}
	now, diffs := rewrite(string(was), func(c Command) string { return do(t, c) })
	switch {
	case len(diffs) == 0:
	case os.Getenv(Env) != "write":
		for _, diff := range diffs {
			t.Errorf("%s:%s", path, diff)
		}
		t.Errorf("%s=write go test writes %s anew", Env, path)
	default:
		if err := os.WriteFile(path, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const dashes = "----"

// rewrite is the script with what commands print now, and what differs, each with its line.
func rewrite(script string, do func(c Command) string) (now string, diffs []string) {
	var out strings.Builder
	lines := strings.Split(strings.TrimRight(script, "\n"), "\n")
	printed := ""
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if line != dashes {
			out.WriteString(line + "\n")
			if c, ok := parse(line); ok {
				printed += do(c)
			}
			continue
		}
		begin := i + 1
		for i+1 < len(lines) && lines[i+1] != "" {
			i++
		}
		if want := strings.Join(append(lines[begin:i+1:i+1], ""), "\n"); want != printed {
			diffs = append(diffs, fmt.Sprintf("%d: printed\n%swhere the script has\n%s", begin+1, printed, want))
		}
		out.WriteString(dashes + "\n" + printed)
		printed = ""
	}
	if printed != "" { // at the end, without dashes
		diffs = append(diffs, fmt.Sprintf("%d: printed\n%swhere the script has no %s", len(lines), printed, dashes))
		out.WriteString(dashes + "\n" + printed)
	}
	return out.String(), diffs
}

func parse(line string) (c Command, ok bool) {
	words := strings.Fields(line)
	if len(words) == 0 || strings.HasPrefix(line, "#") {
		return c, false
	}
	c.Name = words[0]
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		c.Args = append(c.Args, Arg{key, value})
	}
	return c, true
}
