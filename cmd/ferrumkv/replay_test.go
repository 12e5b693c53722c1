package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/cmd/internal/replay"
	"github.com/ferrumkv/ferrumkv/internal/testutil/external"
	"github.com/stretchr/testify/require"
)

// smallTrace is three users of a system prompt, two of whom come back. Five
// references of twelve find their block in an infinite cache.
const smallTrace = `{"timestamp": 0, "input_length": 1000, "output_length": 1, "hash_ids": [0, 1]}
{"timestamp": 1, "input_length": 1000, "output_length": 1, "hash_ids": [0, 2]}
{"timestamp": 2, "input_length": 2000, "output_length": 1, "hash_ids": [7, 8, 9]}
{"timestamp": 3, "input_length": 1500, "output_length": 1, "hash_ids": [0, 1, 3]}
{"timestamp": 4, "input_length": 1000, "output_length": 1, "hash_ids": [0, 2]}
`

func writeTrace(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(smallTrace), 0o600))
	return path
}

func TestReplayTable(t *testing.T) {
	path := writeTrace(t, "small.jsonl")
	r := succeeds(t, "replay", "--trace", path, "--capacity", "50%,5,unlimited", "--policy", "infinite,lru,slru")
	require.Equal(t, `trace       `+path+`
requests    5
references  12 to blocks of 512 tokens, 7 different ones
infinite    41.67% hits, 5: a cache that keeps everything
belady      the optimum, which knows the future; * is the best of the others

capacity       blocks      lru      slru    belady
50%                 3   16.67%*   16.67%*   16.67%
5                   5   25.00%*   25.00%*   33.33%
unlimited           7   41.67%*   41.67%*   41.67%
`, r.stdout)
	require.Empty(t, r.stderr)
}

func TestReplayJSON(t *testing.T) {
	path := writeTrace(t, "small.jsonl")
	lines := jsonLines(t, succeeds(t, "replay", "--trace", path, "--capacity", "5,5", "--policy", "lru,belady,lru,infinite", "--json").stdout)
	require.Len(t, lines, 3, "each run once")
	for _, l := range lines[1:] {
		require.Positive(t, l["seconds"])
		delete(l, "seconds")
	}
	require.Equal(t, []map[string]any{
		{"trace": path, "policy": "infinite", "capacity": 7., "asked": "unlimited", "unique": 7., "references": 12., "hits": 5., "hit_rate": 5. / 12, "seconds": 0.},
		{"trace": path, "policy": "lru", "capacity": 5., "asked": "5", "unique": 7., "references": 12., "hits": 3., "hit_rate": 3. / 12},
		{"trace": path, "policy": "belady", "capacity": 5., "asked": "5", "unique": 7., "references": 12., "hits": 4., "hit_rate": 4. / 12},
	}, lines)
}

// A program that asks for one run reads one object.
func TestReplayJSONAsked(t *testing.T) {
	path := writeTrace(t, "small.jsonl")
	page := filepath.Join(t.TempDir(), "page.html")
	for _, c := range []struct {
		args string
		want []string
	}{
		{"--policy lru --capacity 5", []string{"lru 5"}},
		{"--policy infinite --capacity 3,5", []string{"infinite unlimited"}},
		{"--policy belady --capacity 3,5", []string{"belady 3", "belady 5"}},
		{"--policy slru,lru --capacity 3,5", []string{"slru 3", "lru 3", "slru 5", "lru 5"}},
		{"--policy belady,infinite --policy lru --capacity 5", []string{"infinite unlimited", "lru 5", "belady 5"}},
		{"--policy lru --capacity 5 --html " + page, []string{"lru 5"}},
		{"--capacity 5", []string{"infinite unlimited", "adaptive 5", "lru 5", "slru 5", "lfu 5", "belady 5"}},
	} {
		var got []string
		for _, l := range jsonLines(t, succeeds(t, append([]string{"replay", "--trace", path, "--json"}, strings.Fields(c.args)...)...).stdout) {
			got = append(got, fmt.Sprint(l["policy"], " ", l["asked"]))
		}
		require.Equal(t, c.want, got, c.args)
	}
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, want := range []string{"lru at 5 (5 blocks): 25.00%", "belady at 5 (5 blocks): 33.33%", "41.67%"} {
		require.Contains(t, string(html), want, "the page shows both ends")
	}
}

