package conventions

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
)

var (
	roomName = regexp.MustCompile(`(?m)^ +([a-z]+)(?:\[([a-z/]+)\])?$`)
	roomLine = regexp.MustCompile(`(?m)^ +([a-z]+) --> ([a-z]+)$`)
)

// pictureOf is the first picture after a heading of docs/architecture.md.
func pictureOf(t *testing.T, heading string) string {
	text, err := os.ReadFile("../../docs/architecture.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), heading+"\n")
	require.True(t, found, heading)
	_, rest, found = strings.Cut(rest, "```mermaid\n")
	require.True(t, found, heading)
	picture, _, found := strings.Cut(rest, "```")
	require.True(t, found, heading)
	return picture
}

// The picture of the doors has what each module of go.work requires of the others, and nothing else.
func TestPictureOfDoors(t *testing.T) {
	folder := map[string]string{"library": ".", "model": "testdata/model", "cmd": "cmd", "scripts": "scripts"}
	var drawn, there []string
	for _, m := range regexp.MustCompile(`(?m)^ +([a-z]+)(?:\[.*?\])? --> ([a-z]+)`).FindAllStringSubmatch(pictureOf(t, "## Three doors"), -1) {
		drawn = append(drawn, m[1]+" "+m[2])
	}
	for from, dir := range folder {
		text, err := os.ReadFile("../../" + dir + "/go.mod")
		require.NoError(t, err)
		file, err := modfile.Parse(dir, text, nil)
		require.NoError(t, err)
		for _, r := range file.Require {
			for to, dir := range folder {
				if r.Mod.Path == path.Join(module, dir) {
					there = append(there, from+" "+to)
				}
			}
		}
	}
	require.ElementsMatch(t, there, drawn)
}

// The picture in docs/architecture.md has every import between the rooms that it draws, but for those
// of the GPU backends, and no other.
func TestPictureOfRooms(t *testing.T) {
	picture := pictureOf(t, "## Who imports whom")
	paths, drawn := map[string]string{}, map[string]bool{}
	for _, m := range roomName.FindAllStringSubmatch(strings.ReplaceAll(picture, "\n  end\n", "\n"), -1) {
		if paths[m[1]] = m[2]; m[2] == "" {
			paths[m[1]] = m[1]
		}
	}
	for _, m := range roomLine.FindAllStringSubmatch(picture, -1) {
		from, to := paths[m[1]], paths[m[2]]
		require.NotEmpty(t, from, m[0])
		require.NotEmpty(t, to, m[0])
		drawn[from+" "+to] = true
	}
	require.Greater(t, len(drawn), 20)
	room, there := map[string]bool{}, map[string]bool{}
	for _, p := range paths {
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
