package metrics_test

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/testutil/golden"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/metrics"
)

//go:embed testdata
var testdata embed.FS

// awkward is families with everything that the format has rules for.
func awkward() []metrics.Family {
	h := metrics.NewHistogram(0.1, 1, 2.5)
	for _, v := range []float64{0.1, 0.2, 2, 3, 1e6} {
		h.Observe(v)
	}
	d, zero := h.Snapshot(), metrics.NewHistogram().Snapshot()
	return []metrics.Family{
		{Name: "a:gauge", Help: "A \\ and\na second line with \"quotes\" and \xff.", Samples: []metrics.Sample{{Value: -1.5}}},
		{Name: "left_out", Help: "Has no samples.", Type: metrics.CounterType},
		{Name: "calls", Help: "", Type: metrics.CounterType, Labels: []string{"tier", "cause"}, Samples: []metrics.Sample{
			{Labels: []string{"a \\ b\nc \"d\"", "é{}, =\xff"}, Value: 1 << 40},
			{Labels: []string{"", "none"}, Value: 0.000001},
		}},
		{Name: "limits", Help: "Numbers at the limits.", Labels: []string{"what"}, Samples: []metrics.Sample{
			{Labels: []string{"nan"}, Value: math.NaN()}, {Labels: []string{"+inf"}, Value: math.Inf(1)}, {Labels: []string{"-inf"}, Value: math.Inf(-1)},
			{Labels: []string{"largest"}, Value: math.MaxFloat64}, {Labels: []string{"smallest"}, Value: math.SmallestNonzeroFloat64},
			{Labels: []string{"2^53"}, Value: 1 << 53}, {Labels: []string{"-0"}, Value: math.Copysign(0, -1)},
		}},
		{Name: "took_seconds", Help: "A histogram.", Type: metrics.HistogramType, Labels: []string{"op"}, Samples: []metrics.Sample{
			{Labels: []string{"get"}, Distribution: &d}, {Labels: []string{"put"}, Distribution: &zero},
		}},
	}
}

func write(t testing.TB, families ...metrics.Family) string {
	var out bytes.Buffer
	require.NoError(t, metrics.Write(&out, families...))
	return out.String()
}

func TestText(t *testing.T) {
	golden.Run(t, testdata, "testdata/text.txt", func(t testing.TB, c golden.Command) string {
		switch c.Name {
		case "awkward":
			return write(t, awkward()...)
		case "unused": // a pool that nobody has used yet, in short
			return write(t, metrics.Of(metrics.Pool()[:3], kvcache.Stats{Blocks: 8, Free: 8, BlockTokens: 16})...)
		}
		return "no such command\n"
	})
}

// What another reader of the format reads is what was written.
func TestTextIsRead(t *testing.T) {
	p, err := parse(write(t, awkward()...))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a:gauge": "gauge", "calls_total": "counter", "limits": "gauge", "took_seconds": "histogram"}, p.types)
	require.Equal(t, "A \\ and\na second line with \"quotes\" and \uFFFD.", p.helps["a:gauge"])
	for key, want := range map[string]float64{
		"a:gauge": -1.5,
		fmt.Sprintf("calls_total{tier=%q,cause=%q}", "a \\ b\nc \"d\"", "é{}, =\uFFFD"): 1 << 40,
		`calls_total{tier="",cause="none"}`:                                             0.000001,
		`limits{what="nan"}`:                                                            math.NaN(),
		`limits{what="+inf"}`:                                                           math.Inf(1),
		`limits{what="-inf"}`:                                                           math.Inf(-1),
		`limits{what="largest"}`:                                                        math.MaxFloat64,
		`limits{what="smallest"}`:                                                       math.SmallestNonzeroFloat64,
		`limits{what="2^53"}`:                                                           1 << 53,
		`limits{what="-0"}`:                                                             0,
		`took_seconds_bucket{op="get",le="0.1"}`:                                        1,
		`took_seconds_bucket{op="get",le="1"}`:                                          2,
		`took_seconds_bucket{op="get",le="2.5"}`:                                        3,
		`took_seconds_bucket{op="get",le="+Inf"}`:                                       5,
		`took_seconds_sum{op="get"}`:                                                    1000005.3,
		`took_seconds_count{op="get"}`:                                                  5,
		`took_seconds_bucket{op="put",le="+Inf"}`:                                       0,
		`took_seconds_sum{op="put"}`:                                                    0,
		`took_seconds_count{op="put"}`:                                                  0,
	} {
		got, is := p.values[key]
		require.True(t, is && same(want, got), "%s: %v, not %v", key, got, want)
		delete(p.values, key)
	}
	require.Empty(t, p.values)
}

