package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/hybridgroup/yzma/pkg/llama"
	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/states"
)

// The tests run llama.cpp, on the demo model of the repository. Each process is this program of tests, as the example.
func TestMain(m *testing.M) {
	if os.Getenv("YZMA_TEST_RUN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

const scripts = "../../scripts/models"

// library finds llama.cpp's library, or has npm bring it, or skips the test.
func library(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the library of npm's package is that of linux/amd64")
	}
	if dir := os.Getenv("YZMA_LIB"); dir != "" {
		return dir
	}
	var why strings.Builder
	cmd := exec.Command(scripts + "/llamacpp.py")
	cmd.Stderr = &why
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 77 {
		t.Skip(why.String())
	}
	require.NoError(t, err, why.String())
	return strings.TrimSpace(string(out))
}

// demo writes the demo model of the repository as GGUF, or, with other weights, another model of its shape.
func demo(t *testing.T, otherWeights bool) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "demo.gguf")
	out, err := exec.Command(scripts+"/demo.py", path).CombinedOutput()
	require.NoError(t, err, string(out))
	if otherWeights {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		weights := b[len(b)/2:]
		for i := 1; i < len(weights); i += 64 { // the signs of some numbers in F16
			weights[i] ^= 0x80
		}
		require.NoError(t, os.WriteFile(path, b, 0o600))
	}
	return path
}

// ran is what a process printed.
type ran struct {
	text                       string
	prompt, restored, computed int // tokens
	report                     string
}

var counts = regexp.MustCompile(`^prompt of (\d+) tokens: (\d+) restored in \S+, (\d+) computed `)

// process runs the example in a process of its own.
func process(t *testing.T, lib, model, prompt string, n int, args ...string) (r ran) {
	t.Helper()
	args = append([]string{"-lib", lib, "-model", model, "-context", "1024", "-threads", "1", "-n", strconv.Itoa(n)}, args...)
	var report strings.Builder
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "YZMA_TEST_RUN=1")
	cmd.Stdin, cmd.Stderr = strings.NewReader(prompt), &report
	out, err := cmd.Output()
	require.NoError(t, err, report.String())
	r.text, r.report = strings.TrimSuffix(string(out), "\n"), report.String()
	m := counts.FindStringSubmatch(r.report)
	require.NotNil(t, m, r.report)
	for i, to := range []*int{&r.prompt, &r.restored, &r.computed} {
		*to, err = strconv.Atoi(m[i+1])
		require.NoError(t, err)
	}
	return r
}

const prompt = "Once upon a time"

// A second process goes on with the text of one that nothing interrupts, and computes only what is new.
func TestTwoProcesses(t *testing.T) {
	lib, model, dir := library(t), demo(t, false), filepath.Join(t.TempDir(), "states")
	whole := process(t, lib, model, prompt, 200)
	require.Len(t, whole.text, 200)
	require.Equal(t, [2]int{1 + len(prompt), 0}, [...]int{whole.prompt, whole.restored})

	first := process(t, lib, model, prompt, 120, "-states", dir)
	require.Equal(t, whole.text[:120], first.text)
	require.Zero(t, first.restored)
	second := process(t, lib, model, prompt+first.text, 80, "-states", dir)
	require.Equal(t, whole.text[120:], second.text)
	require.Equal(t, [2]int{1 + len(prompt) + 120 - 1, 1}, [...]int{second.restored, second.computed}, "but for the last token, whose logits are needed")

	// The next turn adds to it, and another one goes back into the middle.
	turn := "\nOne day, a dog came"
	for _, begin := range []string{prompt + whole.text, prompt + first.text[:70]} {
		r := process(t, lib, model, begin+turn, 20, "-states", dir)
		require.Equal(t, len(turn), r.computed)
		require.Equal(t, 1+len(begin), r.restored)
		require.Equal(t, process(t, lib, model, begin+turn, 20).text, r.text)
	}
}

// Of fifty conversations that begin with the same system prompt the one that goes on is found.
func TestNearestOfFifty(t *testing.T) {
	lib, model, dir := library(t), demo(t, false), filepath.Join(t.TempDir(), "states")
	e, err := newEngine(settings{library: lib, model: model, context: 1024, threads: 1, kv: "f16", flash: true})
	require.NoError(t, err)
	store, err := states.Open(dir, states.Options{Bytes: 64 << 20, Floor: 1, Network: true})
	require.NoError(t, err)
	system := strings.Repeat("Lily and Tom are friends. They play in the park with a red ball. ", 3)
	say := func(store *states.Store, text string) (string, answered) {
		var out bytes.Buffer
		a, err := answer(context.Background(), e, store, "", llama.Tokenize(e.vocab, text, true, true), 12, &out)
		require.NoError(t, err)
		return out.String(), a
	}
	var conversations []string
	for i := range 50 {
		text := fmt.Sprintf("%sDay %d. ", system, i)
		got, a := say(store, text)
		if i > 0 {
			require.GreaterOrEqual(t, a.restored, 1+len(system)+len("Day "), "the system prompt")
		}
		conversations = append(conversations, text+got)
	}
	require.Equal(t, 50, store.Stats().States)
	for _, i := range []int{49, 0, 7, 23} {
		text := conversations[i] + " Then"
		got, a := say(store, text)
		require.Equal(t, 1+len(conversations[i]), a.restored)
		want, b := say(nil, text)
		require.Zero(t, b.restored)
		require.Equal(t, want, got)
	}

	// Another process finds it, too, and of a conversation that nobody had what is the same.
	require.NoError(t, store.Close())
	r := process(t, lib, model, conversations[31]+" And", 12, "-states", dir)
	require.Equal(t, len(" And"), r.computed)
	r = process(t, lib, model, "And so on.", 12, "-states", dir)
	require.Equal(t, 1, r.restored, "the token that begins each text")
}

