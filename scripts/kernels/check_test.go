package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

// The committed archives are those of the committed sources.
func TestCommitted(t *testing.T) {
	m, err := readManifest("../../kernels/cuda")
	require.NoError(t, err)
	images, problems := checkFiles("../../kernels/cuda", m)
	require.NoError(t, errors.Join(problems...), "make kernels-cuda compiles what changed")
	require.Len(t, images, len(m.Families))
	for _, f := range m.Families {
		require.Equal(t, archiveOf(f.Name).Name, f.Archive)
	}
	for _, k := range m.Kernels {
		i := slices.IndexFunc(m.Families, func(f manifest.Family) bool { return f.Name == k.Family })
		require.Equal(t, familyOf(strings.TrimSuffix(m.Families[i].File, ".cu"), k.Symbol), k.Family)
	}
}

// frame is an archive as any compressor makes it.
func frame(t *testing.T, content string) []byte {
	t.Helper()
	encoder, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	return encoder.EncodeAll([]byte(content), nil)
}

// folder is a folder of kernels without real code: two families that share a header and an archive.
func folder(t *testing.T) (string, *manifest.Manifest) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cuda")
	require.NoError(t, os.Mkdir(dir, 0o755))
	for file, text := range map[string]string{
		"../abi.h":   "#define FKV_ABI_VERSION 4\n",
		"kernel.cuh": "#include \"../abi.h\"\n#include \"emulator.h\"\n#include <stdint.h>\n",
		"append.cu":  "#include \"kernel.cuh\"\n",
		"fill.cu":    "  # include \"kernel.cuh\"\n",
		"other.zst":  string(frame(t, "code of append..code of fill....")),
	} {
		put(t, dir, file, text)
	}
	m := &manifest.Manifest{ABI: 4, Compiler: "none", Compressor: "none", Options: embedded.options, Architectures: embedded.architectures}
	m.Archives = []manifest.Archive{{Name: "other", Sum: sum(frame(t, "code of append..code of fill...."))}}
	m.Kernels = []manifest.Kernel{{Symbol: "fkv_append", Family: "append"}, {Symbol: "fkv_fill", Family: "fill"}}
	for i, name := range []string{"append", "fill"} {
		src, err := sources(dir, name+".cu")
		require.NoError(t, err)
		require.Equal(t, []string{"../abi.h", name + ".cu", "kernel.cuh"}, paths(src))
		for _, s := range src {
			if i == 0 || s.Path == "fill.cu" {
				m.Sources = append(m.Sources, s.Source)
			}
		}
		code := ("code of " + name + "....")[:16]
		m.Units = append(m.Units, manifest.Unit{File: name + ".cu", Sources: paths(src)})
		m.Families = append(m.Families, manifest.Family{Name: name, File: name + ".cu", Archive: "other", Size: 16, Sum: sum([]byte(code))})
	}
	slices.SortFunc(m.Sources, func(a, b manifest.Source) int { return strings.Compare(a.Path, b.Path) })
	return dir, m
}

func put(t *testing.T, dir, file, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
}

