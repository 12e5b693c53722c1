package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rig is a repository with a module of two packages, and a runner that works in it.
type rig struct {
	*runner
	t   *testing.T
	out bytes.Buffer
}

func newRig(t *testing.T) *rig {
	g := &rig{t: t}
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{
		"go.mod": "module example.org/m\n\ngo 1.24\n", "a/a.go": "package a\n\nimport _ \"example.org/m/b\"\n",
		"b/b.go": "package b\n", "b/testdata/x/y.txt": "1\n", "c/c.go": "package c\n", "README.md": "read me\n", "data/d.txt": "1\n",
		".gitignore": "/build/\n",
	} {
		g.write(name, content)
	}
	_, err := output("git", "init", "-q")
	require.NoError(t, err)
	_, err = output("git", "add", ".")
	require.NoError(t, err)
	g.restart()
	return g
}

// restart is a new process in the same repository.
func (g *rig) restart() {
	g.runner = &runner{began: time.Now(), lanes: 2, logs: filepath.Join("build", "checks"), out: &g.out, known: newInputs(), records: "passed"}
}

func (g *rig) write(name, content string) {
	require.NoError(g.t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(g.t, os.WriteFile(name, []byte(content), 0o644))
}

func (g *rig) hash(c check) string {
	h, err := newInputs().hash(c)
	require.NoError(g.t, err)
	require.Len(g.t, h, 32)
	return h
}

// recordedNames is the checks that have a record of what is there now.
func (g *rig) recordedNames(checks ...check) (names []string) {
	for _, c := range checks {
		_, why, err := g.recorded(c)
		require.NoError(g.t, err)
		if why == "" {
			names = append(names, c.name)
		}
	}
	return names
}

// sh is a check that runs a line of shell, and counts how often it did in a file of its name.
func sh(name, line string) check {
	return check{name: name, when: onChange, command: []string{"sh", "-c", "mkdir -p build && echo >>build/" + name + " && " + line}, paths: []string{"data"}}
}

// ran is how often it did.
func (g *rig) ran(c check) int {
	content, err := os.ReadFile("build/" + c.name)
	if !os.IsNotExist(err) {
		require.NoError(g.t, err)
	}
	return bytes.Count(content, []byte("\n"))
}

var ctx = context.Background()
