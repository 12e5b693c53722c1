package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// small keeps a run of bench short: tiny shapes, and as many rounds as there must be.
var small = []string{"bench", "--time", "1ms", "--footprint", "1", "--context", "96", "--q-heads", "4", "--kv-heads", "2", "--head-dim", "32"}

func TestBenchJSON(t *testing.T) {
	r := succeeds(t, append(small, "--json", "--backend", "cpu", "--kv-dtype", "f32,fp16", "--block-size", "16,64", "--threads", "1")...)
	require.Empty(t, r.stderr)
	lines := jsonLines(t, r.stdout)
	require.Len(t, lines, 3*2*(1+2), "kernels × types × (contiguous and two block sizes)")
	bytes := map[string]float64{
		"attend f32": 96 * 2 * 2 * 32 * 4, "prefill f32": 96 * 2 * 2 * 32 * 4, "append f32": 96 * 2 * 2 * 32 * (4 + 4),
		"attend f16": 96 * 2 * 2 * 32 * 2, "prefill f16": 96 * 2 * 2 * 32 * 2, "append f16": 96 * 2 * 2 * 32 * (2 + 2),
	}
	for _, l := range lines {
		require.Len(t, l, 15)
		require.Equal(t, bytes[l["kernel"].(string)+" "+l["dtype"].(string)], l["bytes"])
		require.Equal(t, []any{1., 96., 4., 2., 32., 1.}, []any{l["batch"], l["context"], l["q_heads"], l["kv_heads"], l["head_dim"], l["threads"]})
		require.Equal(t, l["layout"] == "contiguous", l["block_size"] == 0.)
		require.Positive(t, l["seconds"])
		require.InEpsilon(t, l["bytes"].(float64)/l["seconds"].(float64)/1e9, l["gbps"], 1e-9)
		require.InEpsilon(t, l["gbps"].(float64)/l["limit_gbps"].(float64), l["fraction"], 1e-9)
	}
}

func TestBenchTable(t *testing.T) {
	lines := strings.Split(succeeds(t, append(small, "--backend", "counted", "--batch", "2")...).stdout, "\n")
	require.Len(t, lines, 1+3*2+1)
	require.Regexp(t, `^kernel +dtype +layout .* fraction$`, lines[0])
	for i, want := range []string{"attend", "prefill", "append", "attend", "prefill", "append"} {
		require.Regexp(t, `^`+want+` +f16 .*%$`, lines[1+i])
		require.Len(t, []rune(lines[1+i]), len(lines[0]), "columns line up")
	}
	noLeftovers(t)
}

func TestBenchBadFlags(t *testing.T) {
	for args, want := range map[string][]string{
		"--kernel copy":                            {"--kernel copy", "attend, prefill and append"},
		"--kv-dtype f64":                           {"--kv-dtype f64", "f32"},
		"--kv-dtype int8":                          {"--kv-dtype int8", "f32, f16, bf16"},
		"--layout round":                           {"--layout round", "contiguous and paged"},
		"--context 0":                              {"--context 0", "1 to"},
		"--batch -1":                               {"--batch -1"},
		"--context 4294967296":                     {"--context"},
		"--context x":                              {"--context x: accepts whole numbers with commas between them"},
		"--q-heads 3 --kv-heads 2":                 {"--q-heads 3", "multiple of --kv-heads 2"},
		"--layout paged --block-size 24":           {"--block-size 24", "power of two"},
		"--layout paged --block-size 0":            {"--block-size 0", "power of two"},
		"--batch 2000000000 --context 2000000000":  {"overflow"},
		"--batch 10000 --context 10000000":         {"--batch 10000 --context 10000000", "TiB", "to spare"},
		"--kv-dtype foo":                           {"--kv-dtype foo: cpu holds keys and values in f32, f16, bf16, int8"},
		"--time 0":                                 {"--time 0s: need more than 0"},
		"--time -1s":                               {"--time -1s: need more than 0"},
		"--footprint 0":                            {"--footprint 0"},
		"--backend vulkan":                         {"vulkan is not available"},
		"--threads 1,-1 --time 1ms --context 8":    {"--threads -1"},
		"--threads 1000000 --context 8 --time 1ms": {"--threads 1000000", "4096"},
	} {
		t.Run(args, func(t *testing.T) {
			fails(t, append([]string{"bench", "--footprint", "1"}, strings.Fields(args)...), want...)
		})
	}
}

func TestBenchInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitInterrupted, run(ctx, append(small, "--backend", "counted"), &stdout, &stderr))
	require.Equal(t, "ferrumkv: interrupted\n", stderr.String())
	require.Empty(t, stdout.String())
	noLeftovers(t)
}