// A state of other weights, settings or people is a miss that names the field, and the text is what it is without.
func TestOthersStates(t *testing.T) {
	lib, model, other, dir := library(t), demo(t, false), demo(t, true), filepath.Join(t.TempDir(), "states")
	process(t, lib, model, prompt, 60, "-states", dir)
	for _, c := range []struct {
		name, model string
		args        []string
		says        string
	}{
		{"model", other, nil, "a stored one has model "},
		{"types", model, []string{"-kv", "q8_0"}, `a stored one has settings "K f16, V f16, flash attention true" and not "K q8_0, V q8_0, flash attention true"`},
		{"flash attention", model, []string{"-flash=false"}, `and not "K f16, V f16, flash attention false"`},
		{"salt", model, []string{"-salt", "someone"}, "there is no such state\n"},
	} {
		without := process(t, lib, c.model, prompt, 60, c.args...)
		r := process(t, lib, c.model, prompt, 60, append(c.args, "-states", dir)...)
		require.Zero(t, r.restored, c.name)
		require.Contains(t, r.report, c.says, c.name)
		require.Equal(t, without.text, r.text, c.name)
		r = process(t, lib, c.model, prompt, 60, append(c.args, "-states", dir)...)
		require.Equal(t, len(prompt), r.restored, "%s: its own", c.name)
		require.Equal(t, without.text, r.text, c.name)
	}
	plain, changed := process(t, lib, model, prompt, 60).text, process(t, lib, other, prompt, 60).text
	require.NotEqual(t, plain, changed, "the other model is another one")
}

// A state that is damaged, or that the context has no room for, costs time and nothing else.
func TestStatesThatDoNotServe(t *testing.T) {
	lib, model, dir := library(t), demo(t, false), filepath.Join(t.TempDir(), "states")
	long := process(t, lib, model, prompt, 300, "-states", dir)
	r := process(t, lib, model, prompt, 60, "-states", dir, "-context", "256")
	require.Zero(t, r.restored)
	require.Contains(t, r.report, "cannot load state")
	require.Equal(t, long.text[:60], r.text)

	damaged := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if info, _ := d.Info(); err == nil && info.Mode().IsRegular() && info.Size() > 16<<10 { // not an index
			damaged++
			err = os.Truncate(path, info.Size()-100)
		}
		return err
	}))
	require.NotZero(t, damaged)
	for _, restored := range []int{0, len(prompt)} { // the first run stores it anew
		r = process(t, lib, model, prompt, 60, "-states", dir)
		require.Equal(t, restored, r.restored)
		require.Equal(t, long.text[:60], r.text)
	}
}

func TestRefuses(t *testing.T) {
	lib, model := library(t), demo(t, false)
	foreign := filepath.Join(t.TempDir(), "foreign.gguf")
	require.NoError(t, os.WriteFile(foreign, []byte("GGUF"), 0o600))
	for says, args := range map[string][]string{
		`-kv "q4": it is f32, f16 or q8_0`:                         {"-lib", lib, "-model", model, "-kv", "q4"},
		"name the folder of llama.cpp's library":                   {"-lib", "", "-model", model},
		"is it a GGUF file":                                        {"-lib", lib, "-model", foreign},
		"an answer of 64: need at least 1 and together at most 32": {"-lib", lib, "-model", model, "-context", "32"},
		"libllama.so: no such file":                                {"-lib", t.TempDir(), "-model", model},
		"a budget of -1 bytes is negative":                         {"-lib", lib, "-model", model, "-states", filepath.Join(t.TempDir(), "d"), "-budget", "-1"},
		"flag provided but not defined: -temperature":              {"-temperature", "1"},
		"no-such.gguf: no such file":                               {"-lib", lib, "-model", "no-such.gguf"},
		"name a GGUF file by -model":                               {"-lib", lib},
	} {
		err := run(context.Background(), args, strings.NewReader(prompt), io.Discard, io.Discard)
		require.ErrorContains(t, err, says)
	}
}
