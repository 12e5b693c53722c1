package conventions

import (
	"cmp"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	changelogHead = regexp.MustCompile(`(?m)^## (.*)$`)
	changelogKind = regexp.MustCompile(`(?m)^### (.*)$`)
	released      = regexp.MustCompile(`^\[(\d+)\.(\d+)\.(\d+)\] - \d{4}-\d{2}-\d{2}$`)
)

// CHANGELOG.md begins with what is not released yet; versions follow with their days, the newest first.
func TestChangelog(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	require.NoError(t, err)
	var heads []string
	for _, m := range changelogHead.FindAllStringSubmatch(strings.ReplaceAll(string(text), "\r", ""), -1) {
		heads = append(heads, m[1])
	}
	require.NotEmpty(t, heads)
	require.Equal(t, "[Unreleased]", heads[0])
	require.NoError(t, descending(heads[1:]))
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	require.Equal(t, len(heads) == 1, strings.Contains(string(readme), "No version is released yet"), "README.md says whether there is a version")
	for _, m := range changelogKind.FindAllStringSubmatch(strings.ReplaceAll(string(text), "\r", ""), -1) {
		require.Contains(t, []string{"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}, m[1])
	}
}

type errVersion string

func (e errVersion) Error() string {
	return "CHANGELOG.md: " + string(e) + " is not [MAJOR.MINOR.PATCH] - DATE, below the one before"
}

func descending(heads []string) error {
	var last []int
	for _, head := range heads {
		m := released.FindStringSubmatch(head)
		if m == nil {
			return errVersion(head)
		}
		var version []int
		for _, part := range m[1:] {
			n, err := strconv.Atoi(part)
			if err != nil {
				return err
			}
			version = append(version, n)
		}
		if last != nil && slices.Compare(version, last) >= 0 {
			return errVersion(head)
		}
		last = version
	}
	return nil
}

func TestVersionsDescend(t *testing.T) {
	require.NoError(t, descending([]string{"[0.10.0] - 2027-02-01", "[0.9.1] - 2027-01-02", "[0.9.0] - 2027-01-01"}))
	for _, heads := range [][]string{
		{"[0.9.0] - 2027-01-01", "[0.10.0] - 2027-02-01"}, {"[0.9.0] - 2027-01-01", "[0.9.0] - 2027-01-01"}, {"0.9.0 - 2027-01-01"}, {"[0.9.0]"},
	} {
		require.ErrorAs(t, descending(heads), new(errVersion), heads)
	}
}

// CONTRIBUTING.md says of each module in this repository whether it is tagged.
func TestModulesOfReleases(t *testing.T) {
	text, err := os.ReadFile("../../CONTRIBUTING.md")
	require.NoError(t, err)
	var modules, listed []string
	walk(t, repository, func(name string, d fs.DirEntry) {
		if d.Name() == "go.mod" {
			modules = append(modules, path.Dir(name))
		}
	})
	_, releases, found := strings.Cut(string(text), "\n## Releases\n")
	require.True(t, found)
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(releases, -1) {
		listed = append(listed, cmp.Or(strings.TrimPrefix(strings.TrimPrefix(m[1], module), "/"), "."))
	}
	require.ElementsMatch(t, modules, listed)
}
