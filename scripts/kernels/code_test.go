package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

func TestUsages(t *testing.T) {
	text := `
Resource usage:
 Common:
  GLOBAL:24
 Function fkv_a:
  REG:32 STACK:256 SHARED:1024 LOCAL:16 CONSTANT[0]:544 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function fkv_b:
  REG:8 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:544 TEXTURE:0 SURFACE:0 SAMPLER:0
`
	used, err := usages(text)
	require.NoError(t, err)
	require.Equal(t, map[string]usage{
		"fkv_a": {registers: 32, stack: 256, static: 1024, local: 16},
		"fkv_b": {registers: 8},
	}, used)
	_, err = usages(strings.Replace(text, "REG:8", "REGISTERS:8", 1))
	require.ErrorContains(t, err, "not understood")
}

func TestAgreeAndFit(t *testing.T) {
	listed := []manifest.Kernel{{Symbol: "fkv_a", Family: "f", Threads: 128, Shared: 64, Registers: []int{30, 40}}}
	good := func() image {
		return image{
			"sm_80":      {"fkv_a": {threads: 128, shared: 64, usage: usage{registers: 30}}},
			"sm_90":      {"fkv_a": {threads: 128, shared: 64, usage: usage{registers: 40, static: 1024}}},
			"compute_90": nil,
		}
	}
	require.Empty(t, embedded.agree("f", listed, good()))
	require.Empty(t, fit("f", good()))
	for want, plant := range map[string]func(image){
		"f: no code for compute_90":                      func(im image) { delete(im, "compute_90") },
		"f: no code for sm_90":                           func(im image) { delete(im, "sm_90") },
		"sm_80: no kernel fkv_a":                         func(im image) { delete(im["sm_80"], "fkv_a") },
		"sm_90: kernel fkv_b is not in the MANIFEST":     func(im image) { im["sm_90"]["fkv_b"] = code{} },
		"launched with 256 threads and 64 bytes":         func(im image) { im["sm_80"]["fkv_a"] = code{threads: 256, shared: 64, usage: usage{registers: 30}} },
		"launched with 128 threads and 0 bytes":          func(im image) { im["sm_80"]["fkv_a"] = code{threads: 128, usage: usage{registers: 30}} },
		"sm_90: fkv_a takes 30 registers, MANIFEST says": func(im image) { im["sm_90"]["fkv_a"] = code{threads: 128, shared: 64, usage: usage{registers: 30}} },
	} {
		im := good()
		plant(im)
		require.ErrorContains(t, errors.Join(embedded.agree("f", listed, im)...), want)
	}
	for want, u := range map[string]usage{
		"8 bytes of stack":                 {stack: 8},
		"16 of local memory":               {local: 16},
		"takes 101440 bytes, want at most": {static: maxShared},
	} {
		im := good()
		im["sm_80"]["fkv_a"] = code{threads: 128, shared: 64, usage: u}
		require.ErrorContains(t, errors.Join(fit("f", im)...), strings.Replace(want, "bytes,", "bytes of shared memory,", 1))
	}
}

// sass is a disassembly of one kernel.
func sass(symbol string, instructions ...string) []byte {
	var b strings.Builder
	b.WriteString("\t.headerflags\t@\"EF_CUDA_SM80\"\n\n//----- .text." + symbol + " -----\n")
	b.WriteString("\t.section\t.text." + symbol + ",\"ax\",@progbits\n\t.align\t128\n.text." + symbol + ":\n")
	for _, i := range instructions {
		b.WriteString("        /*0040*/                   " + i + " ;\n.L_x_1:\n")
	}
	return []byte(b.String())
}

