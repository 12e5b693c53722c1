package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHelp(t *testing.T) {
	root := succeeds(t).stdout
	require.Equal(t, root, succeeds(t, "--help").stdout, "no command shows the help")
	for _, name := range []string{"generate", "chat", "doctor", "bench", "replay", "load", "quality"} {
		require.Contains(t, root, name)
		require.Contains(t, succeeds(t, name, "--help").stdout, "Examples:\n")
	}
}

// The flags are a promise to scripts: a name that goes away is noticed here.
func TestFlags(t *testing.T) {
	for command, flags := range map[string]string{
		"generate":     "model tokenizer prompt file context max-tokens temperature top-k top-p min-p repeat-penalty repeat-last-n seed stop backend layout block-size kv-dtype residual hadamard skip-layers threads json",
		"chat":         "model tokenizer template system max-tokens temperature seed stop context backend layout kv-dtype host-bytes disk save resume secret json",
		"tokenize":     "model tokenizer ids json",
		"cache list":   "disk json",
		"cache clear":  "disk unused keep",
		"states list":  "secret json",
		"states clear": "secret unused salt",
		"doctor":       "json backend layers q-heads kv-heads head-dim layout block-size kv-dtype residual hadamard skip-layers",
		"bench":        "model n-prompt n-gen repetitions kernel kv-dtype layout batch context q-heads kv-heads head-dim block-size threads backend time footprint json",
		"quality":      "model tokenizer text json format policy budget svg backend threads",
		"load":         "url model api-key-env api-key-file chat token-ids ignore-eos trace speed rate concurrency requests duration scale max-prompt max-tokens seed objective timeout json html system-prompts conversations turns scans",
		"replay":       "trace capacity policy json html seed requests system-prompts conversations turns scans",
	} {
		help := succeeds(t, append(strings.Fields(command), "--help")...).stdout
		for _, flag := range strings.Fields(flags) {
			require.Regexp(t, `\n +(-\w, )?--`+flag+`\b`, help)
		}
	}
}

func TestVersion(t *testing.T) {
	r := succeeds(t, "version")
	require.Regexp(t, `^ferrumkv \S+ go1\.\S+ \w+/\w+\n$`, r.stdout)
	require.Equal(t, r, succeeds(t, "--version"))
}

func TestUnknownCommand(t *testing.T) {
	fails(t, []string{"frobnicate"}, `unknown command "frobnicate"; see`, "ferrumkv --help")
	fails(t, []string{"generat"}, `unknown command "generat" (did you mean generate?); see`)
	require.NotContains(t, fails(t, []string{"render-chat-templat"}, `unknown command`).stderr, "did you mean", "it is hidden")
	fails(t, []string{"docter"}, `did you mean doctor?`)
	fails(t, []string{"inspect"}, "need exactly one FILE, a snapshot that generate --save wrote, or one DIR; see 'ferrumkv inspect --help'")
	fails(t, []string{"version", "7"}, `unknown argument "7"`)
}

// A slip of the keyboard is two edits away, and nothing is suggested for a word that only has some letters in common.
func TestClosest(t *testing.T) {
	names := []string{"prompt", "top-p", "max-tokens", "n", "json"}
	for word, want := range map[string]string{"promt": "prompt", "pormpt": "prompt", "max": "max-tokens", "maxtokens": "max-tokens", "jsno": "", "jso": "json", "x": "", "": "", "topp": "top-p", "frob": ""} {
		require.Equal(t, want, closest(word, names), word)
	}
	for words, want := range map[[2]string]int{{"", ""}: 0, {"", "abc"}: 3, {"abc", ""}: 3, {"kitten", "sitting"}: 3, {"flaw", "lawn"}: 2, {"same", "same"}: 0} {
		require.Equal(t, want, edits(words[0], words[1]), "%v", words)
	}
}

// What looks like one of our variables and is none is named; those of tests are not.
func TestUnknownVariables(t *testing.T) {
	require.Equal(t, []string{"FERRUM_FOO is not a variable of this program", "FERRUM_KV_CPACITY is not a variable of this program (did you mean FERRUM_KV_CAPACITY?)"},
		unknownVariables([]string{"FERRUM_KV_CPACITY=1", "FERRUM_FOO=", "FERRUM_KV_CAPACITY=3", "FERRUM_TEST_DATA=x", "FERRUM_SIMT_SEED=1", "HOME=/", "FERRUMKV=1"}))
	for _, command := range []string{"generate", "doctor", "bench", "quality"} {
		cmd := program(t, []string{"FERRUM_KV_DTYP=f16"}, command, "--backend", "none")
		var stderr strings.Builder
		cmd.Stderr = &stderr
		require.Error(t, cmd.Run())
		require.True(t, strings.HasPrefix(stderr.String(), "note: FERRUM_KV_DTYP is not a variable of this program (did you mean FERRUM_KV_DTYPE?)\n"), &stderr)
	}
}

// The variables that the program knows are those that are documented.
func TestVariablesAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "environment.md"))
	require.NoError(t, err)
	library, tests, found := strings.Cut(string(text), "\n## Of tests\n")
	require.True(t, found)
	row := regexp.MustCompile("(?m)^\\| `(FERRUM_[A-Z0-9_]+)`")
	names := func(text string) (out []string) {
		for _, match := range row.FindAllStringSubmatch(text, -1) {
			out = append(out, match[1])
		}
		return out
	}
	require.ElementsMatch(t, variables, names(library))
	require.NotEmpty(t, names(tests))
	require.Empty(t, unknownVariables(names(tests)))
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
	long := strings.Repeat("x", 40)
	require.Equal(t, "  of "+long+", "+long+",\n    "+long+", a", wrapped("  of ", []string{long, long, long, "a"}, 4))
	require.Equal(t, "  of ", wrapped("  of ", nil, 4))
}
