package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
	"github.com/stretchr/testify/require"
)

// A text in two runs is that of one, greedy and sampled, whichever layouts the two have; so is that of several.
func TestGenerateSaveAndResume(t *testing.T) {
	file := filepath.Join(t.TempDir(), "story.snap")
	for _, sampling := range []string{"", "--temperature 0.9 --top-p 0.95 --seed 5"} {
		for _, layouts := range [][2]string{{"", "--layout paged"}, {"--layout paged --block-size 8", "--layout paged --block-size 32"}, {"--layout paged", ""}} {
			run := func(args ...string) string {
				return strings.TrimSuffix(succeeds(t, append([]string{"generate"}, strings.Fields(strings.Join(args, " "))...)...).stdout, "\n")
			}
			whole := run("--max-tokens 60", sampling)
			first := run("--max-tokens 25 --save", file, sampling, layouts[0])
			second := run("--max-tokens 20 --resume", file, "--save", file, layouts[1])
			third := run("--max-tokens 15 --resume", file, layouts[0])
			require.Equal(t, whole, first+second+third, "%s %v", sampling, layouts)
		}
	}
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm()&0o077)

	batch := []string{"generate", "--json", "--prompt", lily, "--prompt", "The big dog", "--prompt", "The big dog", "--temperature", "0.5"}
	whole := jsonLines(t, succeeds(t, append(batch, "--max-tokens", "30")...).stdout)
	first := jsonLines(t, succeeds(t, append(batch, "--max-tokens", "18", "--save", file)...).stdout)
	second := jsonLines(t, succeeds(t, "generate", "--json", "--max-tokens", "12", "--resume", file).stdout)
	for i := range 3 {
		require.Equal(t, whole[i]["text"], first[i]["text"].(string)+second[i]["text"].(string))
		require.EqualValues(t, 1, second[i]["prompt_tokens"].(float64)-second[i]["reused_tokens"].(float64), "only what is new is computed")
	}

	shown := succeeds(t, "inspect", file).stdout
	for _, line := range []string{"snapshot     version 1, ", "sequence 3   ", "tokens\n", `note         "github.com/ferrumkv/ferrumkv/cmd/ferrumkv generate"`} {
		require.Contains(t, shown, line)
	}
	require.NotContains(t, shown, "activation")
	require.Contains(t, succeeds(t, "inspect", file, "--content").stdout, "\nactivation ")
	require.Len(t, jsonLines(t, succeeds(t, "inspect", file, "--json").stdout)[0]["sequences"], 3)
}

// What cannot be saved or resumed is an error that says why, and an older file stays.
func TestGenerateSaveErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "x.snap")
	fails(t, []string{"generate", "--save", filepath.Join(dir, "none", "x")}, "there is no directory")
	fails(t, []string{"generate", "--resume", file}, "no such file")
	notes := filepath.Join(dir, "notes.txt")
	for _, text := range []string{"my notes", "x"} { // found out before a text is computed
		require.NoError(t, os.WriteFile(notes, []byte(text), 0o600))
		r := fails(t, []string{"generate", "--save", notes}, "--save "+notes+": is there and no snapshot; name another file, or remove it")
		require.Empty(t, r.stdout)
	}
	if closed := filepath.Join(dir, "closed"); runtime.GOOS == "linux" {
		require.NoError(t, os.Mkdir(closed, 0o500))
		if os.Geteuid() == 0 {
			closed = "/proc"
		}
		r := fails(t, []string{"generate", "--save", filepath.Join(closed, "x")}, "--save "+closed+"/x: nothing can be written there: ")
		require.Empty(t, r.stdout)
	}
	fails(t, []string{"generate", "--resume", file, "--prompt", "x"}, "--prompt: the file of --resume has it")
	fails(t, []string{"generate", "--save", file, "--turn", "x"}, "--turn: cannot be used with")
	if runtime.GOOS != "windows" {
		fails(t, []string{"generate", "--save", os.DevNull}, "only a regular file can be replaced")
	}
	succeeds(t, "generate", "--max-tokens", "5", "--save", file)
	fails(t, []string{"generate", "--resume", file, "--kv-dtype", "int8"}, "has keys in f16, and the cache of this run is to hold them in int8; resume with --kv-dtype f16\n")
	fails(t, []string{"generate", "--resume", file, "-c", "5"}, "--resume "+file+": has 21 tokens, more than the room of 5; raise --context\n")
	for field, want := range map[string]string{
		"model": "--resume x: is of another model, or of other weights of it; resume with the --model that it was saved with",
		"flags": "--resume x: snapshot: mismatch: flags is a in the snapshot, and here b; resume with the flags that it was saved with",
	} {
		require.EqualError(t, (&saves{resume: "x"}).resumeError(snapshot.ErrMismatch{Field: field, Layer: -1, Have: "a", Want: "b"}), want)
	}
	stream, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, append(stream, 0), 0o600))
	fails(t, []string{"inspect", file}, "something follows the snapshot")
	stream[len(stream)/2] ^= 1
	require.NoError(t, os.WriteFile(file, stream, 0o600))
	for _, command := range [][]string{{"generate", "--resume", file}, {"inspect", file}} {
		fails(t, command, "snapshot: corrupt: section \"CHNK\"")
	}
}

