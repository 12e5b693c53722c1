package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Each name counts once for a file that uses it; the one that does not fit the order runs back up.
func TestArrows(t *testing.T) {
	g, err := Load("testdata/rooms")
	require.NoError(t, err)
	require.ElementsMatch(t, []Arrow{
		{"middle.go", "ground.go", "ground"}, {"middle.go", "ground.go", "dig"}, {"middle.go", "top.go", "top"},
		{"top.go", "middle.go", "middle"}, {"top.go", "middle.go", "deep"}, {"top.go", "middle.go", "on"}, {"top.go", "ground.go", "dig"},
	}, g.Arrows)
	require.Equal(t, []string{"ground.go", "middle.go", "top.go"}, g.Order())
	require.Equal(t, []Arrow{{"middle.go", "top.go", "top"}}, g.Back(g.Order()))
	_, err = run("", true)
	require.Error(t, err)
}

// The files of package kvcache can be read one after another: it is the public face, and what could be a room
// of its own is one.
func TestKvcacheHasInnerWalls(t *testing.T) {
	g, err := Load("../../kvcache")
	require.NoError(t, err)
	require.LessOrEqual(t, len(g.Files), 24, "files")
	require.LessOrEqual(t, len(g.Back(g.Order())), 10, "arrows that run back up: see go run ./scripts/arrows ./kvcache")
}
