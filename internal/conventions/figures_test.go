package conventions

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var number = regexp.MustCompile(`(?:^|[^\w.,])(\d[\d,]*(?:\.\d+)?)(?:[^\w.,]|[.,](?:\D|$)|%|$)`)

// numbersOf are the numbers of a text, as they are written.
func numbersOf(text string) (all []string) {
	for text != "" {
		m := number.FindStringSubmatchIndex(text)
		if m == nil {
			return all
		}
		all = append(all, strings.ReplaceAll(text[m[2]:m[3]], ",", ""))
		text = text[m[3]:]
	}
	return all
}

// stands reports whether a text has a number that is this one, rounded as it is.
func stands(t *testing.T, figure, text string) bool {
	t.Helper()
	_, decimals, _ := strings.Cut(figure, ".")
	want, err := strconv.ParseFloat(figure, 64)
	require.NoError(t, err)
	unit := math.Pow10(-len(decimals))
	for _, n := range numbersOf(text) {
		if have, err := strconv.ParseFloat(n, 64); err == nil && math.Abs(have-want) <= unit/2+1e-9 {
			return true
		}
	}
	return false
}

// The README's table of figures says nothing that the pages it links to do not say.
func TestReadmeFigures(t *testing.T) {
	require.Equal(t, []string{"0.92", "8192", "29.6", "16", "3"}, numbersOf("0.92 (8,192), 29.6 % f32 int8 x4 16, 3."))
	require.True(t, stands(t, "29.6", "a 29.57% b"))
	require.False(t, stands(t, "29.6", "a 29.66% b 296"))

	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(readme), "\n## Figures\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	rows := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(line, " | ")
		link := regexp.MustCompile(`\]\((docs/[^)#]+)`).FindStringSubmatch(line)
		if len(cells) != 3 || link == nil {
			continue
		}
		page, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(link[1])))
		require.NoError(t, err)
		for _, figure := range numbersOf(cells[1] + " " + cells[2]) {
			require.True(t, stands(t, figure, string(page)), "README.md has %s, %s has not", figure, link[1])
		}
		rows++
	}
	require.Greater(t, rows, 3)
}
