package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// trialFolder is kernels/cuda with two units and a variant, wide, of files and a patch.
func trialFolder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cuda")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "variants", "wide"), 0o755))
	for file, text := range map[string]string{
		"../abi.h":               "#define FKV_ABI_VERSION 4\n",
		"../storage.h":           "// storage\n",
		"kernel.cuh":             "#include \"../abi.h\"\n",
		"demo.cu":                "#include \"kernel.cuh\"\n// one\n// two\n",
		"fill.cu":                "#include \"kernel.cuh\"\n",
		"MANIFEST":               "of others",
		"other.zst":              "of others",
		"variants/wide/demo.cu":  "#include \"wide.cuh\"\n// one\n// two\n",
		"variants/wide/wide.cuh": "#include \"../storage.h\"\n#include \"kernel.cuh\"\n",
		"variants/wide.diff":     "--- a/demo.cu\n+++ b/demo.cu\n@@ -1,3 +1,3 @@\n #include \"wide.cuh\"\n-// one\n+// patched\n // two\n--- /dev/null\n+++ b/extra.cu\n@@ -0,0 +1 @@\n+#include \"kernel.cuh\"\n",
		"variants/variants.json": `{"variants": [` + wideEntry + `, ` + plainEntry + `]}`,
	} {
		put(t, dir, file, text)
	}
	return dir
}

func TestOverlay(t *testing.T) {
	dir := trialFolder(t)
	text := func(folder, file string) string {
		b, err := os.ReadFile(filepath.Join(folder, file))
		require.NoError(t, err)
		return string(b)
	}
	folder, err := overlay(dir, t.TempDir(), variant{Sources: "wide", Patch: "wide.diff", Units: []string{"demo.cu", "fill.cu", "extra.cu"}})
	require.NoError(t, err)
	require.Equal(t, "#include \"wide.cuh\"\n// patched\n// two\n", text(folder, "demo.cu"))
	require.Equal(t, "#include \"kernel.cuh\"\n", text(folder, "extra.cu"))
	require.NoFileExists(t, filepath.Join(folder, "MANIFEST"))
	require.NoFileExists(t, filepath.Join(folder, "other.zst"))
	found, err := sources(folder, "demo.cu")
	require.NoError(t, err)
	require.Equal(t, []string{"../abi.h", "../storage.h", "demo.cu", "kernel.cuh", "wide.cuh"}, paths(found))
	version, err := headerVersion(folder)
	require.NoError(t, err)
	require.Equal(t, 4, version)
	require.Contains(t, text(dir, "demo.cu"), "kernel.cuh\"\n// one") // the copy was changed, and nothing else

	folder, err = overlay(dir, t.TempDir(), variant{Units: []string{"demo.cu"}})
	require.NoError(t, err)
	require.Equal(t, text(dir, "demo.cu"), text(folder, "demo.cu"))
	require.NoFileExists(t, filepath.Join(folder, "wide.cuh"))
}

func TestOverlayRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		plant func(dir string)
		v     variant
		want  string
	}{
		{"no such unit", func(string) {}, variant{Sources: "wide", Units: []string{"other.cu"}}, "no unit other.cu in its sources"},
		{"patch of another state", func(string) {}, variant{Patch: "wide.diff", Units: []string{"demo.cu"}}, "wide.diff does not apply"},
		{"patch of files elsewhere", func(dir string) {
			put(t, dir, "variants/wide.diff", "--- a/../abi.h\n+++ b/../abi.h\n@@ -1 +1 @@\n-#define FKV_ABI_VERSION 4\n+#define FKV_ABI_VERSION 5\n")
		}, variant{Patch: "wide.diff", Units: []string{"demo.cu"}}, "wide.diff does not apply"},
		{"no patch", func(dir string) { put(t, dir, "variants/wide.diff", "") }, variant{Patch: "wide.diff"}, "does not apply"},
		{"folder in the folder", func(dir string) {
			require.NoError(t, os.Mkdir(filepath.Join(dir, "variants/wide/more"), 0o755))
		}, variant{Sources: "wide"}, "has a folder, more; put its files beside"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := trialFolder(t)
			c.plant(dir)
			_, err := overlay(dir, t.TempDir(), c.v)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// A temporary folder may be inside of a repository; git would skip files that it does not know.
func TestPatchInRepository(t *testing.T) {
	tmp := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(tmp, ".git", "objects"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(tmp, ".git", "refs"), 0o755))
	put(t, tmp, ".git/HEAD", "ref: refs/heads/main\n")
	t.Setenv("GIT_DIR", filepath.Join(tmp, ".git"))
	folder, err := overlay(trialFolder(t), filepath.Join(tmp, "sub"), variant{Sources: "wide", Patch: "wide.diff", Units: []string{"demo.cu"}})
	require.NoError(t, err)
	patched, err := os.ReadFile(filepath.Join(folder, "demo.cu"))
	require.NoError(t, err)
	require.Contains(t, string(patched), "// patched")
}
