package main

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// commit makes the current folder, which has these files, a repository.
func commit(t *testing.T, files ...string) {
	t.Chdir(t.TempDir())
	for _, name := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		content := "of " + name + "\n"
		if filepath.Base(name) == "go.mod" {
			content = "module example.org/m/" + filepath.ToSlash(filepath.Dir(name)) + "\n\ngo 1.26\n"
		}
		require.NoError(t, os.WriteFile(name, []byte(content), 0o644))
	}
	for _, args := range [][]string{
		{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "m"},
	} {
		out, err := exec.Command("git", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

func TestZipHasOneModule(t *testing.T) {
	commit(t, "a/go.mod", "a/a.go", "a/b/b.go", "a/b/c/go.mod", "a/b/c/d/d.go", "a/b/cc.go", "e.go")
	require.NoError(t, os.WriteFile("a/new.go", []byte("not committed\n"), 0o644))
	proxy := t.TempDir()
	require.NoError(t, add(proxy, "a", "v0.1.0"))

	r, err := zip.OpenReader(filepath.Join(proxy, "example.org/m/a/@v/v0.1.0.zip"))
	require.NoError(t, err)
	defer r.Close()
	var names []string
	for _, f := range r.File {
		names = append(names, f.Name)
	}
	const prefix = "example.org/m/a@v0.1.0/"
	require.ElementsMatch(t, []string{prefix + "go.mod", prefix + "a.go", prefix + "b/b.go", prefix + "b/cc.go"}, names)

	for name, content := range map[string]string{"list": "v0.1.0\n", "v0.1.0.mod": "module example.org/m/a\n\ngo 1.26\n"} {
		written, err := os.ReadFile(filepath.Join(proxy, "example.org/m/a/@v", name))
		require.NoError(t, err)
		require.Equal(t, content, string(written))
	}
	require.ErrorContains(t, add(proxy, "a/b", "v0.1.0"), "does not exist in 'HEAD'")
	require.ErrorContains(t, add(proxy, "none", "v0.1.0"), "does not exist in 'HEAD'")
}
