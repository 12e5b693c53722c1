package quickstart_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README shows the imports and the body of Example, line for line.
func TestReadmeShowsTheExample(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, "../../README.md"), 2)
	require.Len(t, blocks, 2, "blocks of Go code in README.md")
	example := regexp.MustCompile(`(?s)\n(import \(\n.*?\n\)\n)\nfunc Example\(\) \{\n(.*?\n)\}\n`).FindStringSubmatch(read(t, "example_test.go"))
	require.NotNil(t, example)
	require.Equal(t, example[1], blocks[0][1])
	require.Equal(t, strings.ReplaceAll("\n"+example[2], "\n\t", "\n"), "\n"+blocks[1][1])
}

// Links to files of the project lead somewhere.
func TestReadmeLinks(t *testing.T) {
	for _, page := range []string{"README.md", "RATIONALE.md"} {
		text := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(read(t, "../../"+page), "") // calls of generic functions are no links
		for _, link := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(text, -1) {
			if !strings.Contains(link[1], "://") {
				_, err := os.Stat("../../" + link[1])
				require.NoError(t, err, "%s links to %s", page, link[1])
			}
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return strings.ReplaceAll(string(data), "\r\n", "\n") // as a checkout on Windows may have it
}