func TestCheckFiles(t *testing.T) {
	dir, m := folder(t)
	images, problems := checkFiles(dir, m)
	require.Empty(t, problems)
	require.Equal(t, map[string][]byte{"append": []byte("code of append.."), "fill": []byte("code of fill....")}, images)

	for name, c := range map[string]struct {
		plant func(dir string, m *manifest.Manifest)
		want  []string
	}{
		"source changed": {func(dir string, _ *manifest.Manifest) { put(t, dir, "fill.cu", "#include \"kernel.cuh\"\n//\n") },
			[]string{"fill.cu: fill.cu has changed"}},
		"header changed": {func(dir string, _ *manifest.Manifest) { put(t, dir, "kernel.cuh", "#include \"../abi.h\"\n//\n") },
			[]string{"append.cu: kernel.cuh has changed", "fill.cu: kernel.cuh has changed"}},
		"another include": {func(dir string, _ *manifest.Manifest) { put(t, dir, "emulator.h", "") },
			[]string{"append.cu: compiled without emulator.h", "fill.cu: compiled without emulator.h"}},
		"source gone": {func(dir string, _ *manifest.Manifest) { require.NoError(t, os.Remove(filepath.Join(dir, "fill.cu"))) },
			[]string{"fill.cu: "}},
		"not compiled": {func(dir string, _ *manifest.Manifest) { put(t, dir, "rotate.cu", "") },
			[]string{"rotate.cu was not compiled"}},
		"other ABI": {func(dir string, _ *manifest.Manifest) { put(t, dir, "../abi.h", "#define FKV_ABI_VERSION 5\n") },
			[]string{"version 4 of the ABI, ../abi.h is version 5", "append.cu: ../abi.h has changed", "fill.cu: ../abi.h has changed"}},
		"no ABI": {func(_ string, m *manifest.Manifest) {
			put(t, dir, "../abi.h", "#define FKV_ABI_VERSION four\n")
			m.Sources[0].Sum = sum([]byte("#define FKV_ABI_VERSION four\n"))
		}, []string{"no FKV_ABI_VERSION"}},
		"code changed": {func(dir string, _ *manifest.Manifest) { put(t, dir, "other.zst", "other code") },
			[]string{"other.zst is not the one"}},
		"code of another": {func(dir string, m *manifest.Manifest) {
			m.Archives[0].Sum = sum(frame(t, "code of append..CODE of fill...."))
			put(t, dir, "other.zst", string(frame(t, "code of append..CODE of fill....")))
		}, []string{"other.zst: fill is not the one that the MANIFEST lists"}},
		"more code": {func(dir string, m *manifest.Manifest) {
			m.Archives[0].Sum = sum(frame(t, "code of append..code of fill....more"))
			put(t, dir, "other.zst", string(frame(t, "code of append..code of fill....more")))
		}, []string{"other.zst: 4 bytes are not in the MANIFEST"}},
		"less code": {func(dir string, m *manifest.Manifest) {
			m.Archives[0].Sum = sum(frame(t, "code of append..code"))
			put(t, dir, "other.zst", string(frame(t, "code of append..code")))
		}, []string{"other.zst: fill is not the one that the MANIFEST lists"}},
		"no archive": {func(dir string, m *manifest.Manifest) {
			m.Archives[0].Sum = sum([]byte("raw"))
			put(t, dir, "other.zst", "raw")
		}, []string{"other.zst: "}},
		"code gone": {func(dir string, _ *manifest.Manifest) {
			require.NoError(t, os.Remove(filepath.Join(dir, "other.zst")))
		}, []string{"other.zst: "}},
		"code of nothing": {func(dir string, _ *manifest.Manifest) { put(t, dir, "rotate.zst", "") },
			[]string{"rotate.zst is not in the MANIFEST"}},
		"too much code": {func(dir string, m *manifest.Manifest) {
			large := strings.Repeat("x", maxBytes+1)
			put(t, dir, "other.zst", large)
			m.Archives[0].Sum = sum([]byte(large))
		}, []string{"other.zst: ", fmt.Sprintf("want at most %d", maxBytes)}},
		"too many kernels": {func(_ string, m *manifest.Manifest) {
			m.Kernels = make([]manifest.Kernel, maxKernels+1)
			for i := range m.Kernels {
				m.Kernels[i].Symbol = "fkv_"
			}
		}, []string{"401 kernels, want at most 400"}},
		"other options": {func(_ string, m *manifest.Manifest) { m.Options = m.Options[1:] },
			[]string{"compiled with other options"}},
		"foreign name": {func(_ string, m *manifest.Manifest) { m.Kernels[1].Symbol = "fill" },
			[]string{"kernel fill does not begin with fkv_"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, m = folder(t)
			c.plant(dir, m)
			_, problems := checkFiles(dir, m)
			require.Len(t, problems, len(c.want), "%v", problems)
			for i, want := range c.want {
				require.ErrorContains(t, problems[i], want)
			}
		})
	}
}

func TestCheckReportsAll(t *testing.T) {
	dir, m := folder(t)
	for i := range m.Kernels {
		m.Kernels[i].Threads, m.Kernels[i].Registers = 128, []int{1, 1}
	}
	put(t, dir, "MANIFEST", m.String())
	require.NoError(t, check(dir, false, 1))
	put(t, dir, "fill.cu", "")
	put(t, dir, "other.zst", "")
	err := check(dir, false, 1)
	require.ErrorContains(t, err, "other.zst is not the one")
	require.ErrorContains(t, err, "fill.cu: compiled from kernel.cuh, which it no longer includes")
	require.ErrorContains(t, err, "fill.cu: fill.cu has changed")
	require.ErrorContains(t, err, "4 problems")
}
