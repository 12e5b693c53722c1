package golden

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// echo prints a command's arguments, a line each.
func echo(c Command) string {
	var out strings.Builder
	for _, a := range c.Args {
		fmt.Fprintf(&out, "%s: %q is %q\n", c.Name, a.Key, a.Value)
	}
	return out.String()
}

const script = `# what goes before
say a=1 b

quiet
say c=d=e
----
say: "a" is "1"
say: "b" is ""
say: "c" is "d=e"

# the end
quiet
----
`

func TestRewrite(t *testing.T) {
	now, diffs := rewrite(script, echo)
	require.Empty(t, diffs)
	require.Equal(t, script, now)

	stale := strings.Replace(script, `"a" is "1"`, `"a" is "2"`, 1)
	now, diffs = rewrite(stale, echo)
	require.Equal(t, script, now)
	require.Len(t, diffs, 1)
	require.Contains(t, diffs[0], "7: printed\nsay: \"a\" is \"1\"\n")
	require.Contains(t, diffs[0], "where the script has\nsay: \"a\" is \"2\"\n")

	now, diffs = rewrite("say x\n", echo)
	require.Len(t, diffs, 1, "what is printed and not expected")
	require.Equal(t, "say x\n----\nsay: \"x\" is \"\"\n", now)
	_, diffs = rewrite(now, echo)
	require.Empty(t, diffs)
}

func TestRunWrites(t *testing.T) {
	t.Chdir(t.TempDir())
	const path = "script.txt"
	folder := os.DirFS(".")
	require.NoError(t, os.WriteFile(path, []byte("say x\n----\n"), 0o644))
	t.Setenv(Env, "write")
	Run(t, folder, path, func(_ testing.TB, c Command) string { return echo(c) })
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "say x\n----\nsay: \"x\" is \"\"\n", string(data))
	t.Setenv(Env, "")
	Run(t, folder, path, func(_ testing.TB, c Command) string { return echo(c) })
}