func TestInstructions(t *testing.T) {
	const (
		async  = "@!P0 LDGSTS.E.BYPASS.LTC128B.128.ZFILL [R3], [R4.64]"
		narrow = "LDGSTS.E.LTC128B.64 [R3], [R4.64]"
		hmma   = "HMMA.16816.F32.BF16 R4, R8, R12, R4"
		load   = "@P1 LDL.64 R4, [R1+0x8]"
		store  = "STL [R1], R4"
		other  = "IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28]"
		paired = "{ LDG.E.128 R4, [R2.64]"
	)
	for _, c := range []struct {
		symbol       string
		instructions []string
		want         string // "" for a kernel that obeys
	}{
		{"fkv_attend_decode_f16_f16_64_64", []string{other, async, hmma}, ""},
		{"fkv_attend_decode_f16_f16_64_64", []string{other, async}, "lacks matrix"},
		{"fkv_attend_decode_bf16_bf16_64_64", []string{hmma, paired}, "lacks 16-byte asynchronous"},
		{"fkv_attend_decode_bf16_bf16_64_64", []string{hmma, narrow}, "lacks 16-byte asynchronous"},
		{"fkv_attend_decode_f16_f16_64_64", []string{async, hmma, load}, "has accesses to local memory"},
		{"fkv_attend_decode_f16_quant_128_128", []string{async, hmma, load}, ""}, // as measured
		{"fkv_attend_prefill_f16_f16_64_64", []string{async, hmma, store}, "has accesses to local memory"},
		{"fkv_attend_prefill_bf16_bf16_64_64", []string{async}, "lacks matrix"},
		{"fkv_attend_decode_f32_f32_64_64", []string{async}, ""},
		{"fkv_attend_decode_f32_bf16_64_64", []string{async, hmma}, "has matrix"},
		{"fkv_attend_vector_f16_f16_64_64", []string{async}, ""},
		{"fkv_attend_vector_f16_f16_64_64", []string{other}, "lacks 16-byte asynchronous"},
		{"fkv_attend_vector_f32_f16_64_64", []string{async, hmma}, "has matrix"},
		{"fkv_attend_merge_f32", []string{other}, ""},
		{"fkv_attend_merge_f32", []string{other, store}, "has accesses"},
		{"fkv_attend_decode_bf16_quant_64_64", []string{async}, "lacks matrix"},
		{"fkv_attend_decode_f32_quant_64_64", []string{async, hmma}, "has matrix"},
		{"fkv_attend_mass_f32_f32_64_64", []string{async, hmma}, "has matrix"},
		{"fkv_attend_mass_f16_f16_64_64", []string{async, hmma}, ""},
		{"fkv_attend_mass_f16_f16_64_64", []string{async}, "lacks matrix"},
		{"fkv_attend_mass_f32_f32_64_64", []string{other}, "lacks 16-byte asynchronous"},
		{"fkv_probe_mma_f16", []string{other}, "lacks matrix"},
		{"fkv_append_f16_f16", []string{load}, ""},
	} {
		has, err := instructions(sass(c.symbol, c.instructions...))
		require.NoError(t, err)
		require.Len(t, has, 1)
		for _, arch := range embedded.machines() {
			im := image{arch: {c.symbol: {contents: has[c.symbol]}}}
			problems := obey("f", im)
			if c.want == "" {
				require.Empty(t, problems, c.symbol)
				continue
			}
			require.ErrorContains(t, errors.Join(problems...), "f: "+arch+": "+c.symbol+" "+c.want)
		}
	}
}

// Matrix instructions and accesses to local memory are counted, for reports.
func TestCounts(t *testing.T) {
	has, err := instructions(sass("fkv_a", "HGMMA.64x128x16.F32 R24, gdesc[UR8], R24", "@P0 HGMMA.64x64x16.F32 R24, R4, gdesc[UR8], R24",
		"HMMA.16816.F32 R4, R8, R12, R4", "LDL R4, [R1]", "STL [R1], R4", "STL.64 [R1], R4", "LDG.E R4, [R2.64]"))
	require.NoError(t, err)
	require.Equal(t, map[string]contents{"fkv_a": {has: matrix | local, hmma: 1, hgmma: 2, accesses: 3}}, has)
}

