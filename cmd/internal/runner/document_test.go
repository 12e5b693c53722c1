package runner

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/stretchr/testify/require"
)

const (
	modelsPage = "../../../docs/models.md"
	tableHead  = "| Model | f32 | f16 | window | mask | rope | norm | least |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n"
)

// The table of docs/models.md is what is measured, and every mistake that applies to a model is seen: it is far beyond what
// the comparison with float64 lets pass. FERRUM_TEST_GOLDEN=write writes the table.
func TestModelsDocument(t *testing.T) {
	if race.Enabled {
		t.Skip("measured without the race detector")
	}
	be, table := openCPU(t), tableHead
	page, err := os.ReadFile(modelsPage)
	require.NoError(t, err)
	for _, f := range figures(t) {
		m := f.load(t, "4")
		cells := []float64{measure(t, f, be, m, cacheOf(kvcache.Paged, backend.F32), 64), measure(t, f, be, m, cacheOf(kvcache.Paged, backend.F16), 64)}
		made, least := map[string]float64{}, math.Inf(1)
		for _, name := range mistakeNames() {
			if wrong := mistaken(m, name); wrong != nil {
				made[name] = measure(t, f, be, wrong, cacheOf(kvcache.Paged, backend.F32), 64)
				require.Greater(t, made[name], 100*within[backend.F32], "%s: %s", f.Name, name)
				least = min(least, made[name])
			}
		}
		t.Log(f.Name, made)
		row := fmt.Sprintf("| %s | %.0e | %.0e |", f.Name, cells[0], cells[1])
		for _, name := range []string{"window", "mask", "rope", "norm"} {
			if _, applies := made[name]; !applies {
				row += " – |"
				continue
			}
			row += fmt.Sprintf(" %.1e |", made[name])
		}
		table += row + fmt.Sprintf(" %.1e |\n", least)
	}
	_, rest, found := strings.Cut(string(page), tableHead)
	require.True(t, found, "the head of the table")
	old, _, _ := strings.Cut(rest, "\n\n")
	old = tableHead + strings.TrimSuffix(old, "\n") + "\n"
	if os.Getenv("FERRUM_TEST_GOLDEN") == "write" {
		require.NoError(t, os.WriteFile(modelsPage, []byte(strings.Replace(string(page), old, table, 1)), 0o644))
		return
	}
	sameTable(t, old, table)
}

// sameTable compares numbers: of mistakes to a tenth, and of what rounding did, which is another on other processors, to its order.
func sameTable(t *testing.T, old, new string) {
	have, want := strings.Split(new, "\n"), strings.Split(old, "\n")
	require.Equal(t, len(want), len(have), "rows")
	for i := range want {
		h, w := strings.Split(have[i], "|"), strings.Split(want[i], "|")
		require.Equal(t, len(w), len(h), want[i])
		for j := range w {
			documented, err := strconv.ParseFloat(strings.TrimSpace(w[j]), 64)
			if err != nil {
				require.Equal(t, w[j], h[j], want[i])
				continue
			}
			measured, err := strconv.ParseFloat(strings.TrimSpace(h[j]), 64)
			require.NoError(t, err)
			if j <= 3 {
				require.LessOrEqual(t, measured, 4*documented, want[i])
				require.GreaterOrEqual(t, measured, documented/8, want[i])
				continue
			}
			require.InEpsilon(t, documented, measured, 0.1, want[i])
		}
	}
}
