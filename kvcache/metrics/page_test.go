package metrics_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/testutil/golden"
	"github.com/ferrumkv/ferrumkv/kvcache/metrics"
)

const page = "../../docs/metrics.md"

// docs/metrics.md lists the table of a pool; with FERRUM_TEST_GOLDEN=write the list is written.
func TestPageListsMetrics(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	const begin, end = "<!-- metrics -->\n", "<!-- end -->"
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found)
	was, after, found := strings.Cut(rest, end)
	require.True(t, found)
	var list strings.Builder
	list.WriteString("| Metric | Type | Labels | Unit | Is |\n| --- | --- | --- | --- | --- |\n")
	for _, m := range metrics.Pool() {
		name := m.Name
		if m.Type == metrics.CounterType {
			name += "_total"
		}
		labels := ""
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&list, "| `%s` | %s | %s | %s | %s |\n", name, m.Type, labels, m.Unit, m.Help)
	}
	if os.Getenv(golden.Env) == "write" && was != list.String() {
		require.NoError(t, os.WriteFile(page, []byte(before+begin+list.String()+end+after), 0o644))
		return
	}
	require.Equal(t, list.String(), was, "%s=write go test writes it", golden.Env)
}

// docs/metrics.md lists every message that the library logs, with its level, and no others.
func TestPageListsMessages(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	listed, logged := map[string]bool{}, map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| (Debug|Info|Warn|Error) \\| `(kvcache: [^`]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		listed[m[1]+" "+m[2]] = true
	}
	message := regexp.MustCompile(`slog\.Level(\w+), "(kvcache: [^"]+)"`)
	for _, root := range []string{"..", "../../internal/journal"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, m := range message.FindAllStringSubmatch(string(source), -1) {
				logged[m[1]+" "+m[2]] = true
			}
			return err
		}))
	}
	require.Greater(t, len(logged), 20)
	require.Equal(t, logged, listed)
}