func TestReplaySynthetic(t *testing.T) {
	args := []string{"replay", "--json", "--requests", "300", "--conversations", "20", "--system-prompts", "3", "--turns", "4", "--scans", "20", "--capacity", "10%"}
	lines := jsonLines(t, succeeds(t, args...).stdout)
	var policies []any
	for _, l := range lines {
		require.Equal(t, "synthetic", l["trace"])
		policies = append(policies, l["policy"])
	}
	require.Equal(t, []any{"infinite", "adaptive", "lru", "slru", "lfu", "belady"}, policies)
	again := jsonLines(t, succeeds(t, args...).stdout)
	other := jsonLines(t, succeeds(t, append(args, "--seed", "2")...).stdout)
	for i := range lines {
		require.Equal(t, lines[i]["hits"], again[i]["hits"])
		require.NotEqual(t, lines[i]["references"], other[i]["references"])
	}
}

func TestReplayMooncake(t *testing.T) {
	path := external.Path(t, "traces", "mooncake")
	lines := jsonLines(t, succeeds(t, "replay", "--trace", path, "--capacity", "unlimited", "--policy", "infinite,adaptive,belady", "--json").stdout)
	require.Len(t, lines, 3)
	for _, l := range lines {
		require.Equal(t, []any{288_500., 105_710.}, []any{l["references"], l["hits"]}, "%v", l["policy"])
	}
}

func TestReplayPage(t *testing.T) {
	path := writeTrace(t, "a <b> & 'c'.jsonl")
	file := filepath.Join(t.TempDir(), "page.html")
	args := []string{"replay", "--trace", path, "--policy", "lru,slru", "--html", file}
	r := succeeds(t, append(args, "--capacity", "unlimited,50%,5")...)
	require.Contains(t, r.stdout, "capacity ", "the table is printed, too")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	html := string(data)
	require.Contains(t, html, "a &lt;b&gt; &amp; &#39;c&#39;.jsonl")
	require.NotContains(t, html, "<b> &")
	require.NotRegexp(t, `https?:|<script|@import|url\(|(src|href)=|ZgotmplZ`, html, "it needs no network and no script")
	require.Contains(t, html, "prefers-color-scheme: dark")
	for _, want := range []string{"lru at 50% (3 blocks): 16.67%", "belady at 5 (5 blocks): 100.00%", `<td class="best">41.67%<span>5</span></td>`, ">unlimited<"} {
		require.Contains(t, html, want)
	}
	plots := regexp.MustCompile(`(?s)<svg class="plot".*?</svg>`).FindAllString(html, -1)
	require.Len(t, plots, 2)
	for i, plot := range plots {
		points := regexp.MustCompile(`points="([^"]*)"`).FindAllStringSubmatch(plot, -1)
		require.Len(t, points, 4-i, "a line for each policy, and one for the infinite cache in the first")
		require.Equal(t, 9, strings.Count(plot, "<circle"))
		for _, x := range regexp.MustCompile(`cx="([^"]*)" cy="([^"]*)"`).FindAllStringSubmatch(plot, -1) {
			require.Regexp(t, `^\d+(\.\d)?$`, x[1])
			require.Regexp(t, `^\d+(\.\d)?$`, x[2])
		}
		d := xml.NewDecoder(strings.NewReader(plot))
		for err == nil {
			_, err = d.Token()
		}
		require.ErrorIs(t, err, io.EOF, "well formed")
		err = nil
	}
	require.Regexp(t, `points="60,[\d.]+ `, plots[0], "from the left end, smallest capacity first")

	succeeds(t, append(args, "--capacity", "3")...) // a single point has no scale
	data, err = os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, string(data), "NaN")
}

func TestReplayChartScale(t *testing.T) {
	for value, want := range map[float64]float64{0: 0.01, 0.37: 0.4, 0.4: 0.4, 0.41: 0.5, 0.96: 1, 1: 1} {
		require.Equal(t, want, axisTop(value), "%v", value)
	}
	x := logScale(10, 1000)
	require.Equal(t, []float64{plotLeft, plotLeft + plotWidth/2, plotRight}, []float64{x(10), x(100), x(1000)})
}

