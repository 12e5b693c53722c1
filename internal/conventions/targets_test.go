package conventions

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Documents and issue forms name targets of make that there are.
func TestMakeTargets(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	targets := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(string(makefile), -1) {
		targets[m[1]] = true
	}
	use := regexp.MustCompile("(?m)(?:`|^|label: )(?:[A-Z]+=[^ `]+ )*make ([a-z][a-z0-9-]*)(?:[^a-z0-9{-]|$)") // a brace: of a template
	used := 0
	documents(t, func(name, text string) {
		if path.Ext(name) == ".yml" && !strings.HasPrefix(name, ".github/ISSUE_TEMPLATE/") {
			return
		}
		for _, m := range use.FindAllStringSubmatch(text, -1) {
			require.True(t, targets[m[1]], "%s: make %s", name, m[1])
			used++
		}
	}, ".md", ".yml")
	require.Greater(t, used, 30)
}
