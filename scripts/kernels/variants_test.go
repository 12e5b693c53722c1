package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	cudakernels "github.com/ferrumkv/ferrumkv/kernels/cuda"
	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

// pretend are tools that make two families of each file, without a compiler. Files with "wrong" in them do not compile,
// and those with "empty" have no kernel.
func pretend(t *testing.T, seen *[]target) tools {
	version := func(s string) func() (string, error) { return func() (string, error) { return s, nil } }
	return tools{version("nvcc 1.2.3"), version("zstd 1.2.3"), func(to target, file string, sources []source) (modules []module, err error) {
		*seen = append(*seen, to)
		var remarks []byte
		for _, s := range sources {
			if strings.Contains(string(s.text), "wrong") {
				return nil, errors.New(file + " is wrong")
			}
			if strings.Contains(string(s.text), "empty") {
				return nil, nil
			}
			if strings.Contains(string(s.text), "serial") {
				remarks = []byte("ptxas info : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized\n")
			}
		}
		for _, family := range []string{strings.TrimSuffix(file, ".cu"), "zz"} {
			image := []byte((family + strings.Repeat(".", 16))[:16])
			c := code{usage: usage{registers: 168}, contents: contents{hgmma: 64}}
			modules = append(modules, module{
				Family:  manifest.Family{Name: family, File: file, Size: 16, Sum: sum(image)},
				kernels: []manifest.Kernel{{Symbol: "fkv_" + family, Family: family, Threads: 128, Registers: []int{168}}},
				image:   image, code: map[string]map[string]code{to.architectures[0]: {"fkv_" + family: c}}, remarks: remarks,
			})
		}
		return modules, nil
	}, func(whole, base []byte) ([]byte, error) { return frame(t, string(whole)), nil }}
}

func TestVariants(t *testing.T) {
	dir, out := trialFolder(t), filepath.Join(t.TempDir(), "build", "variants")
	var seen []target
	with := pretend(t, &seen)
	require.NoError(t, with.variants(dir, out, nil, 1))
	require.Len(t, seen, 2)
	require.Equal(t, []string{"-O3", "-std=c++17", "-DA=1", "-DB"}, seen[0].options)
	require.Equal(t, []string{"sm_90"}, seen[1].architectures)

	set, err := cudakernels.Open(os.DirFS(filepath.Join(out, "wide")))
	require.NoError(t, err)
	require.Equal(t, 4, set.ABI)
	require.Equal(t, "nvcc 1.2.3", set.Compiler)
	require.Equal(t, "zstd 1.2.3", set.Compressor)
	require.Equal(t, seen[0].options, set.Options)
	require.Equal(t, []string{"sm_90a"}, set.Architectures)
	require.Equal(t, []manifest.Unit{{File: "demo.cu", Sources: []string{"../abi.h", "../storage.h", "demo.cu", "kernel.cuh", "wide.cuh"}}}, set.Units)
	require.Len(t, set.Sources, 5)
	require.Len(t, set.Archives, 1)
	require.Equal(t, "wide", set.Archives[0].Name)
	require.Empty(t, set.Archives[0].Base)
	require.Len(t, set.Families, 2)
	require.Equal(t, "wide", set.Families[0].Archive)
	require.Equal(t, "wide", set.Families[1].Archive)
	image, err := set.Image("demo")
	require.NoError(t, err)
	require.Equal(t, "demo............", string(image))
	k, ok := set.Find("fkv_demo")
	require.True(t, ok)
	require.Equal(t, []int{168}, k.Registers)

	set, err = cudakernels.Open(os.DirFS(filepath.Join(out, "plain")))
	require.NoError(t, err)
	require.Len(t, set.Families, 2)
	image, err = set.Image("zz")
	require.NoError(t, err)
	require.Equal(t, "zz..............", string(image))

	// One that does not compile leaves what it made before, and does not hold others back.
	text := func(file string) string {
		b, err := os.ReadFile(filepath.Join(out, file))
		require.NoError(t, err)
		return string(b)
	}
	before := text("wide/MANIFEST")
	put(t, dir, "variants/wide/wide.cuh", "wrong")
	put(t, dir, "fill.cu", "// changed\n")
	put(t, out, "plain/more", "")
	require.EqualError(t, with.variants(dir, out, nil, 1), "kernels variant wide: demo.cu is wrong")
	require.Equal(t, before, text("wide/MANIFEST"))
	require.Contains(t, text("plain/MANIFEST"), sum([]byte("// changed\n")))
	require.NoFileExists(t, filepath.Join(out, "plain/more")) // as a whole
	left, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Len(t, left, 2)
	require.NoError(t, with.variants(dir, out, []string{"plain"}, 1))
}

func TestVariantsRefuse(t *testing.T) {
	for _, c := range []struct {
		name     string
		plant    func(dir, out string)
		want     string
		compiled int
	}{
		{"no variant of that name", func(dir, _ string) { put(t, dir, "variants/variants.json", `{"variants": []}`) }, `no variant "wide"`, 0},
		{"no sources", func(dir, _ string) { require.NoError(t, os.Remove(filepath.Join(dir, "../abi.h"))) }, "kernels variant wide: ", 0},
		{"a folder of something else", func(_, out string) {
			require.NoError(t, os.MkdirAll(filepath.Join(out, "wide"), 0o755))
			put(t, out, "wide/attend.cu", "")
		}, "has files and no MANIFEST, so it is not replaced; name another folder", 0},
		{"a folder of other kernels", func(_, out string) {
			require.NoError(t, os.MkdirAll(filepath.Join(out, "wide"), 0o755))
			put(t, out, "wide/MANIFEST", "of others")
			put(t, out, "wide/other.zst", "")
		}, "has files and no wide.zst", 0},
		{"products in series", func(dir, _ string) { put(t, dir, "variants/wide/wide.cuh", "serial") }, "demo.cu: ptxas info : (C7510)", 1},
		{"no kernel", func(dir, _ string) { put(t, dir, "variants/wide/wide.cuh", "empty") }, "its units have no kernel; correct units in variants.json", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, out := trialFolder(t), t.TempDir()
			c.plant(dir, out)
			var seen []target
			require.ErrorContains(t, pretend(t, &seen).variants(dir, out, []string{"wide"}, 1), c.want)
			require.Len(t, seen, c.compiled)
			require.NoFileExists(t, filepath.Join(out, "wide/wide.zst"))
		})
	}
	dir, out := trialFolder(t), t.TempDir()
	var seen []target
	with := pretend(t, &seen)
	with.compiler = func() (string, error) { return "", errors.New("nvcc is not in PATH") }
	require.EqualError(t, with.variants(dir, out, nil, 1), "nvcc is not in PATH")
	require.Empty(t, seen)
}

func TestReport(t *testing.T) {
	at := func(c code) module { return module{code: map[string]map[string]code{"sm_90a": {"fkv_a": c}}} }
	for want, m := range map[string]module{
		"  fkv_a: 168 registers, 64 HGMMA, 2 HMMA\n": at(code{usage: usage{registers: 168}, contents: contents{hgmma: 64, hmma: 2}}),
		"  fkv_a: 255 registers, 0 HGMMA, 0 HMMA; SPILLS: 16 bytes of stack, 8 of local memory, 4 accesses to it\n": at(code{
			usage: usage{registers: 255, stack: 16, local: 8}, contents: contents{accesses: 4}}),
		"  ptxas info : serialized\n": {remarks: []byte("\nptxas info : serialized\n")},
	} {
		tr := &trial{variant: variant{Architecture: "sm_90a"}, files: []compiled{{modules: []module{m}}}}
		require.Equal(t, want, tr.report())
	}
}
