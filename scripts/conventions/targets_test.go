package conventions

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Documents and issue forms name targets of make that there are.
func TestMakeTargets(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	targets := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(string(makefile), -1) {
		targets[m[1]] = true
	}
	use := regexp.MustCompile("(?m)(?:`|^|label: )(?:[A-Z]+=[^ `]+ )*make ([a-z][a-z0-9-]*)(?:[^a-z0-9{-]|$)") // a brace: of a template
	used := 0
	documents(t, func(name, text string) {
		if path.Ext(name) == ".yml" && !strings.HasPrefix(name, ".github/ISSUE_TEMPLATE/") {
			return
		}
		for _, m := range use.FindAllStringSubmatch(text, -1) {
			require.True(t, targets[m[1]], "%s: make %s", name, m[1])
			used++
		}
	}, ".md", ".yml")
	require.Greater(t, used, 30)
}

// A recipe that make does not print is announced if it takes long, except those that print by themselves.
func TestRecipesSayWhatTheyDo(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	speaks := regexp.MustCompile(`^\t@(awk|echo|test|mkdir|sed|unformatted=|for platform|\./\$\(BIN\)|RESULTS=\S+ build/bundle-cuda/run|\$\(GO\) (run \./(scripts/checks|cmd/internal/benchpage)|tool cover)|GO='\$\(GO\)' FUZZTIME=)`)
	said := 0
	for line := range strings.Lines(string(makefile)) {
		said += strings.Count(line, "\t$(SAY) ")
		if strings.HasPrefix(line, "\t@") {
			require.Regexp(t, speaks, line, "in silence for long? $(SAY)")
		}
	}
	require.Greater(t, said, 15)
}

// A signal ends the command and is its status, and nothing is printed after that.
func TestAnnounceEnds(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	announce, err := filepath.Abs("../../scripts/announce")
	require.NoError(t, err)
	for signal, name := range map[os.Signal]string{os.Interrupt: "INT", os.Kill: "KILL"} {
		cmd := exec.Command(announce, "60", "building", "sh", "-c", "echo begun; exec sleep 60")
		cmd.Stderr = new(strings.Builder) // which Wait reads to its end
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = out.Read(make([]byte, 6))
		require.NoError(t, err)
		begin := time.Now()
		require.NoError(t, cmd.Process.Signal(signal))
		require.Error(t, cmd.Wait(), name)
		require.Empty(t, cmd.Stderr.(*strings.Builder).String(), name)
		require.Less(t, time.Since(begin), 30*time.Second, "%s ends the command, not the script alone", name)
	}
}

// The announcement comes on stderr after a time, unless the command is done by then; the status is the command's.
func TestAnnounce(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	announce, err := filepath.Abs("../../scripts/announce")
	require.NoError(t, err)
	for _, c := range []struct {
		after, command, out, log string
		status                   int
	}{
		{"0", "until test -s log; do sleep 0.05; done; echo text; exit 3", "text\n", "building\n", 3},
		{"3600", "echo text", "text\n", "", 0},
		{"3600", "echo wrong >&2; exit 7", "", "wrong\n", 7},
	} {
		cmd := exec.Command(announce, c.after, "building", "sh", "-c", c.command)
		cmd.Dir = t.TempDir()
		log, err := os.Create(filepath.Join(cmd.Dir, "log"))
		require.NoError(t, err)
		cmd.Stderr = log
		out, _ := cmd.Output() // which ends with the command
		require.NoError(t, log.Close())
		text, err := os.ReadFile(log.Name())
		require.NoError(t, err)
		require.Equal(t, []any{c.out, c.log, c.status}, []any{string(out), string(text), cmd.ProcessState.ExitCode()}, c.command)
	}
}
