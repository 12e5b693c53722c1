package schedule

import (
	"reflect"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/metrics"
	"github.com/stretchr/testify/require"
)

// Every field of Stats changes a metric, and names are their own.
func TestMetrics(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range Metrics() {
		require.Regexp(t, `^(vllm|ferrumkv):[a-z_0-9]+$`, m.Name)
		require.False(t, seen[m.Name], m.Name)
		require.True(t, strings.HasSuffix(m.Help, "."), m.Help)
		require.Equal(t, strings.HasSuffix(m.Name, "_seconds"), m.Unit == "seconds", m.Name)
		for _, s := range m.Read(Stats{}) {
			require.Len(t, s.Labels, len(m.Labels), m.Name)
			require.Equal(t, m.Type == metrics.HistogramType, s.Distribution != nil, m.Name)
		}
		seen[m.Name] = true
	}
	zero := metrics.Of(Metrics(), Stats{})
	fields := reflect.TypeFor[Stats]()
	for i := range fields.NumField() {
		var s Stats
		switch f := reflect.ValueOf(&s).Elem().Field(i); f.Interface().(type) {
		case int, int64:
			f.SetInt(7)
		case [numReasons]int64:
			f.Index(int(Length)).SetInt(7)
		case metrics.Distribution:
			f.Set(reflect.ValueOf(metrics.Distribution{Bounds: []float64{1}, Counts: []uint64{2, 3}, Sum: 4}))
		}
		require.NotEqual(t, zero, metrics.Of(Metrics(), s), fields.Field(i).Name)
	}
}
