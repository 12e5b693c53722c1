//go:build linux && cgo && !nometal && metalsimt

package mtl

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/metal.md has a line for each code that errors explain, with the same name.
func TestDocumentsNameCodes(t *testing.T) {
	text, err := os.ReadFile("../../../docs/metal.md")
	require.NoError(t, err)
	lines := 0
	for code, meaning := range meanings {
		name, _, found := strings.Cut(meaning, ": ")
		require.True(t, found, meaning)
		require.Contains(t, string(text), fmt.Sprintf("\n| %d | %s | ", code, name))
		lines++
	}
	_, table, _ := strings.Cut(string(text), "\n| [MTLCommandBufferError]")
	table, _, _ = strings.Cut(table, "\n\n")
	require.Equal(t, 1+lines, strings.Count(table, "\n"), "and none for others")
}
