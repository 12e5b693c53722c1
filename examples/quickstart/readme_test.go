package quickstart_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README shows the body of Example, line for line.
func TestReadmeShowsTheExample(t *testing.T) {
	readme := read(t, "../../README.md")
	block := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(readme)
	require.NotNil(t, block, "README.md has no Go code")
	body := regexp.MustCompile(`(?s)func Example\(\) \{\n(.*?)\n\}\n`).FindStringSubmatch(read(t, "example_test.go"))
	require.NotNil(t, body)
	require.Equal(t, strings.ReplaceAll("\n"+body[1]+"\n", "\n\t", "\n"), "\n"+block[1])
}

// Links to files of the project lead somewhere.
func TestReadmeLinks(t *testing.T) {
	for _, page := range []string{"README.md", "RATIONALE.md"} {
		for _, link := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(read(t, "../../"+page), -1) {
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
