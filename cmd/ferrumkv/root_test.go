package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHelp(t *testing.T) {
	root := succeeds(t).stdout
	require.Equal(t, root, succeeds(t, "--help").stdout, "no command shows the help")
	for _, name := range []string{"generate", "doctor", "bench", "replay", "quality"} {
		require.Contains(t, root, name)
		require.Contains(t, succeeds(t, name, "--help").stdout, "Examples:\n")
	}
}

// The flags are a promise to scripts: a name that goes away is noticed here.
func TestFlags(t *testing.T) {
	for command, flags := range map[string]string{
		"generate": "model tokenizer prompt max-tokens temperature top-p seed backend layout block-size kv-dtype residual hadamard skip-layers threads json",
		"doctor":   "json backend layers q-heads kv-heads head-dim layout block-size kv-dtype residual hadamard skip-layers",
		"bench":    "kernel kv-dtype layout batch context q-heads kv-heads head-dim block-size threads backend time footprint json",
		"quality":  "model tokenizer text json format policy budget svg backend threads",
		"replay":   "trace capacity policy json html seed requests system-prompts conversations turns scans",
	} {
		help := succeeds(t, command, "--help").stdout
		for _, flag := range strings.Fields(flags) {
			require.Regexp(t, `\n +--`+flag+`\b`, help)
		}
	}
}

func TestVersion(t *testing.T) {
	r := succeeds(t, "version")
	require.Regexp(t, `^ferrumkv \S+ go1\.\S+ \w+/\w+\n$`, r.stdout)
	require.Equal(t, r, succeeds(t, "--version"))
}

func TestUnknownCommand(t *testing.T) {
	fails(t, []string{"frobnicate"}, `unknown command "frobnicate"`, "ferrumkv --help")
	fails(t, []string{"version", "7"}, `unknown argument "7"`)
}

func TestProgressIsForTerminals(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer null.Close()
	require.False(t, isTerminal(null), "the null device is a character device, and no terminal")
	file, err := os.Create(t.TempDir() + "/log")
	require.NoError(t, err)
	defer file.Close()
	require.False(t, isTerminal(file))

	var shown strings.Builder
	newProgress(&shown).show("%d", 1)
	require.Empty(t, shown.String())
	p := &progress{out: &shown}
	p.show("12 tokens")
	p.show("9")
	p.clear()
	p.clear()
	require.Equal(t, "\r12 tokens\r9        \r \r", shown.String())
}

func TestUnits(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1 << 20: "1.0 MiB", 3 << 29: "1.5 GiB", 1 << 62: "4096.0 PiB"} {
		require.Equal(t, want, byteSize(n))
	}
	for s, want := range map[float64]string{2: "2 s", 0.0123: "12.3 ms", 0.5e-3: "500 µs"} {
		require.Equal(t, want, seconds(s))
	}
	require.Equal(t, []string{"0 tokens", "1 token", "2 tokens"}, []string{count(0, "token"), count(1, "token"), count(2, "token")})
	require.Zero(t, perSecond(5, 0))
}
