package conventions

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whoever looks for an example finds each of them in docs/examples.md; TestLinks is the other direction.
func TestExamplesAreListed(t *testing.T) {
	page, err := os.ReadFile("../../docs/examples.md")
	require.NoError(t, err)
	programs, err := filepath.Glob("../../examples/*/*_test.go")
	require.NoError(t, err)
	require.NotEmpty(t, programs)
	for _, program := range programs {
		if filepath.Base(program) == "readme_test.go" { // compares the first of them with README.md
			continue
		}
		require.Contains(t, string(page), "](../examples/"+filepath.ToSlash(program[len("../../examples/"):])+")")
	}
}
