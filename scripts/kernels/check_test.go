package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

// The committed fat binaries are those of the committed sources.
func TestCommitted(t *testing.T) {
	m, err := readManifest("../../kernels/cuda")
	require.NoError(t, err)
	require.NoError(t, errors.Join(checkFiles("../../kernels/cuda", m)...), "make kernels-cuda compiles what changed")
}

// folder is a folder of kernels without real code: two families that share a header.
func folder(t *testing.T) (string, *manifest.Manifest) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cuda")
	require.NoError(t, os.Mkdir(dir, 0o755))
	for file, text := range map[string]string{
		"../abi.h":      "#define FKV_ABI_VERSION 4\n",
		"kernel.cuh":    "#include \"../abi.h\"\n#include \"emulator.h\"\n#include <stdint.h>\n",
		"append.cu":     "#include \"kernel.cuh\"\n",
		"fill.cu":       "  # include \"kernel.cuh\"\n",
		"append.fatbin": "code of append",
		"fill.fatbin":   "code of fill",
	} {
		put(t, dir, file, text)
	}
	m := &manifest.Manifest{ABI: 4, Compiler: "none", Options: options(), Architectures: architectures}
	m.Kernels = []manifest.Kernel{{Symbol: "fkv_append", Family: "append"}, {Symbol: "fkv_fill", Family: "fill"}}
	for i, name := range []string{"append", "fill"} {
		src, err := sources(dir, name)
		require.NoError(t, err)
		require.Equal(t, []string{"../abi.h", name + ".cu", "kernel.cuh"}, paths(src))
		for _, s := range src {
			if i == 0 || s.Path == "fill.cu" {
				m.Sources = append(m.Sources, s.Source)
			}
		}
		m.Families = append(m.Families, manifest.Family{Name: name, Sum: sum([]byte("code of " + name)), Sources: paths(src)})
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
	require.Empty(t, checkFiles(dir, m))

	for name, c := range map[string]struct {
		plant func(dir string, m *manifest.Manifest)
		want  []string
	}{
		"source changed": {func(dir string, _ *manifest.Manifest) { put(t, dir, "fill.cu", "#include \"kernel.cuh\"\n//\n") },
			[]string{"fill: fill.cu has changed"}},
		"header changed": {func(dir string, _ *manifest.Manifest) { put(t, dir, "kernel.cuh", "#include \"../abi.h\"\n//\n") },
			[]string{"append: kernel.cuh has changed", "fill: kernel.cuh has changed"}},
		"another include": {func(dir string, _ *manifest.Manifest) { put(t, dir, "emulator.h", "") },
			[]string{"append: compiled without emulator.h", "fill: compiled without emulator.h"}},
		"source gone": {func(dir string, _ *manifest.Manifest) { require.NoError(t, os.Remove(filepath.Join(dir, "fill.cu"))) },
			[]string{"fill.cu: "}},
		"not compiled": {func(dir string, _ *manifest.Manifest) { put(t, dir, "rotate.cu", "") },
			[]string{"rotate.cu was not compiled"}},
		"other ABI": {func(dir string, _ *manifest.Manifest) { put(t, dir, "../abi.h", "#define FKV_ABI_VERSION 5\n") },
			[]string{"version 4 of the ABI, ../abi.h is version 5", "append: ../abi.h has changed", "fill: ../abi.h has changed"}},
		"no ABI": {func(_ string, m *manifest.Manifest) {
			put(t, dir, "../abi.h", "#define FKV_ABI_VERSION four\n")
			m.Sources[0].Sum = sum([]byte("#define FKV_ABI_VERSION four\n"))
		}, []string{"no FKV_ABI_VERSION"}},
		"code changed": {func(dir string, _ *manifest.Manifest) { put(t, dir, "fill.fatbin", "other code") },
			[]string{"fill.fatbin is not the one"}},
		"code gone": {func(dir string, _ *manifest.Manifest) {
			require.NoError(t, os.Remove(filepath.Join(dir, "fill.fatbin")))
		}, []string{"fill.fatbin: "}},
		"code of nothing": {func(dir string, _ *manifest.Manifest) { put(t, dir, "rotate.fatbin", "") },
			[]string{"rotate.fatbin is not in the MANIFEST"}},
		"too much code": {func(dir string, m *manifest.Manifest) {
			large := strings.Repeat("x", maxBytes)
			put(t, dir, "fill.fatbin", large)
			m.Families[1].Sum = sum([]byte(large))
		}, []string{"want at most 25165824"}},
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
			problems := checkFiles(dir, m)
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
	put(t, dir, "append.fatbin", "")
	err := check(dir, false, 1)
	require.ErrorContains(t, err, "append.fatbin is not the one")
	require.ErrorContains(t, err, "fill: compiled from kernel.cuh, which it no longer includes")
	require.ErrorContains(t, err, "fill: fill.cu has changed")
	require.ErrorContains(t, err, "4 problems")
}
