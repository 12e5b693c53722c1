package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHashFollowsInputs(t *testing.T) {
	g := newRig(t)
	c := check{name: "x", command: []string{"true"}, packages: []string{"./a"}, paths: []string{"data"}}
	first := g.hash(c)
	const requires = "module example.org/m\n\ngo 1.25\n\nrequire (\n\t" + repositoryModules + "x "
	for _, change := range []struct {
		why     string
		do      func()
		changes bool
	}{
		{"a document", func() { g.write("a/README.md", "more\n") }, false},
		{"a package that it does not import", func() { g.write("c/c.go", "package c // more\n") }, false},
		{"what git ignores", func() { g.write("build/x", "1") }, false},
		{"an imported package", func() { g.write("b/b.go", "package b // more\n") }, true},
		{"a test of it", func() { g.write("b/b_test.go", "package b\n") }, false},
		{"its test data", func() { g.write("b/testdata/x/y.txt", "2\n") }, true},
		{"a new test that imports another package", func() { g.write("a/a_test.go", "package a\n\nimport _ \"example.org/m/c\"\n") }, true},
		{"that package", func() { g.write("c/c.go", "package c // still more\n") }, true},
		{"a file of a path", func() { g.write("data/d.txt", "2\n") }, true},
		{"a file that git does not know yet", func() { g.write("data/e.txt", "2\n") }, true},
		{"a deleted file", func() { require.NoError(t, os.Remove("data/d.txt")) }, true},
		{"go.mod", func() { g.write("go.mod", requires+"v0.1.0\n)\n") }, true},
		{"a version of a module of this repository", func() { g.write("go.mod", requires+"v0.2.0\n)\n") }, false},
	} {
		before := g.hash(c)
		change.do()
		require.Equal(t, change.changes, before != g.hash(c), change.why)
	}
	require.NotEqual(t, first, g.hash(c))
}

// The tests of packages that another check has are no input; what these packages are is one, where others import them.
func TestHashLeavesOutTestsOfOtherChecks(t *testing.T) {
	g := newRig(t)
	g.write("b/b_test.go", "package b\n")
	g.write("c/c_test.go", "package c\n")
	rest := check{name: "x", command: []string{"true"}, packages: []string{"./..."}, except: []string{"./b"}}
	for _, change := range []struct {
		file    string
		changes bool
	}{{"b/b_test.go", false}, {"b/b.go", true}, {"c/c_test.go", true}} {
		before := g.hash(rest)
		g.write(change.file, "package "+change.file[:1]+" // more\n")
		require.Equal(t, change.changes, before != g.hash(rest), change.file)
	}
}

// What the program and the workshop require is an input of their own checks alone.
func TestHashFollowsTheModuleOfPackages(t *testing.T) {
	g := newRig(t)
	g.write("cmd/go.mod", "module example.org/m/cmd\n\ngo 1.24\n")
	g.write("cmd/d/d.go", "package d\n")
	g.write("go.work", "go 1.24\n\nuse (\n\t.\n\t./cmd\n)\n")
	library := check{name: "x", command: []string{"true"}, packages: []string{"./a"}, when: onChange}
	program := check{name: "y", command: []string{"true"}, packages: []string{"./a", "./cmd/d"}, when: onChange}
	for _, change := range [][2]string{
		{"go.work", "go 1.25\n\nuse (\n\t.\n\t./cmd\n)\n"}, {"cmd/go.mod", "module example.org/m/cmd\n\ngo 1.25\n"},
	} {
		of, others := g.hash(library), g.hash(program)
		g.write(change[0], change[1])
		require.Equal(t, of, g.hash(library), change[0])
		require.NotEqual(t, others, g.hash(program), change[0])
	}
	require.Equal(t, "GOWORK=off", library.workspace())
	require.Equal(t, "GOWORK=", program.workspace())
}

func TestHashFollowsCommand(t *testing.T) {
	g := newRig(t)
	c := check{name: "x", command: []string{"true"}}
	first := g.hash(c)
	c.name, c.what = "y", "says something else"
	require.Equal(t, first, g.hash(c))
	for _, other := range []check{
		{command: []string{"true", "-v"}}, {command: []string{"true"}, env: []string{"A=b"}}, {command: []string{"true"}, tags: "a"}, {command: []string{"scripts/x"}},
	} {
		require.NotEqual(t, first, g.hash(other))
	}
	script := check{command: []string{"scripts/x"}}
	first = g.hash(script)
	g.write("scripts/x", "true\n")
	require.NotEqual(t, first, g.hash(script), "the script that it runs")
}

// A record of a run that tried less is not one of a whole run.
func TestHashFollowsWhatTestsAreToldToTry(t *testing.T) {
	g := newRig(t)
	c := check{command: []string{"true"}}
	for _, name := range chosen {
		t.Setenv(name, "") // this very test may run where these are set
	}
	first := g.hash(c)
	seen := map[string]bool{first: true}
	for _, name := range chosen {
		t.Setenv(name, "5")
		h := g.hash(c)
		require.False(t, seen[h], name)
		seen[h] = true
		t.Setenv(name, "")
	}
	t.Setenv("FERRUM_TEST_DATA", "elsewhere")
	t.Setenv("GOFLAGS", "-short") // which no check sees
	require.Equal(t, first, g.hash(c))
}

// A check that names no inputs depends on all there are, but for the records.
func TestHashOfEverything(t *testing.T) {
	g := newRig(t)
	c := check{command: []string{"make", "test"}}
	for _, name := range []string{"a/a.go", "README.md", "data/d.txt", "new/file"} {
		before := g.hash(c)
		g.write(name, "package x // of "+name+"\n")
		require.NotEqual(t, before, g.hash(c), name)
	}
	before := g.hash(c)
	g.write(".ci/passed", "a record\n")
	g.write("build/x", "what git ignores\n")
	g.write("other/x", "of a repository of its own\n")
	_, err := output("git", "init", "-q", "other")
	require.NoError(t, err)
	require.Equal(t, before, g.hash(c))
}

func TestHashOfBrokenPackages(t *testing.T) {
	newRig(t)
	_, err := newInputs().hash(check{command: []string{"true"}, packages: []string{"./none"}})
	require.ErrorContains(t, err, "go list")
}

func TestToolVersion(t *testing.T) {
	newRig(t)
	in := newInputs()
	require.Contains(t, in.toolVersion("go"), "go version go1.")
	require.Empty(t, in.toolVersion("there-is-no-such-tool"))
}
