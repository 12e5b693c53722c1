package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/external"
	"github.com/stretchr/testify/require"
)

// A query sees one block before its own. With room for all, the second prompt finds 0; the third computes three blocks
// and drops two of the window; the fourth finds 0 and 1, of which it needs 1; the last finds all that it asks for.
//
// With seven blocks, two of which may be cached of the window before those go: the third prompt needs six, and takes
// the window's 1 and 0, then 1 and 2. So 0 is of no use to the fourth, which computes it anew; since it leaves there what
// the tree has, the window's 0 stays, and the fifth finds it.
func TestReplayPartsTable(t *testing.T) {
	path := writeTrace(t, "small.jsonl")
	r := succeeds(t, "replay", "--trace", path, "--capacity", "7,unlimited", "--policy", "lru,infinite,slru",
		"--window", "513", "--retain", "ends", "--retain-share", "25")
	require.Equal(t, `trace       `+path+`
requests    5
references  12 to blocks of 512 tokens, 7 different ones
infinite    41.67% hits, 5: a cache that keeps everything
parts       1 of full attention, 1 with a window of 513 tokens; a block of the capacity is one of any part
retention   where prompts end, and where they part; evicted first above 25% of the blocks
full alone  hits if only blocks of full attention were needed; * is the most hits
blocks      mean/peak, held by a request while it is computed and cached between requests

capacity       blocks  policy       hits   full alone        full held             cached     windows held             cached
7                   7  lru        16.67%*      25.00%              2/3                3/4              2/3                2/3
7                   7  slru        8.33%       25.00%              2/3                2/4              2/3                2/3
unlimited          30  lru        41.67%*      41.67%              2/3                5/7              2/3                4/5
unlimited          30  slru       41.67%*      41.67%              2/3                5/7              2/3                4/5
`, r.stdout)
	require.Empty(t, r.stderr)
}

func TestReplayPartsJSON(t *testing.T) {
	path := writeTrace(t, "small.jsonl")
	lines := jsonLines(t, succeeds(t, "replay", "--trace", path, "--capacity", "50%", "--policy", "lru,infinite", "--json",
		"--window", "513", "--window-parts", "1", "--retain", "ends", "--retain-share", "25").stdout)
	require.Len(t, lines, 2)
	delete(lines[1], "seconds")
	use := func(held, cached float64, peaks ...float64) map[string]any {
		return map[string]any{"held_mean": held, "held_peak": peaks[0], "cached_mean": cached, "cached_peak": peaks[1]}
	}
	row := func(more map[string]any) map[string]any {
		for name, value := range map[string]any{"trace": path, "unique": 7., "references": 12.,
			"window": 513., "window_parts": 1., "state_parts": 0., "retain": "ends", "retain_share": 25.} {
			more[name] = value
		}
		return more
	}
	require.Equal(t, []map[string]any{
		row(map[string]any{"policy": "infinite", "capacity": 14., "asked": "unlimited", "hits": 5., "full_hits": 5., "hit_rate": 5. / 12, "seconds": 0.}),
		row(map[string]any{"policy": "lru", "capacity": 7., "asked": "50%", "hits": 2., "full_hits": 3., "hit_rate": 2. / 12,
			"full": use(2.4, 3.4, 3, 4), "windows": use(2.4, 2.4, 3, 3)}),
	}, lines)

	lines = jsonLines(t, succeeds(t, "replay", "--trace", path, "--policy", "lru", "--capacity", "5", "--json", "--state-parts", "2", "--retain", "all").stdout)
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], "states")
	require.NotContains(t, lines[0], "windows")
	require.Equal(t, []any{0., 0., 2., "all"}, []any{lines[0]["window"], lines[0]["window_parts"], lines[0]["state_parts"], lines[0]["retain"]})
}

// What is kept is what a pool keeps by default.
func TestReplayPartsDefaults(t *testing.T) {
	path := writeTrace(t, "small.jsonl")
	f := newPartsFlags()
	line := jsonLines(t, succeeds(t, "replay", "--trace", path, "--policy", "lru", "--capacity", "5", "--json", "--window", "600").stdout)[0]
	require.Equal(t, []any{600., 1., 0., f.retain, float64(f.Share)},
		[]any{line["window"], line["window_parts"], line["state_parts"], line["retain"], line["retain_share"]})
	require.NotContains(t, succeeds(t, "replay", "--trace", path, "--window", "600").stdout, "belady")
}

func TestReplayPartsPage(t *testing.T) {
	path := writeTrace(t, "small.jsonl")
	file := filepath.Join(t.TempDir(), "page.html")
	succeeds(t, "replay", "--trace", path, "--policy", "lru,slru", "--capacity", "7,unlimited", "--html", file,
		"--window", "513", "--state-parts", "2", "--retain", "3", "--retain-share", "25")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	html := string(data)
	require.NotContains(t, html, "belady")
	require.NotContains(t, html, "ZgotmplZ")
	for _, want := range []string{
		"1 of full attention, 1 with a window of 513 tokens, 2 with a state", "every 3 blocks, where prompts end, and where they part; evicted first above 25% of the blocks",
		"lru at unlimited (60 blocks): 41.67%", "Hit rate of full attention alone", "<th scope=\"col\">states held</th>",
		`<tr><th scope="row">unlimited</th><td>slru</td><td>41.67%</td><td>2/3</td><td>5/7</td><td>2/3</td><td>4/5</td><td>2/2</td><td>8/10</td></tr>`,
	} {
		require.Contains(t, html, want)
	}
	for _, plot := range regexp.MustCompile(`(?s)<svg class="plot".*?</svg>`).FindAllString(html, -1) {
		require.Equal(t, 3, strings.Count(plot, "<polyline"), "a line for each policy, and one for the infinite cache")
	}
}

func TestReplayPartsBadFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--window 0", "--window 0: accepts 1 to 1073741824"},
		{"--window 5 --window-parts 0", "--window-parts 0: accepts 1 to 64"},
		{"--window 5 --window-parts 65", "--window-parts 65: accepts 1 to 64"},
		{"--window-parts 2", "--window-parts: is for --window"},
		{"--state-parts -1", "--state-parts -1: accepts 0 to 64"},
		{"--state-parts 1 --retain some", "--retain some: accepts all, ends, and 1 to 1073741824 blocks"},
		{"--window 5 --retain-share 101", "--retain-share 101: accepts 0 to 100"},
		{"--retain ends", "--retain: is for --window and --state-parts"},
		{"--retain-share 5", "--retain-share: is for --window and --state-parts"},
		{"--window 5 --policy lru,belady", "--policy belady: is for models with full attention only"},
		{"--window 5 --policy infinite", "--policy infinite: finds all, whatever else is asked for; name another as well"},
	} {
		t.Run(c.args, func(t *testing.T) {
			require.Empty(t, fails(t, append([]string{"replay"}, strings.Fields(c.args)...), c.want).stdout)
		})
	}
}

func TestReplayPartsMooncake(t *testing.T) {
	path := external.Path(t, "traces", "mooncake")
	line := jsonLines(t, succeeds(t, "replay", "--trace", path, "--policy", "lru", "--capacity", "unlimited", "--json",
		"--window", "4096", "--window-parts", "6", "--retain", "all").stdout)[0]
	require.Equal(t, []any{105_710., 105_710.}, []any{line["hits"], line["full_hits"]}, "with room for all and all kept")
}
