package schedule

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/golden"
	"github.com/ferrumkv/ferrumkv/kvcache/metrics"
	"github.com/stretchr/testify/require"
)

// docs/scheduling.md lists the metrics; with FERRUM_TEST_GOLDEN=write the list is written.
func TestPageListsMetrics(t *testing.T) {
	const page, begin, end = "../docs/scheduling.md", "<!-- metrics -->\n", "<!-- end -->"
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, _ := strings.Cut(string(text), begin)
	was, after, found := strings.Cut(rest, end)
	require.True(t, found)
	list := "| Metric | Type | Is |\n| --- | --- | --- |\n"
	for _, m := range Metrics() {
		name := m.Name
		if m.Type == metrics.CounterType {
			name += "_total"
		}
		list += fmt.Sprintf("| `%s` | %s | %s |\n", name, m.Type, m.Help)
	}
	if os.Getenv(golden.Env) == "write" && was != list {
		require.NoError(t, os.WriteFile(page, []byte(before+begin+list+end+after), 0o644))
		return
	}
	require.Equal(t, list, was, "%s=write go test writes it", golden.Env)
}