// One family through the real tools: built, found current, changed, and refused for
// what is wrong with it.
func TestToolkit(t *testing.T) {
	for _, tool := range []string{"nvcc", "ptxas", "fatbinary", "cuobjdump", "nvdisasm", "zstd"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s in PATH: scripts/unpack-cuda-toolkit prints where it unpacked the toolkit", tool)
		}
	}
	if testing.Short() {
		t.Skip("compiles kernels")
	}
	dir := filepath.Join(t.TempDir(), "cuda")
	require.NoError(t, os.Mkdir(dir, 0o755))
	for _, path := range []string{header, "../storage.h", "kernel.cuh"} {
		text, err := os.ReadFile(filepath.Join("../../kernels/cuda", path))
		require.NoError(t, err)
		put(t, dir, path, string(text))
	}
	put(t, dir, "demo.cu", `#include "kernel.cuh"
FKV_KERNEL(fkv_demo, 96, 1 << 16, float *p, fkv_copy_bits_args a) { FKV_SHARED(s); s[p[a.mask] > 0] = 1; __syncthreads(); p[0] = s[a.mask]; }
FKV_KERNEL(fkv_attend_decode_f16_f16_demo, 32, 0, float *p) { p[threadIdx.x] = 1; }
`)
	require.NoError(t, build(dir, false, 1))
	m, err := readManifest(dir)
	require.NoError(t, err)
	require.Len(t, m.Kernels, 2)
	k, ok := m.Find("fkv_demo")
	require.True(t, ok)
	require.Equal(t, 96, k.Threads)
	require.Equal(t, 1<<16, k.Shared)
	require.NoError(t, check(dir, false, 1))
	err = check(dir, true, 1)
	for _, arch := range embedded.machines() {
		require.ErrorContains(t, err, arch+": fkv_attend_decode_f16_f16_demo lacks matrix")
		require.ErrorContains(t, err, arch+": fkv_attend_decode_f16_f16_demo lacks 16-byte")
	}
	require.NotContains(t, err.Error(), "fkv_demo ")
	_, err = inspect([]byte("no image"))
	require.Error(t, err)

	// What has not changed is not compiled again, and compiled again it is the same.
	made := func() (os.FileInfo, string, string) {
		info, err := os.Stat(filepath.Join(dir, "other.zst"))
		require.NoError(t, err)
		image, err := os.ReadFile(filepath.Join(dir, "other.zst"))
		require.NoError(t, err)
		text, err := os.ReadFile(filepath.Join(dir, "MANIFEST"))
		require.NoError(t, err)
		return info, sum(image), string(text)
	}
	info, image, text := made()
	require.NoError(t, build(dir, false, 1))
	info2, _, text2 := made()
	require.Equal(t, info.ModTime(), info2.ModTime())
	require.Equal(t, text, text2)
	require.NoError(t, build(dir, true, 1))
	info3, image3, text3 := made()
	require.NotEqual(t, info.ModTime(), info3.ModTime())
	require.Equal(t, image, image3)
	require.Equal(t, text, text3)

	// A family that does not compile any more leaves no binary that looks current.
	put(t, dir, "demo.cu", "#include \"kernel.cuh\"\nFKV_KERNEL(fkv_demo, 32, 0, float *p) { p[0] = q; }\n")
	require.ErrorContains(t, build(dir, false, 1), "\"q\" is undefined")
	require.NoFileExists(t, filepath.Join(dir, "other.zst"))
	require.ErrorContains(t, check(dir, false, 1), "demo.cu was not compiled")
	put(t, dir, "demo.cu", "#include \"kernel.cuh\"\nextern \"C\" __global__ void fkv_bare(float *p) { p[0] = 1; }\n")
	require.ErrorContains(t, build(dir, false, 1), "no fkv_bare_launch")

	// A kernel that spills is built, to be looked at, and refused.
	put(t, dir, "demo.cu", `#include "kernel.cuh"
FKV_KERNEL(fkv_demo, 32, 0, int *p) { int t[64]; for (int i = 0; i < 64; i++) t[i] = p[i]; for (int i = 0; i < 64; i++) p[i] = t[p[i] & 63]; }
`)
	require.NoError(t, build(dir, false, 1))
	require.ErrorContains(t, check(dir, true, 1), "fkv_demo spills: 256 bytes of stack")
}
