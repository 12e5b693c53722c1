package host

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/host.md has the numbers that its examples print, which are compared with what they compute.
func TestPageHasTheNumbersOfExamples(t *testing.T) {
	page, err := os.ReadFile("../../docs/host.md")
	require.NoError(t, err)
	number := regexp.MustCompile(`\d+(?:\.\d+)?`)
	have := number.FindAllString(regexp.MustCompile(`(\d),(\d)`).ReplaceAllString(string(page), "$1$2"), -1)
	for name, calls := range map[string]string{"paged_example_test.go": "host.NewBlockStore", "prefix_example_test.go": "host.NewPrefixKvCache", "../quant/example_test.go": "quant.New"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Contains(t, string(text), calls)
		_, output, found := strings.Cut(string(text), "// Output:\n")
		require.True(t, found, name)
		printed := 0
		for line := range strings.Lines(output) {
			line, comment := strings.CutPrefix(strings.TrimSpace(line), "// ")
			if !comment {
				break
			}
			if strings.Contains(line, "ends with") { // a line for each cache, of which the page has the sum
				continue
			}
			for _, n := range number.FindAllString(line, -1) {
				require.Contains(t, have, n, "%s prints %q", name, line)
				printed++
			}
		}
		require.Greater(t, printed, 3, name)
	}
}
