package conventions

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// form is an issue form, with the keys that GitHub knows and this project uses.
type form struct {
	Name, Description, Title string
	Labels                   []string
	Body                     []field
}

type field struct {
	Type, ID   string
	Attributes struct {
		Label, Description, Value, Placeholder, Render string
		Options                                        []any
	}
	Validations struct{ Required bool }
}

// GitHub shows no form that it cannot read, and says so to nobody who opens an issue.
func TestIssueFormsCanBeShown(t *testing.T) {
	files, err := filepath.Glob("../../.github/ISSUE_TEMPLATE/*.yml")
	require.NoError(t, err)
	forms := map[string]form{}
	for _, file := range files {
		name := filepath.Base(file)
		if name == "config.yml" {
			continue
		}
		var f form
		strictly(t, file, &f)
		require.NotEmpty(t, f.Name, name)
		require.NotEmpty(t, f.Description, name)
		ids, asks := map[string]bool{}, 0
		for i, part := range f.Body {
			if part.Type == "markdown" {
				require.NotEmpty(t, part.Attributes.Value, "%s: part %d", name, i)
				continue
			}
			asks++
			require.Contains(t, []string{"input", "textarea", "dropdown", "checkboxes"}, part.Type, "%s: part %d", name, i)
			require.NotEmpty(t, part.Attributes.Label, "%s: part %d", name, i)
			require.Regexp(t, "^[a-z]+$", part.ID, "%s: part %d", name, i)
			require.False(t, ids[part.ID], "%s: %s twice", name, part.ID)
			ids[part.ID] = true
			choice := slices.Contains([]string{"dropdown", "checkboxes"}, part.Type)
			require.Equal(t, choice, len(part.Attributes.Options) > 0, "%s: options of %s", name, part.ID)
			for _, option := range part.Attributes.Options {
				if labelled, is := option.(map[string]any); part.Type == "checkboxes" {
					require.True(t, is, "%s: %v", name, option)
					require.NotEmpty(t, labelled["label"], name)
				}
			}
		}
		require.Positive(t, asks, name)
		forms[name] = f
	}
	hardware := forms["hardware.yml"]
	for _, id := range []string{"backend", "device", "system", "commit", "printed", "files"} {
		at := slices.IndexFunc(hardware.Body, func(f field) bool { return f.ID == id })
		require.GreaterOrEqual(t, at, 0, "hardware.yml asks for %s", id)
		require.True(t, hardware.Body[at].Validations.Required, "without %s results say little", id)
	}
	require.Contains(t, forms, "bug.yml")
}

func TestIssuesLeadToPrivateReports(t *testing.T) {
	var config struct {
		Blank bool                                `yaml:"blank_issues_enabled"`
		Links []struct{ Name, URL, About string } `yaml:"contact_links"`
	}
	strictly(t, "../../.github/ISSUE_TEMPLATE/config.yml", &config)
	require.Len(t, config.Links, 1)
	require.NotEmpty(t, config.Links[0].Name)
	require.NotEmpty(t, config.Links[0].About)
	security, err := os.ReadFile("../../SECURITY.md")
	require.NoError(t, err)
	require.Contains(t, string(security), config.Links[0].URL)
}

// strictly reads a YAML file; a key that is not known is an error.
func strictly(t *testing.T, name string, into any) {
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	d := yaml.NewDecoder(file)
	d.KnownFields(true)
	require.NoError(t, d.Decode(into), name)
}
