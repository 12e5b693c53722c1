package conventions

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/environment.md has every variable that Go code reads by name, and no others. What one test tells its
// own child and what the stand-ins of GPUs read is not for users to set.
func TestEnvironmentIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/environment.md")
	require.NoError(t, err)
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(FERRUM_[A-Z_]+)`").FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, m[1])
	}
	grep := exec.Command("git", "grep", "--untracked", "-hoE", `"FERRUM_[A-Z_]+"`, "--", "*.go")
	grep.Dir = "../.."
	out, err := grep.Output()
	if err != nil {
		t.Skip("without a git checkout the sources cannot be listed")
	}
	read := slices.DeleteFunc(strings.Fields(strings.ReplaceAll(string(out), `"`, "")), func(name string) bool {
		return name == "FERRUM_TEST_CHILD" || strings.HasPrefix(name, "FERRUM_SIMT_")
	})
	slices.Sort(read)
	slices.Sort(documented)
	require.Equal(t, slices.Compact(read), documented)
}
