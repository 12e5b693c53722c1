package main

import (
	"bytes"
	"context"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// storyteller is the embedded model as a folder.
const storyteller = "../../testdata/model"

func TestBenchModel(t *testing.T) {
	r := succeeds(t, "bench", "-m", storyteller, "--backend", "counted", "--json", "-p", "0,300", "-n", "3", "-r", "2", "-t", "1", "--layout", "contiguous,paged", "--kv-dtype", "f32,int8")
	lines := jsonLines(t, r.stdout)
	require.Len(t, lines, 2*2*2, "layouts × types × tests")
	for i, l := range lines {
		require.Len(t, l, 11)
		require.Equal(t, []any{"model", "cpu", 1., 2.}, []any{l["model"], l["backend"], l["threads"], l["repetitions"]})
		require.Equal(t, []string{"pp300", "tg3"}[i%2], l["test"])
		require.Equal(t, []string{"f32", "int8"}[i/2%2], l["k_type"])
		require.Equal(t, []string{"contiguous", "paged"}[i/4], l["layout"])
		// Embeddings, which the output is tied to, 259 × 256; of 4 layers q and o, k and v of 2 of 4 heads, gate, up and down of 512, and norms.
		require.Equal(t, 259*256+4*(2*256*256+2*128*256+3*512*256+2*256)+256., l["parameters"])
		require.InDelta(t, 2*l["parameters"].(float64), l["size_bytes"], 1e4, "f16, and a header")
		require.Positive(t, l["tokens_per_second"])
		require.GreaterOrEqual(t, l["deviation"], 0.)
	}
	noLeftovers(t)
}

func TestBenchModelTable(t *testing.T) {
	lines := strings.Split(succeeds(t, "bench", "-m", storyteller, "-p", "5", "-n", "2", "-r", "1").stdout, "\n")
	require.Len(t, lines, 2+2+1)
	require.Regexp(t, `^\| model +\| +size \| +params \| backend +\| threads \| layout +\| K type +\| +test \| +t/s \|$`, lines[0])
	require.Regexp(t, `^\| -+ \| -+: \| -+: \| -+ \| -+: \| -+ \| -+ \| -+: \| -+: \|$`, lines[1])
	require.Regexp(t, `^\| model +\| +4\.6 MiB \| +2\.43 M \| cpu +\| +\d+ \| contiguous \| f16 +\| +pp5 \| +\d+\.\d\d ± 0\.00 \|$`, lines[2])
	for _, line := range lines[1:4] {
		require.Len(t, []rune(line), len(lines[0]), "columns line up")
	}
}

func TestMeanAndDeviation(t *testing.T) {
	mean, deviation := meanAndDeviation([]float64{2, 4, 4, 4, 5, 5, 7, 9})
	require.InDelta(t, 5, mean, 1e-12)
	require.InDelta(t, math.Sqrt(32./7), deviation, 1e-12)
	mean, deviation = meanAndDeviation([]float64{3})
	require.Equal(t, []float64{3, 0}, []float64{mean, deviation})
	require.Equal(t, []string{"0.24 M", "999.99 M", "6.74 B"}, []string{parameters(240_000), parameters(999_990_000), parameters(6_738_000_000)})
}

func TestBenchModelBadFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-p 5":                                   "--n-prompt: is for a --model\n",
		"-r 2":                                   "--repetitions: is for a --model\n",
		"-m " + storyteller + " --kernel attend": "--kernel: is for kernels, and not for a --model\n",
		"-m " + storyteller + " --batch 2":       "--batch: is for kernels",
		"-m " + storyteller + " -r 0":            "--repetitions 0: need at least 1",
		"-m " + storyteller + " -p 0 -n 0":       "--n-prompt and --n-gen: are both 0, which leaves nothing to measure\n",
		"-m " + storyteller + " -p -1":           "--n-prompt and --n-gen: accept numbers from 0 on, and not -1",
		"-m " + storyteller + " -n 1025":         "tg1025: the model was made for 1024 tokens",
		"-m " + storyteller + " --kv-dtype foo":  "--kv-dtype foo: cpu holds keys and values in f32",
		"-m no/such/model":                       "no/such/model: ",
	} {
		fails(t, append([]string{"bench"}, strings.Fields(args)...), want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitInterrupted, run(ctx, []string{"bench", "-m", storyteller}, &stdout, &stderr))
	require.Equal(t, "ferrumkv: interrupted\n", stderr.String())
}
