package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The cache of three blocks has the second prompt's 0, loses all to the third one, and has the fourth one's 0 for the last. The disk
// brings the fourth one's 0 and 1, and the last one's 2. Host memory of one block has 0, 7, 9 and, what comes from the disk included, 0, 3 and 2.
func TestReplayTiersTable(t *testing.T) {
	path := writeTrace(t, "small.jsonl")
	r := succeeds(t, "replay", "--trace", path, "--capacity", "50%,unlimited", "--policy", "lru,infinite", "--host", "1", "--disk", "2.5x", "--disk-admission", "second-use")
	require.Equal(t, `trace       `+path+`
requests    5
references  12 to blocks of 512 tokens, 7 different ones
infinite    41.67% hits, 5: a cache that keeps everything
tiers       host memory of 1 block; disk of 2.5 times the capacity, which, when it is full, writes what comes a second time
bytes       128.0 KiB a token, 64.0 MiB a block: loaded/stored
alone       the cache without tiers; * is the most hits

capacity       blocks  policy       hits     alone   device     host                bytes     disk                bytes
50%                 3  lru        41.67%*   16.67%   16.67%    0.00%        0 B/384.0 MiB   25.00%  192.0 MiB/448.0 MiB
unlimited           7  lru        41.67%*   41.67%   41.67%    0.00%        0 B/256.0 MiB    0.00%        0 B/448.0 MiB
`, r.stdout)
	require.Empty(t, r.stderr)
}

func TestReplayTiersJSON(t *testing.T) {
	path := writeTrace(t, "small.jsonl")
	args := []string{"replay", "--trace", path, "--capacity", "3", "--policy", "lru", "--json", "--disk", "7"}
	line := jsonLines(t, succeeds(t, append(args, "--token-bytes", "1KiB")...).stdout)[0]
	require.Positive(t, line["seconds"])
	delete(line, "seconds")
	block := 512. * 1024
	require.Equal(t, map[string]any{"trace": path, "policy": "lru", "capacity": 3., "asked": "3", "unique": 7., "references": 12., "hits": 5., "hit_rate": 5. / 12,
		"token_bytes": 1024., "disk_admission": "all", "hits_alone": 2., "hits_device": 2.,
		"tiers": []any{map[string]any{"name": "disk", "blocks": 7., "hits": 3., "loaded_bytes": 3 * block, "stored_bytes": 7 * block, "evicted": 0., "refused": 0.}}}, line)

	// The disk is tried at the fourth request, and loaded from at the last one: 512 tokens of 128 KiB in 64 ms, computed in 512.
	line = jsonLines(t, succeeds(t, append(args, "--prefill-rate", "1000", "--disk-rate", "1GiB")...).stdout)[0]
	require.Equal(t, []any{2., 1.}, []any{line["hits_device"], line["tiers"].([]any)[0].(map[string]any)["hits"]})
	require.Equal(t, map[string]any{"compute": 1., "load": 1.}, line["decisions"])
	with, alone := line["first_token_seconds"].(map[string]any), line["first_token_seconds_alone"].(map[string]any)
	require.InDelta(t, (2+1+3+3+1)*512./1000/5, alone["mean"], 1e-6)
	require.InDelta(t, alone["mean"].(float64)-(512./1000-64./1024-1./1000)/5, with["mean"], 1e-6)
	require.InDelta(t, 2*512./1000, with["p50"], 1e-6)
	require.Equal(t, []any{alone["p90"], alone["p99"]}, []any{with["p90"], with["p99"]})
}

func TestReplayTiersTimes(t *testing.T) {
	path := writeTrace(t, "small.jsonl")
	r := succeeds(t, "replay", "--trace", path, "--capacity", "3", "--policy", "lru", "--disk", "7", "--prefill-rate", "1000", "--disk-rate", "1GiB")
	require.Contains(t, r.stdout, "\nrates       computing 1,000 tokens/s, loading 8,192 tokens/s from disk\n")
	require.Regexp(t, `disk +bytes +first token +9 in 10\n3 +3 +lru +25\.00%\* +16\.67% +16\.67% +8\.33% +\S+ MiB/448\.0 MiB +934 ms/1\.02 s +1\.54 s/1\.54 s\n$`, r.stdout)
}