func TestFamiliesThatCannotBeWritten(t *testing.T) {
	one, h := []metrics.Sample{{}}, []metrics.Sample{{Distribution: &metrics.Distribution{Counts: []uint64{0}}}}
	bounds := func(b ...float64) []metrics.Sample {
		return []metrics.Sample{{Distribution: &metrics.Distribution{Bounds: b, Counts: make([]uint64, len(b)+1)}}}
	}
	good := metrics.Family{Name: "good", Samples: one}
	counter, histogram := metrics.Family{Name: "counter", Type: metrics.CounterType, Samples: one}, metrics.Family{Name: "histogram", Type: metrics.HistogramType, Samples: h}
	for why, f := range map[string]metrics.Family{
		"not a name of a metric":             {Name: "1st", Samples: one},
		"not a name of a metric\x00":         {Name: "a b", Samples: one},
		"which Write adds":                   {Name: "a_total", Type: metrics.CounterType, Samples: one},
		"unknown type":                       {Name: "a", Type: 7, Samples: one},
		`"b:c" is not a name`:                {Name: "a", Labels: []string{"b:c"}},
		`"__b" is not a name`:                {Name: "a", Labels: []string{"__b"}},
		`"le" is not a name`:                 {Name: "a", Type: metrics.HistogramType, Labels: []string{"le"}},
		`label "b" twice`:                    {Name: "a", Labels: []string{"b", "c", "b"}},
		"0 values for 1 labels":              {Name: "a", Labels: []string{"b"}, Samples: one},
		"with distributions":                 {Name: "a", Samples: h},
		"with distributions\x00":             {Name: "a", Type: metrics.HistogramType, Samples: one},
		"0 counts for 0 bounds":              {Name: "a", Type: metrics.HistogramType, Samples: []metrics.Sample{{Distribution: &metrics.Distribution{}}}},
		"good is there twice":                good,
		"counter_total is there twice":       {Name: "counter_total", Samples: one},
		"histogram_sum is there twice":       {Name: "histogram_sum", Samples: one},
		"histogram_count is there twice":     {Name: "histogram_count", Samples: one},
		"histogram is there twice":           {Name: "histogram", Samples: one},
		"the bounds [1 1] of a distribution": {Name: "a", Type: metrics.HistogramType, Samples: bounds(1, 1)},
		"the bounds [2 1] of":                {Name: "a", Type: metrics.HistogramType, Samples: bounds(2, 1)},
		"the bounds [1 +Inf] of":             {Name: "a", Type: metrics.HistogramType, Samples: bounds(1, math.Inf(1))},
		"the bounds [NaN] of":                {Name: "a", Type: metrics.HistogramType, Samples: bounds(math.NaN())},
	} {
		var out strings.Builder
		err := metrics.Write(&out, good, counter, histogram, f)
		require.ErrorAs(t, err, &metrics.ErrFamily{}, why)
		require.ErrorContains(t, err, strings.TrimSuffix(why, "\x00"))
		require.Empty(t, out.String())
	}
}

type failing struct{ calls int }

func (f *failing) Write([]byte) (int, error) {
	f.calls++
	return 0, io.ErrShortWrite
}

func TestWriteReturnsTheWritersError(t *testing.T) {
	var w failing
	require.True(t, errors.Is(metrics.Write(&w, awkward()...), io.ErrShortWrite))
	require.Equal(t, 1, w.calls)
}