func TestReplayUnits(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 182_790: "182,790", 1_619_758: "1,619,758"} {
		require.Equal(t, want, grouped(n))
	}
}

func TestReplayBar(t *testing.T) {
	var shown strings.Builder
	bar := &progressBar{line: &progress{out: &shown}, total: 1000}
	for range 4 {
		bar.step(1) // less than one percent
	}
	bar.step(496)
	require.Equal(t, "\r[###############...............]  50%", shown.String())
}

func TestReplayBarGivesWay(t *testing.T) {
	trace, err := replay.Read(t.Context(), writeTrace(t, "small.jsonl"))
	require.NoError(t, err)
	var shown strings.Builder
	bar := &progressBar{line: &progress{out: &shown}}
	bar.line.show("reading")
	err = newReplayReport(trace, []replay.Capacity{{}}, []string{replay.Optimum}, replay.Setup{}).measure(t.Context(), bar, func(r replay.Run) error {
		shown.WriteString(r.Policy + "\n")
		return nil
	})
	require.NoError(t, err)
	full := "[" + strings.Repeat("#", 30) + "] 100%"
	require.Equal(t, "\rreading\r       \rinfinite\n\r"+full+"\r"+strings.Repeat(" ", len(full))+"\rbelady\n", shown.String())
}

func TestReplayBadFlags(t *testing.T) {
	path := writeTrace(t, "small.jsonl")
	for _, c := range []struct{ args, want string }{
		{"--capacity 0", "--capacity 0: accepts 1 to 4294967294 blocks, more than 0% to 100%, and unlimited"},
		{"--capacity 5%,lots", "--capacity lots: accepts "},
		{"--capacity=", "--capacity: names none"},
		{"--policy mru", "--policy mru: accepts infinite, adaptive, lru, slru, lfu, priority, belady"},
		{"--policy=", "--policy: names none"},
		{"--requests 0", "--requests 0: accepts 1 to 1000000"},
		{"--scans 101", "--scans 101: accepts 0 to 100"},
		{"--seed -1", "--seed -1: accepts a whole number from 0 on"},
		{"--trace no/such/file", "no/such/file: no such file or directory"},
		{"--trace main.go", "main.go: neither a Mooncake trace"},
		{"--trace . ", ".: the directory holds no .json or .jsonl file"},
		{"--trace " + path + " --seed 2", "--seed: is for the generated trace; leave it out, or --trace"},
		{"--html no/such/dir/page.html", "--html no/such/dir/page.html: there is no directory no/such/dir"},
		{"trace.jsonl", `unknown argument "trace.jsonl"`},
	} {
		t.Run(c.args, func(t *testing.T) {
			r := fails(t, append([]string{"replay"}, strings.Fields(c.args)...), c.want)
			require.Empty(t, r.stdout, "a run that fails at once prints nothing")
		})
	}
}

// stopper cancels at the first output.
type stopper struct{ cancel context.CancelFunc }

func (s stopper) Write(p []byte) (int, error) {
	s.cancel()
	return len(p), nil
}

func TestReplayInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stderr bytes.Buffer
	page := filepath.Join(t.TempDir(), "page.html")
	require.Equal(t, exitInterrupted, run(ctx, []string{"replay", "--requests", "2000", "--html", page}, stopper{cancel}, &stderr))
	require.Equal(t, "ferrumkv: interrupted\n", stderr.String())
	require.NoFileExists(t, page)
}

func TestReplayOutputFails(t *testing.T) {
	for _, args := range [][]string{{}, {"--json"}} {
		var stderr bytes.Buffer
		require.Equal(t, exitError, run(t.Context(), append([]string{"replay", "--requests", "10"}, args...), closedPipe{}, &stderr))
		require.Equal(t, "ferrumkv: "+os.ErrClosed.Error()+"\n", stderr.String())
	}
	page := t.TempDir() // a directory is no file
	require.Empty(t, fails(t, []string{"replay", "--requests", "10", "--html", page}, "--html "+page+": is a directory").stdout)
}
