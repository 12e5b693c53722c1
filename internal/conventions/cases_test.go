package conventions

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Citations of a case: at the beginning of a test's name, as in TestB1SharedPrefix,
// TestRegressionF16F17Cached and TestC1To4Scopes, or of its comment, as in "B1, B2: why".
var (
	inName    = regexp.MustCompile(`^Test(?:Regression)?((?:[A-G]\d+)+)(?:To(\d+))?`)
	inComment = regexp.MustCompile(`^((?:[A-G]\d+(?:, )?)+): `)
	caseID    = regexp.MustCompile(`[A-G]\d+`)
)

// cited are the cases that a test's name and its comment cite.
func cited(name, comment string) (ids []string) {
	if m := inName.FindStringSubmatch(name); m != nil {
		ids = caseID.FindAllString(m[1], -1)
		for last := ids[len(ids)-1]; m[2] != "" && last[1:] != m[2]; ids = append(ids, last) {
			last = last[:1] + string(last[1]+1) // of one digit
		}
	}
	if m := inComment.FindStringSubmatch(comment); m != nil {
		ids = append(ids, caseID.FindAllString(m[1], -1)...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// citing are the tests that cite each case, as "kvcache/block TestA1QueueOperations".
func citing(t *testing.T) map[string][]string {
	out := map[string][]string{}
	files := token.NewFileSet()
	root := os.DirFS("../..")
	for _, dir := range []string{"kvcache", "internal/runner"} {
		require.NoError(t, fs.WalkDir(root, dir, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(files, filepath.Join("../..", name), nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") {
					continue
				}
				for _, id := range cited(f.Name.Name, f.Doc.Text()) {
					out[id] = append(out[id], path.Dir(name)+" "+f.Name.Name)
				}
			}
			return nil
		}))
	}
	return out
}

// docs/cases.md has each case that a test cites, and no others; and it names the tests
// that do, all of them.
func TestCasesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/cases.md")
	require.NoError(t, err)
	documented := map[string][]string{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 4 || caseID.FindString(cells[0]) != cells[0] {
			continue
		}
		require.NotContains(t, documented, cells[0], "twice")
		for _, of := range strings.Split(cells[3], "; ") {
			dir, names, ok := strings.Cut(of, ": ")
			require.True(t, ok, cells[0])
			for _, name := range strings.Split(names, ", ") {
				documented[cells[0]] = append(documented[cells[0]], dir+" "+strings.Trim(name, "`"))
			}
		}
	}
	cites := citing(t)
	require.Greater(t, len(cites), 40)
	for id, tests := range cites {
		require.ElementsMatch(t, tests, documented[id], id)
	}
	require.Len(t, documented, len(cites), "each documented case is tested")
}

func TestCited(t *testing.T) {
	for _, c := range []struct {
		name, comment string
		want          []string
	}{
		{"TestB1SharedPrefix", "", []string{"B1"}},
		{"TestC1To4ScopesDoNotMeet", "", []string{"C1", "C2", "C3", "C4"}},
		{"TestRegressionF16F17WholePromptCached", "F17: why", []string{"F16", "F17"}},
		{"TestReleasedInFlight", "E1: what is released\nB2: is not one", []string{"E1"}},
		{"TestHistories", "A6, A10: thousands", []string{"A10", "A6"}},
		{"TestH2OKeepsHeavyHitters", "F16 is a type here.", nil},
	} {
		require.Equal(t, c.want, cited(c.name, c.comment))
	}
}
