package chat

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// templates are the source of each template of testdata, and what Jinja2 makes of it: render.py there says how.
func templates(t *testing.T) (sources map[string]string, rendered []struct {
	Template, Name, Text, Refused string
	Messages                      []Message
	Answer                        bool
}) {
	sources = map[string]string{}
	files, err := filepath.Glob("testdata/*.jinja")
	require.NoError(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		sources[filepath.Base(file)] = string(data)
	}
	data, err := os.ReadFile("testdata/rendered.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &rendered))
	require.NotEmpty(t, rendered)
	return sources, rendered
}

// Templates with what those of models consist of give the text that Jinja2 gives, or refuse with the same words.
func TestTemplatesAreRenderedAsByJinja(t *testing.T) {
	sources, rendered := templates(t)
	for _, c := range rendered {
		at := Template{Source: sources[c.Template], BOS: "<s>", EOS: "</s>", Now: time.Date(2026, 3, 5, 9, 7, 0, 0, time.UTC)}
		text, err := at.render(c.Messages, c.Answer)
		if c.Refused != "" {
			require.EqualError(t, err, c.Refused, "%s, %s", c.Template, c.Name)
			continue
		}
		require.NoError(t, err, "%s, %s", c.Template, c.Name)
		require.Equal(t, c.Text, text, "%s, %s", c.Template, c.Name)
	}
}
