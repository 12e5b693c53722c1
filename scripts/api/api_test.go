package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/api.txt is what the packages of the library export.
func TestExportedAPI(t *testing.T) {
	needGo(t)
	root, path, err := moduleOf("../..")
	require.NoError(t, err)
	now, err := List(root, path)
	require.NoError(t, err)
	was, err := os.ReadFile(filepath.Join(root, golden))
	require.NoError(t, err)
	if diff := changes(lines(was), now); diff != "" {
		t.Errorf("the exported API has changed:\n%sif that is meant, run make api, commit %s, and say it in CHANGELOG.md", diff, golden)
	}
}

// changes are the lines that are gone and those that are new; nothing where there are none.
func changes(was, now []string) string {
	var out strings.Builder
	for _, line := range was {
		if !slices.Contains(now, line) {
			out.WriteString("- " + line + "\n")
		}
	}
	for _, line := range now {
		if !slices.Contains(was, line) {
			out.WriteString("+ " + line + "\n")
		}
	}
	return out.String()
}

// Every kind of declaration has its line, of each platform, and nothing else has one.
func TestList(t *testing.T) {
	needGo(t)
	want, err := os.ReadFile("testdata/shop.txt")
	require.NoError(t, err)
	require.Equal(t, strings.Join(lines(want), "\n"), strings.Join(shop(t, "testdata/shop"), "\n"))
}

// A change that callers see changes lines, and one that they do not see changes none.
func TestChanges(t *testing.T) {
	needGo(t)
	before := shop(t, "testdata/shop")
	for _, c := range []struct{ what, file, old, new, diff string }{
		{"another parameter", "shop.go", "visit func(key string, at int)", "visit func(key string, at int64)",
			"- pkg shop, func Open(string, func(string, int) bool, ...io.Reader) (*Box[int], error)\n" +
				"+ pkg shop, func Open(string, func(string, int64) bool, ...io.Reader) (*Box[int], error)\n"},
		{"names of parameters", "shop.go", "visit func(key string, at int)", "see func(k string, i int)", ""},
		{"a value", "shop.go", "iota + 1", "iota", "" +
			"- pkg shop, const Green Colour = 2\n- pkg shop, const Red Colour = 1\n+ pkg shop, const Green Colour = 1\n+ pkg shop, const Red Colour = 0\n"},
		{"a tag", "shop.go", "size,omitempty", "size",
			"- pkg shop, type Box[T any] struct, Size int \"json:\\\"size,omitempty\\\"\"\n+ pkg shop, type Box[T any] struct, Size int \"json:\\\"size\\\"\"\n"},
		{"a constraint", "shop.go", "~int | ~float64", "~int",
			"- pkg shop, type Number interface { ~int | ~float64 }\n+ pkg shop, type Number interface { ~int }\n"},
		{"a method of a hidden type", "internal/hidden/hidden.go", "(f Fault) Error", "(f *Fault) Error",
			"- pkg shop, method (Raised) Error() string\n+ pkg shop, method (*Raised) Error() string\n"},
		{"a number of a header", "parts/driver.h", "DRIVER_FAST = 3", "DRIVER_FAST = 4",
			"- pkg parts (linux-amd64-cgo), const Fast Mode = 3\n+ pkg parts (linux-amd64-cgo), const Fast Mode = 4\n"},
		{"fewer platforms", "parts/system_other.go", "!windows", "linux",
			"- pkg parts (linux-amd64-cgo linux-amd64 darwin-arm64-cgo), func Mount() string\n+ pkg parts (linux-amd64-cgo linux-amd64), func Mount() string\n"},
		{"what is not exported", "shop.go", "secret      T", "secrets     []T", ""},
	} {
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/shop")))
		text, err := os.ReadFile(filepath.Join(dir, c.file))
		require.NoError(t, err)
		require.Contains(t, string(text), c.old)
		require.NoError(t, os.WriteFile(filepath.Join(dir, c.file), []byte(strings.ReplaceAll(string(text), c.old, c.new)), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.org/shop\n"), 0o644))
		require.NoError(t, os.Rename(filepath.Join(dir, "shop.go"), filepath.Join(dir, "another.go")), "files' names do not count")
		require.Equal(t, c.diff, changes(before, shop(t, dir)), c.what)
	}
}

// A type that only a compiler of C knows has no line that would be true elsewhere.
func TestTypesOfCAreRefused(t *testing.T) {
	needGo(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "c.go"), []byte("package c\n\nimport \"C\"\n\nfunc Size() C.int { return 1 }\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.org/c\n"), 0o644))
	_, err := List(dir, "example.org/c")
	require.ErrorContains(t, err, "example.org/c on linux-amd64-cgo: func Size() invalid type: types of C")
}

func TestCount(t *testing.T) {
	require.Equal(t, ""+
		"package                   types  objects\n"+
		"backend                       2        4\n"+
		"kvcache                       1        1\n"+
		"together                      3        5\n",
		count([]string{
			"pkg backend, func Open(string, int) error",
			"pkg backend, type Buffer interface { Len }",
			"pkg backend (linux-amd64), type Rows[B Buffer] struct",
			"pkg backend (windows-amd64), type Rows[B Buffer] struct", // one object, declared twice
			"pkg backend, type Rows[B Buffer] struct, Buf B",
			"pkg kvcache, type Layout = kvcache/config.Layout",
		}))
}

func shop(t *testing.T, dir string) []string {
	dir, err := filepath.Abs(dir)
	require.NoError(t, err)
	list, err := List(dir, "example.org/shop")
	require.NoError(t, err)
	return list
}

// lines are those of a text, whatever a checkout ends them with.
func lines(text []byte) []string {
	return strings.Split(strings.TrimSuffix(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n"), "\n")
}

func needGo(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("without the go command")
	}
}
