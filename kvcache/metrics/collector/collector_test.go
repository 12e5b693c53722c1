package collector_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/metrics"
	"github.com/ferrumkv/ferrumkv/kvcache/metrics/collector"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// below is the numbers of a pool with two tiers and a group.
func below() (kvcache.Stats, error) {
	s := kvcache.Stats{Blocks: 8, Free: 3, Cached: 3, Held: 2, BlockTokens: 16, BytesHeld: 1 << 50}
	s.Prefix.TokensQueried, s.Prefix.TokensHit, s.Prefix.Misses[1] = 1_000_003, 977, 3
	s.Groups = []kvcache.GroupStats{{Kind: group.Window, Logical: 5}}
	s.Tiers = []kvcache.TierStats{{Info: tier.Info{Name: "memory", Medium: tier.Memory}}, {Info: tier.Info{Name: "a \"store\",\n \\ far\xff\r\x00", Medium: tier.Network}}}
	s.Tiers[1].Moves.Took = 1_234_567_891
	return s, nil
}

// observed is a table with a histogram, which that of a pool lacks.
var observed = []metrics.Metric[int]{
	{Name: "took_seconds", Help: "A histogram.", Type: metrics.HistogramType, Labels: []string{"call"}, Read: func(n int) []metrics.Sample {
		h := metrics.NewHistogram(0.1, 1, 10)
		for i := range n {
			h.Observe(float64(i))
		}
		d := h.Snapshot()
		return []metrics.Sample{{Labels: []string{"get"}, Distribution: &d}}
	}},
	{Name: "other", Help: "A gauge.", Read: func(n int) []metrics.Sample { return []metrics.Sample{{Value: -float64(n)}} }},
}

func gather(t *testing.T, c prometheus.Collector) []*dto.MetricFamily {
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(c))
	families, err := r.Gather()
	require.NoError(t, err)
	return families
}

func text(t *testing.T, families []metrics.Family) string {
	var out bytes.Buffer
	require.NoError(t, metrics.Write(&out, families...))
	return out.String()
}

func requireSame(t *testing.T, c prometheus.Collector, families []metrics.Family) {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	ours, err := parser.TextToMetricFamilies(strings.NewReader(text(t, families)))
	require.NoError(t, err)
	var theirs bytes.Buffer
	for _, f := range gather(t, c) {
		_, err := expfmt.MetricFamilyToText(&theirs, f)
		require.NoError(t, err)
	}
	want, err := parser.TextToMetricFamilies(&theirs)
	require.NoError(t, err)
	require.Len(t, ours, len(want))
	for name, f := range want {
		require.Equal(t, f.String(), sorted(ours[name], f).String())
	}
}

// sorted is a family with its samples in the order of another's.
func sorted(f, like *dto.MetricFamily) *dto.MetricFamily {
	if f == nil || len(f.Metric) != len(like.Metric) {
		return f
	}
	key := func(m *dto.Metric) (k string) {
		for _, l := range m.Label {
			k += l.GetName() + "\x00" + l.GetValue() + "\x00"
		}
		return k
	}
	at := map[string]*dto.Metric{}
	for _, m := range f.Metric {
		labels := map[string]*dto.LabelPair{}
		for _, l := range m.Label {
			labels[l.GetName()] = l
		}
		for i, l := range like.Metric[0].Label { // the registry sorts them
			m.Label[i] = labels[l.GetName()]
		}
		at[key(m)] = m
	}
	for i, m := range like.Metric {
		f.Metric[i] = at[key(m)]
	}
	return f
}

// A registry exposes what Write writes.
func TestSameAsText(t *testing.T) {
	s, err := below()
	require.NoError(t, err)
	requireSame(t, collector.New(metrics.Pool(), below), metrics.Of(metrics.Pool(), s))
	requireSame(t, collector.New(metrics.Pool(), func() (s kvcache.Stats, _ error) { return s, nil }), metrics.Of(metrics.Pool(), kvcache.Stats{}))
	requireSame(t, collector.New(observed, func() (int, error) { return 15, nil }), metrics.Of(observed, 15))
}

// The only thing that Prometheus's linter says is that names should have no colons: those of vLLM do, and ours do as theirs.
func TestLint(t *testing.T) {
	problems, err := testutil.CollectAndLint(collector.New(metrics.Pool(), below))
	require.NoError(t, err)
	for _, p := range problems {
		require.Equal(t, "metric names should not contain ':'", p.Text, p.Metric)
	}
	require.NotEmpty(t, problems)
}

func TestScrapesFail(t *testing.T) {
	closed := errors.New("closed")
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(collector.New(observed, func() (int, error) { return 0, closed })))
	_, err := r.Gather()
	require.ErrorIs(t, err, closed)

	for why, bad := range map[string]metrics.Metric[int]{
		"inconsistent label cardinality": {Name: "a", Help: "A.", Read: func(int) []metrics.Sample { return []metrics.Sample{{Labels: []string{"b"}}} }},
		"a bucket for each bound":        {Name: "a", Help: "A.", Type: metrics.HistogramType, Read: func(int) []metrics.Sample { return []metrics.Sample{{}} }},
		"an unknown type":                {Name: "a", Help: "A.", Type: 9, Read: func(int) []metrics.Sample { return []metrics.Sample{{}} }},
	} {
		r := prometheus.NewPedanticRegistry()
		require.NoError(t, r.Register(collector.New([]metrics.Metric[int]{bad}, func() (int, error) { return 0, nil })))
		_, err := r.Gather()
		require.ErrorContains(t, err, why)
	}
}
