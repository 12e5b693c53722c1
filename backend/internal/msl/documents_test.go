package msl

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Where a document says how many instances of the Metal kernels there are, it is as many as there are.
func TestDocumentsCountInstances(t *testing.T) {
	const root = "../../.."
	said := 0
	for _, file := range []string{"RATIONALE.md", "docs/metal.md", "docs/kernels.md", "kernels/simt/README.md"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		for _, found := range regexp.MustCompile(`\b(\d+) (?:kernel |Metal |of them )*instances\b`).FindAllSubmatch(text, -1) {
			n, err := strconv.Atoi(string(found[1]))
			require.NoError(t, err)
			require.Equal(t, len(Instances()), n, "%s: %s", file, found[0])
			said++
		}
	}
	require.NotZero(t, said)
}

// The workflow that compiles the kernels on a Mac starts where files change that there are.
func TestWorkflowNamesFiles(t *testing.T) {
	const root = "../../.."
	text, err := os.ReadFile(filepath.Join(root, ".github/workflows/metal.yml"))
	require.NoError(t, err)
	lists := regexp.MustCompile(`(?s)paths: \[(.*?)\]`).FindAllSubmatch(text, -1)
	require.Len(t, lists, 2, "of pushes and of pull requests")
	require.Equal(t, string(lists[0][1]), string(lists[1][1]))
	for _, found := range regexp.MustCompile(`"(.*?)"`).FindAllSubmatch(lists[0][1], -1) {
		_, err := os.Stat(filepath.Join(root, strings.TrimSuffix(string(found[1]), "/**")))
		require.NoError(t, err)
	}
}