// With a rate of computing the tiers have rates, too, and reports say which.
func TestReplayTiersDefaultRates(t *testing.T) {
	path := writeTrace(t, "small.jsonl")
	base := []string{"replay", "--trace", path, "--capacity", "3", "--policy", "lru", "--prefill-rate", "20000"}
	for _, c := range []struct {
		args, said string
		host, disk any
	}{
		{"--host 4x --disk 20x", "loading 152,587 tokens/s from host, loading 22,888 tokens/s from disk", 20e9, 3e9},
		{"--host 4x --disk 20x --disk-rate 6GB", "loading 152,587 tokens/s from host, loading 45,776 tokens/s from disk", 20e9, 6e9},
		{"--host 4x --disk 20x --host-rate 10GB", "loading 76,293 tokens/s from host, loading 22,888 tokens/s from disk", 10e9, 3e9},
		{"--host 4x", "loading 152,587 tokens/s from host", 20e9, nil},
		{"--disk 20x", "loading 22,888 tokens/s from disk", nil, 3e9},
	} {
		args := append(slices.Clone(base), strings.Fields(c.args)...)
		page := filepath.Join(t.TempDir(), "page.html")
		require.Contains(t, succeeds(t, append(args, "--html", page)...).stdout, "\nrates       computing 20,000 tokens/s, "+c.said+"\n")
		html, err := os.ReadFile(page)
		require.NoError(t, err)
		require.Contains(t, string(html), "; computing 20,000 tokens/s, "+c.said+"</dd>")
		line := jsonLines(t, succeeds(t, append(args, "--json")...).stdout)[0]
		require.Equal(t, []any{20000., c.host, c.disk}, []any{line["prefill_rate"], line["host_rate"], line["disk_rate"]})
	}
	help := succeeds(t, "replay", "--help").stdout
	require.Contains(t, help, "(default with --prefill-rate: 20GB)")
	require.Contains(t, help, "(default with --prefill-rate: 3GB)")
}

func TestReplayTiersPage(t *testing.T) {
	path := writeTrace(t, "small.jsonl")
	file := filepath.Join(t.TempDir(), "page.html")
	succeeds(t, "replay", "--trace", path, "--policy", "lru,slru", "--capacity", "3,unlimited", "--html", file, "--host", "1", "--disk", "3x")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	html := string(data)
	require.NotContains(t, html, "belady")
	require.NotContains(t, html, "ZgotmplZ")
	for _, want := range []string{"<dt>Tiers</dt><dd>host memory of 1 block; disk of 3 times the capacity, which writes all</dd>", "Hit rate of the cache alone",
		"lru at 3 (3 blocks): 41.67%", "lru at 3 (3 blocks): 16.67%", "Below the cache are tiers"} {
		require.Contains(t, html, want)
	}
	for _, plot := range regexp.MustCompile(`(?s)<svg class="plot".*?</svg>`).FindAllString(html, -1) {
		require.Equal(t, 3, strings.Count(plot, "<polyline"), "a line for each policy, and one for the infinite cache")
	}
}

func TestReplayTiersBadFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--disk 0", "--disk 0: accepts 1 to "},
		{"--disk=", "--disk : accepts 1 to "},
		{"--host 10%", "--host 10%: accepts 1 to "},
		{"--disk-admission all", "--disk-admission: is for --disk"},
		{"--host 4x --disk-rate 1GB", "--disk-rate: is for --disk"},
		{"--disk 4x --host-rate 1GB", "--host-rate: is for --host"},
		{"--prefill-rate 5", "--prefill-rate: is for --host or --disk"},
		{"--token-bytes 5", "--token-bytes: is for --host or --disk"},
		{"--disk 4x --disk-admission some", "--disk-admission some: accepts all and second-use"},
		{"--disk 4x --disk-rate fast", "--disk-rate fast: accepts bytes"},
		{"--disk 4x --disk-rate 1GB", "--disk-rate 1e+09: is for the time to the first token"},
		{"--disk 4x --prefill-rate 5 --disk-rate 0", "--disk-rate 0: accepts bytes"},
		{"--disk 4x --prefill-rate -5", "--prefill-rate -5: accepts numbers above 0"},
		{"--disk 4x --token-bytes 3GiB", "--token-bytes 3221225472: accepts 1 to 2147483647"},
		{"--disk 4x --window 5", "--host or --disk 4x: is for models with full attention only"},
		{"--disk 4x --policy lru,belady", "--policy belady: is for models with full attention only, without tiers"},
		{"--disk 4x --policy infinite", "--policy infinite: finds all, whatever else is asked for; name another as well"},
	} {
		t.Run(c.args, func(t *testing.T) {
			require.Empty(t, fails(t, append([]string{"replay"}, strings.Fields(c.args)...), c.want).stdout)
		})
	}
}