// At the end of the capacity nothing is left to say, in one run as in two.
func TestGenerateResumeAtCapacity(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.snap")
	run := func(args ...string) string {
		out, err := program(t, []string{config.EnvCapacity + "=64"}, append([]string{"generate"}, args...)...).Output()
		require.NoError(t, err)
		return strings.TrimSpace(string(out))
	}
	require.Equal(t, run("--max-tokens", "500"), run("--max-tokens", "500", "--save", file))
	require.Empty(t, run("--max-tokens", "5", "--resume", file, "--save", file))
	require.Equal(t, "capacity", jsonLines(t, run("--json", "--resume", file))[0]["stop"])
}

// With the secret a sealed text is continued, and the blocks of a sealed disk are found; without it neither is possible.
func TestGenerateSealed(t *testing.T) {
	dir := t.TempDir()
	file, key, other := filepath.Join(dir, "x.snap"), filepath.Join(dir, "key"), filepath.Join(dir, "other")
	require.NoError(t, os.WriteFile(key, bytes.Repeat([]byte{7}, 32), 0o600))
	require.NoError(t, os.WriteFile(other, bytes.Repeat([]byte{8}, 32), 0o600))
	whole := strings.TrimSuffix(succeeds(t, "generate", "--max-tokens", "30").stdout, "\n")
	first := strings.TrimSuffix(succeeds(t, "generate", "--max-tokens", "10", "--save", file, "--compress", "--secret", key).stdout, "\n")
	second := strings.TrimSuffix(succeeds(t, "generate", "--max-tokens", "20", "--resume", file, "--secret", key).stdout, "\n")
	require.Equal(t, whole, first+second)
	stream, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, string(stream), "ferrumkv")
	require.Contains(t, succeeds(t, "inspect", file, "--secret", key).stdout, ", sealed, and whole\n")
	for i, args := range [][]string{{}, {"--secret", other}} {
		why := []string{"is sealed; name the secret that it was saved with by --secret", "was sealed with another secret than that of --secret"}[i]
		fails(t, append([]string{"generate", "--resume", file}, args...), "--resume "+file+": "+why+"\n")
		fails(t, append([]string{"inspect", file}, args...), "secret")
	}
	tiers := filepath.Join(dir, "tiers")
	for _, reuses := range []bool{false, true} {
		report := jsonLines(t, succeeds(t, "generate", "--json", "--disk", tiers, "--secret", key, "--max-tokens", "2", "--prompt", lily).stdout)[0]
		require.Equal(t, reuses, report["reused_tokens"].(float64) > 0)
	}
	fails(t, []string{"generate", "--disk", tiers, "--secret", other}, "secret")

	fails(t, []string{"generate", "--secret", key}, "is for --save, --resume and --disk")
	fails(t, []string{"generate", "--compress"}, "--compress: is for --save")
	require.NoError(t, os.WriteFile(other, []byte("short"), 0o600))
	fails(t, []string{"generate", "--save", file, "--secret", other}, "need 32 random bytes")
	fails(t, []string{"generate", "--save", file, "--secret", filepath.Join(dir, "none")}, "no such file")
	if runtime.GOOS != "windows" {
		require.NoError(t, os.Chmod(key, 0o640))
		fails(t, []string{"generate", "--save", file, "--secret", key}, "others may use it (mode 0640)")
	}
}

// What Ctrl-C cuts short is saved, and goes on as if nothing had happened.
func TestGenerateInterruptedIsSaved(t *testing.T) {
	for _, args := range []string{"", "--temperature 0.9 --seed 5 --layout paged", "--guesses 4"} {
		snap := filepath.Join(t.TempDir(), "x.snap")
		command := append([]string{"generate"}, strings.Fields(args)...)
		ctx, cancel := context.WithCancel(t.Context())
		out, stderr := &interrupter{cancel: cancel}, &bytes.Buffer{}
		require.Equal(t, exitInterrupted, run(ctx, append(command, "--save", snap), out, stderr))
		require.Contains(t, stderr.String(), "note: saved to "+snap+" what there is; --resume goes on from there\n")
		rest := succeeds(t, "generate", "--resume", snap, "--max-tokens", "30").stdout
		whole := succeeds(t, command...).stdout
		first := strings.TrimSuffix(string(out.seen), "\n")
		require.Equal(t, whole[:len(first)+30], first+strings.TrimSuffix(rest, "\n"), args)
	}
}

// -1 and 0 are no bound: a text goes on to its end, or the model's context.
func TestGenerateUnbounded(t *testing.T) {
	whole := succeeds(t, "generate", "-n", "1024").stdout
	require.Greater(t, len(whole), defaultMaxTokens+50)
	for _, n := range []string{"-1", "0"} {
		require.Equal(t, whole, succeeds(t, "generate", "-n", n).stdout)
	}
}

// remover removes a folder at the first write.
type remover struct{ dir string }

func (r remover) Write(p []byte) (int, error) { return len(p), os.RemoveAll(r.dir) }

// A text that cannot be saved has ended all the same.
func TestGenerateSaveFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	require.NoError(t, os.Mkdir(dir, 0o700))
	var stderr bytes.Buffer
	require.Equal(t, exitError, run(t.Context(), []string{"generate", "--max-tokens", "5", "--save", filepath.Join(dir, "x.snap")}, remover{dir}, &stderr))
	require.Contains(t, stderr.String(), "\nended    at --max-tokens 5\n")
	require.Regexp(t, `\nferrumkv: --save .*: no such file or directory\n$`, stderr.String())

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stderr.Reset()
	require.Equal(t, exitInterrupted, run(ctx, []string{"generate", "--save", filepath.Join(t.TempDir(), "x.snap")}, &stderr, &stderr))
	require.Contains(t, stderr.String(), "note: not saved: --save ")
}
