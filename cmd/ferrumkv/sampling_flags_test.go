package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A text ends before a stop string, streamed or in a batch, and a turn goes on from there.
func TestGenerateStop(t *testing.T) {
	const text = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park."
	r := succeeds(t, "generate", "--stop", "girl na", "--stop", "outside")
	require.Equal(t, "Once upon a time, there was a little \n", r.stdout, "of two, the one that comes first")
	require.Equal(t, text[:len(text)-1]+"\n", succeeds(t, "generate", "--stop", ".  ", "--stop", " One day", "--max-tokens", "75").stdout, "max tokens come before the end of a stop string")
	lines := jsonLines(t, succeeds(t, "generate", "--json", "--max-tokens", "40", "--stop", "Lily", "--prompt", "Once upon a time", "--prompt", "The big dog").stdout)
	require.Equal(t, ", there was a little girl named ", lines[0]["text"])
	require.Equal(t, "stop", lines[0]["stop"])
	require.Equal(t, "length", lines[1]["stop"])
	turns := jsonLines(t, succeeds(t, "generate", "--json", "--max-tokens", "40", "--stop", "Lily", "--turn", "Tom.").stdout)[0]["turns"].([]any)[0].(map[string]any)
	whole := succeeds(t, "generate", "--max-tokens", "40", "--prompt", "Once upon a time, there was a little girl named Tom.").stdout
	require.Equal(t, whole, "Once upon a time, there was a little girl named Tom."+turns["text"].(string)+"\n")
	fails(t, []string{"generate", "--stop", ""}, "--stop: is empty")
}

// The filters reach the sampler, and a resumed text keeps them.
func TestGenerateFilters(t *testing.T) {
	greedy := succeeds(t, "generate", "--max-tokens", "30").stdout
	for _, one := range []string{"--top-k 1", "--min-p 1", "--top-p 0.0001"} {
		require.Equal(t, greedy, succeeds(t, append([]string{"generate", "--max-tokens", "30", "--temperature", "1"}, strings.Fields(one)...)...).stdout, one)
	}
	require.NotEqual(t, greedy, succeeds(t, "generate", "--max-tokens", "30", "--repeat-penalty", "3").stdout)
	require.Equal(t, greedy, succeeds(t, "generate", "--max-tokens", "30", "--repeat-penalty", "3", "--repeat-last-n", "0").stdout)
	file := filepath.Join(t.TempDir(), "x.snap")
	args := strings.Fields("generate --temperature 1.2 --top-k 12 --top-p 0.95 --min-p 0.02 --repeat-penalty 1.3 --repeat-last-n 20 --seed 4 --max-tokens")
	whole := succeeds(t, append(args, "60")...).stdout
	first := succeeds(t, append(args, "25", "--save", file)...).stdout
	second := succeeds(t, "generate", "--resume", file, "--max-tokens", "35").stdout
	require.Equal(t, whole, strings.TrimSuffix(first, "\n")+second)
	noted := succeeds(t, "generate", "--max-tokens", "2", "--top-k", "5", "--min-p", "0.1").stderr
	require.Contains(t, noted, "note: --top-k does nothing at temperature 0, which takes the likeliest token\nnote: --min-p does")
	for _, c := range [][2]string{{"--top-k -1", "--top-k -1: accepts"}, {"--min-p 2", "--min-p 2: accepts 0 to 1"}, {"--repeat-penalty -1", "--repeat-penalty -1: accepts"},
		{"--repeat-last-n -2", "--repeat-last-n -2: accepts"}, {"--guesses 3 --repeat-penalty 1.1", "--guesses 3: what is guessed"}} {
		fails(t, append([]string{"generate"}, strings.Fields(c[0])...), c[1])
	}
}
