package quickstart_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README shows this program, line for line: there it is a package main.
func TestReadmeShowsTheExample(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, "../../README.md"), -1)
	require.Len(t, blocks, 1, "blocks of Go code in README.md")
	program := strings.NewReplacer("package quickstart_test\n", "package main\n", "\nfunc Example() {\n", "\nfunc main() {\n").Replace(read(t, "example_test.go"))
	require.Equal(t, program, blocks[0][1])
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return strings.ReplaceAll(string(data), "\r\n", "\n") // as a checkout on Windows may have it
}
