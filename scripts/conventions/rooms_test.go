package conventions

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	roomName = regexp.MustCompile(`(?m)^ +([a-z]+)(?:\[([a-z/]+)\])?$`)
	roomLine = regexp.MustCompile(`(?m)^ +([a-z]+) --> ([a-z]+)$`)
)

// The picture in docs/architecture.md has every import between the rooms that it draws, but for those
// of the GPU backends, and no other.
func TestPictureOfRooms(t *testing.T) {
	text, err := os.ReadFile("../../docs/architecture.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(text), "```mermaid\n")
	picture, _, found := strings.Cut(rest, "```")
	require.True(t, found)
	path, drawn := map[string]string{}, map[string]bool{}
	for _, m := range roomName.FindAllStringSubmatch(strings.ReplaceAll(picture, "\n  end\n", "\n"), -1) {
		if path[m[1]] = m[2]; m[2] == "" {
			path[m[1]] = m[1]
		}
	}
	for _, m := range roomLine.FindAllStringSubmatch(picture, -1) {
		from, to := path[m[1]], path[m[2]]
		require.NotEmpty(t, from, m[0])
		require.NotEmpty(t, to, m[0])
		drawn[from+" "+to] = true
	}
	require.Greater(t, len(drawn), 20)
	room, there := map[string]bool{}, map[string]bool{}
	for _, p := range path {
		room[p] = true
	}
	for p := range room {
		if p == "backend/cuda" || p == "backend/metal" {
			continue
		}
		for _, imported := range list(t, "-f", "{{join .Imports \"\\n\"}}", module+"/"+p) {
			if to := strings.TrimPrefix(imported, module+"/"); room[to] {
				there[p+" "+to] = true
			}
		}
	}
	require.Equal(t, there, drawn)
}
