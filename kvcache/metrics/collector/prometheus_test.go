package collector_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/metrics"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// program is the path of one of Prometheus's programs, or the test is skipped.
func program(t *testing.T, name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%v; scripts/test-metrics installs it on Debian", err)
	}
	return path
}

// serving is a pool with a tier that a prompt has been through twice, and the address of its metrics.
func serving(t *testing.T) (pool *ferrumkv.Cache, address string) {
	m, err := memory.Open(memory.Options{Bytes: 1 << 20})
	require.NoError(t, err)
	cfg := kvcache.Config{Model: kvcache.Model{Layers: 1, KVHeads: 1, HeadDim: 16}, Memory: kvcache.Memory{Layout: kvcache.Paged, Capacity: 128, MaxSeqs: 2}}
	cfg.Tiers.More = []tier.Tier{m}
	kv, err := ferrumkv.Open("cpu", cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, kv.Close()); require.NoError(t, m.Close()) })
	step, err := kv.NewStep()
	require.NoError(t, err)
	prompt := make([]uint32, 100)
	for range 2 {
		seq, match, err := kv.Pool.Open(prompt, kvcache.OpenOptions{})
		require.NoError(t, err)
		require.NoError(t, step.Reset())
		require.NoError(t, step.Add(seq, prompt[match.Cached:]))
		require.NoError(t, step.Plan())
		rows := func() []float32 { return make([]float32, match.Uncached*16) }
		require.NoError(t, step.Attend(0, ferrumkv.Rows{Q: rows(), K: rows(), V: rows(), Out: rows()}))
		require.NoError(t, step.Commit())
	}
	require.NoError(t, kv.Pool.Flush(t.Context()))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stats, err := kv.Pool.Stats()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", metrics.ContentType)
		_ = metrics.Write(w, metrics.Of(metrics.Pool(), stats)...)
	}))
	t.Cleanup(s.Close)
	return kv, strings.TrimPrefix(s.URL, "http://")
}

// Prometheus scrapes the text of a pool, and answers with the numbers that the pool has.
func TestPrometheusScrapes(t *testing.T) {
	path := program(t, "prometheus")
	kv, target := serving(t)
	dir := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 250ms, scrape_timeout: 250ms}\nscrape_configs: [{job_name: ferrumkv, static_configs: [{targets: ['%s']}]}]\n", target)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yml"), []byte(config), 0o600))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, "--config.file="+filepath.Join(dir, "config.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { // by then the context has ended, and the program with it
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})

	require.Eventually(t, func() bool {
		up, err := query(address, `up{job="ferrumkv"}`)
		return err == nil && len(up) == 1 && up["up"] == 1
	}, time.Minute, 100*time.Millisecond)
	stats, err := kv.Pool.Stats()
	require.NoError(t, err)
	require.NotZero(t, stats.Held*stats.Prefix.TokensHit, "or this test says nothing")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text(t, metrics.Of(metrics.Pool(), stats))))
	require.NoError(t, err)
	want := map[string]float64{}
	for name, f := range families {
		for _, m := range f.Metric {
			key := name
			for _, l := range m.Label {
				key += fmt.Sprintf(",%s=%q", l.GetName(), l.GetValue())
			}
			want[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	got, err := query(address, `{job="ferrumkv",__name__=~"(vllm|ferrumkv):.*"}`)
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for key, v := range want {
		require.Contains(t, got, ordered(key))
		require.Equal(t, v, got[ordered(key)], key)
	}
	for q, v := range map[string]float64{
		`vllm:kv_cache_usage_perc * 16`:                                         float64(stats.Held),
		`vllm:prefix_cache_hits_total / vllm:prefix_cache_queries_total`:        float64(stats.Prefix.TokensHit) / float64(stats.Prefix.TokensQueried+stats.Prefix.Lookups),
		`sum(ferrumkv:blocks)`:                                                  16,
		`ferrumkv:tier_blocks * on(tier) group_left(medium) ferrumkv:tier_info`: float64(stats.Tiers[0].Stats.Blocks),
	} {
		got, err := query(address, q)
		require.NoError(t, err)
		require.Len(t, got, 1, q)
		for _, is := range got {
			require.Equal(t, v, is, q)
		}
	}
}

// ordered is a sample's key with its labels in the order of query.
func ordered(key string) string {
	name, labels, _ := strings.Cut(key, ",")
	return keyOf(name, regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`).FindAllStringSubmatch(labels, -1))
}

func keyOf(name string, labels [][]string) string {
	byName := map[string]string{}
	for _, l := range labels {
		byName[l[1]] = l[2]
	}
	sorted, _ := json.Marshal(byName) // in the order of its keys
	return strings.TrimSuffix(name+string(sorted), "{}")
}

// query asks Prometheus for an instant's values, by name and labels but for those of the scrape.
func query(address, q string) (map[string]float64, error) {
	r, err := http.Get("http://" + address + "/api/v1/query?query=" + url.QueryEscape(q))
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for _, s := range answer.Data.Result {
		var labels [][]string
		for name, value := range s.Metric {
			if name != "__name__" && name != "job" && name != "instance" {
				labels = append(labels, []string{"", name, value})
			}
		}
		if values[keyOf(s.Metric["__name__"], labels)], err = strconv.ParseFloat(s.Value[1].(string), 64); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// promtool says nothing of the text but what TestLint accepts.
func TestPromtool(t *testing.T) {
	cmd := exec.Command(program(t, "promtool"), "check", "metrics")
	s, err := below()
	require.NoError(t, err)
	cmd.Stdin = strings.NewReader(text(t, metrics.Of(metrics.Pool(), s)))
	said, _ := cmd.CombinedOutput() // its status tells only whether it said something
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	require.NotEmpty(t, lines[0], "or it does not check")
	for _, line := range lines {
		require.Regexp(t, `^(vllm|ferrumkv):\S+ metric names should not contain ':'$`, line)
	}
}
