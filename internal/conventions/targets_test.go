package conventions

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
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
	require.NoError(t, fs.WalkDir(os.DirFS("../.."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (slices.Contains(notOurs, name) || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if ext := path.Ext(name); ext != ".md" && !(ext == ".yml" && strings.HasPrefix(name, ".github/ISSUE_TEMPLATE/")) {
			return nil
		}
		text, err := os.ReadFile("../../" + name)
		for _, m := range use.FindAllStringSubmatch(string(text), -1) {
			require.True(t, targets[m[1]], "%s: make %s", name, m[1])
			used++
		}
		return err
	}))
	require.Greater(t, used, 30)
}
