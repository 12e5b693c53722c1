package conventions

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each example is listed in docs/examples.md; TestLinks is the other direction.
func TestExamplesAreListed(t *testing.T) {
	page, err := os.ReadFile("../../docs/examples.md")
	require.NoError(t, err)
	programs, err := filepath.Glob("../../examples/*/example_test.go")
	require.NoError(t, err)
	require.NotEmpty(t, programs)
	for _, program := range programs {
		require.Contains(t, string(page), "](../examples/"+filepath.ToSlash(program[len("../../examples/"):])+")")
	}
}
