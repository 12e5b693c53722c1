package main

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/nvml"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

func TestDoctor(t *testing.T) {
	r := succeeds(t, "doctor")
	require.Empty(t, r.stderr)
	require.Regexp(t, `go1\.\d+.*, \d+ CPUs\n`, r.stdout)
	require.Regexp(t, `\n  cpu +.+ units, \d+\.\d \wiB of memory, keys and values in `+cpuTypes+`\n +kernels: (avx512|avx2|neon|go)\n`, unwrapped(r.stdout))
	require.Regexp(t, `\n  cuda +not available: .+\n`, r.stdout)
	require.Regexp(t, `\n  metal +not available: .+\n`, r.stdout)
	require.Regexp(t, `cache, for 4 layers, 4 query heads, 2 KV heads of 64\n`, r.stdout)
	require.Regexp(t, `layout +contiguous +default +FERRUM_METAL_PAGED_KV\n`, r.stdout)
	require.NotRegexp(t, ` \n`, r.stdout, "no blanks at the ends of lines")
}

// unwrapped is a text whose lists are on one line each.
func unwrapped(text string) string { return regexp.MustCompile(`,\n +`).ReplaceAllString(text, ", ") }

func TestDoctorMemory(t *testing.T) {
	for want, b := range map[string]backendStatus{
		"memory unknown":                    {},
		"2.0 GiB of memory":                 {TotalMemory: 2 << 30, FreeMemory: 2 << 30},
		"3.0 GiB of memory":                 {TotalMemory: 3 << 30},
		"1.0 GiB of 2.0 GiB of memory free": {TotalMemory: 2 << 30, FreeMemory: 1 << 30},
	} {
		require.Equal(t, want, b.memory())
	}
}

// What is known of a device's driver and hardware is on lines below it.
func TestDoctorDetails(t *testing.T) {
	require.Empty(t, backendStatus{}.details())
	d := diagnosis{CUDADriver: "/opt/libcuda.so", Backends: []backendStatus{{
		Name: "cuda:0", Available: true, Device: "simt", Units: 4, TotalMemory: 2 << 30, KVTypes: []string{"f16"},
		Driver: "CUDA 12.4 (libcuda.so.1)", Condition: "41 °C, throttled: power cap", StandIn: true, PinnedLimit: 8 << 30},
		{Name: "metal:0", Available: true, Device: "M9", Units: 8, TotalMemory: 2 << 30, KVTypes: []string{"f16"}, Shared: true}}}
	var out strings.Builder
	require.NoError(t, d.write(&out))
	require.Contains(t, out.String(), `
  cuda:0   simt, 4 units, 2.0 GiB of memory, keys and values in f16
           driver: CUDA 12.4 (libcuda.so.1)
           host memory: up to 8.0 GiB is pinned for copies, more is copied twice
           condition: 41 °C, throttled: power cap
           not a GPU: a stand-in that runs a GPU's kernels on the CPU, for tests
  metal:0  M9, 8 units, 2.0 GiB of memory, keys and values in f16
           no tier in host memory: it is the device's own, and what is kept there takes as much from it; a disk adds room
  FERRUM_CUDA_DRIVER names /opt/libcuda.so, which is opened in place of the system's libcuda.so.1
`)
}

func TestDoctorJSON(t *testing.T) {
	r := succeeds(t, "doctor", "--json", "--layers", "32", "--q-heads", "32", "--kv-heads", "8", "--head-dim", "128", "--layout", "paged")
	lines := jsonLines(t, r.stdout)
	require.Len(t, lines, 1)
	require.Positive(t, lines[0]["cpus"])
	var available, missing []string
	for _, b := range lines[0]["backends"].([]any) {
		b := b.(map[string]any)
		if b["name"] == "cpu" {
			require.NotContains(t, b, "shared_memory")
		}
		if b["available"].(bool) {
			require.NotContains(t, b, "why")
			require.Len(t, b["kv_types"], 12)
			require.Subset(t, b["kv_types"], []any{"f32", "f16", "bf16", "int8", "int4channel"})
			available = append(available, b["name"].(string))
		} else {
			require.NotEmpty(t, b["why"])
			missing = append(missing, b["name"].(string))
		}
	}
	require.Contains(t, available, "cpu")
	require.ElementsMatch(t, []string{"cuda", "metal"}, missing)
	cache := lines[0]["cache"].(map[string]any)
	require.Equal(t, 131072., cache["bytes_per_token"], "32 layers × 2 × 8 heads × 128 × 2 bytes")
	require.Equal(t, 131072*8*4096., cache["bytes"])
	require.Contains(t, cache["settings"], map[string]any{"name": "layout", "value": "paged", "source": "option", "variable": "FERRUM_METAL_PAGED_KV"})
	require.Contains(t, cache["settings"], map[string]any{"name": "block size", "value": 16., "source": "default"})
	require.Contains(t, cache["settings"], map[string]any{"name": "layers", "value": 32., "source": "option"})
	require.Contains(t, cache["settings"], map[string]any{"name": "query heads", "value": 32., "source": "option"})
	require.Equal(t, []any{}, lines[0]["problems"])
}

// What a token takes is counted to the byte: codes, scales and zero points.
func TestDoctorBytesByType(t *testing.T) {
	bytes := func(args ...string) map[string]float64 {
		out := map[string]float64{}
		cache := jsonLines(t, succeeds(t, append([]string{"doctor", "--json"}, args...)...).stdout)[0]["cache"].(map[string]any)
		for _, of := range cache["bytes_by_type"].([]any) {
			of := of.(map[string]any)
			out[of["type"].(string)] = of["bytes_per_token"].(float64)
		}
		return out
	}
	const rows = 32 * 8 * 2 // layers, heads, keys and values
	shape := []string{"--layers", "32", "--kv-heads", "8", "--q-heads", "32", "--head-dim", "128"}
	contiguous := map[string]float64{"f32": rows * 512, "f16": rows * 256, "bf16": rows * 256, "int8": rows * (128 + 4), "int8asym": rows * (128 + 4),
		"fp8e4m3": rows * 128, "fp8e5m2": rows * 128, "int4": rows * (64 + 4*4), "int4g64": rows * (64 + 2*4), "mxfp4": rows * (64 + 4), "nvfp4": rows * (64 + 2*4)}
	require.Equal(t, contiguous, bytes(shape...))
	paged := bytes(append(shape, "--layout", "paged", "--block-size", "32")...)
	require.Equal(t, float64(rows/2*(64+128*4/32)+rows/2*(64+4*4)), paged["int4channel"], "a word for each channel of 32 keys")
	delete(paged, "int4channel")
	require.Equal(t, contiguous, paged)

	skipping := bytes(append(shape, "--kv-dtype", "int8", "--skip-layers", "0,31")...)
	require.Equal(t, float64(rows/32*(30*132+2*256)), skipping["int8"], "two layers in f16")
	r := succeeds(t, "doctor", "--kv-dtype", "int4", "--layout", "paged", "--residual", "64")
	require.Regexp(t, `\n  bytes of a token 640 B\n`, r.stdout)
	require.Regexp(t, `\n  bytes by type    f32 4096, f16 2048, .*int4 640, int4g64 576, int4channel 704, mxfp4 576, nvfp4 576\n`, unwrapped(r.stdout))
}

// What is wrong is said once, after what there is.
func TestDoctorShowsTheError(t *testing.T) {
	r := fails(t, []string{"doctor", "--kv-heads", "3"}, "--q-heads 4: must be a multiple of --kv-heads 3")
	require.NotContains(t, r.stdout, "--q-heads 4")
	r = fails(t, []string{"doctor", "--json", "--layout", "none"}, "--layout none")
	doctor := jsonLines(t, r.stdout)[0]
	require.Contains(t, doctor["cache"], "error")
	require.Equal(t, []any{doctor["cache"].(map[string]any)["error"]}, doctor["problems"])
	fails(t, []string{"doctor", "--layers", "-1"}, "--layers -1: accepts 1 to")
	fails(t, []string{"doctor", "--layers", "0"}, "--layers 0: accepts 1 to")
	fails(t, []string{"doctor", "--block-size", "16"}, "--block-size 16: applies to the paged layout only")
	r = fails(t, []string{"doctor", "--backend", "cuda:0"}, "cuda is not available: ")
	require.Contains(t, r.stdout, "\n  cpu ", "the other devices all the same")
	fails(t, []string{"doctor", "--kv-dtype", "foo"}, "--kv-dtype foo: cpu holds keys and values in "+cpuTypes)
}

func TestDoctorSaysWhatWouldFit(t *testing.T) {
	size := kvcache.ErrPoolSize{Bytes: 4 << 30, Max: 1 << 30, Blocks: 8, MaxBlocks: 2, Contiguous: true}
	require.EqualError(t, tooLarge(size, "metal:0"), "the cache of 4.0 GiB does not fit the memory of metal:0, 1.0 GiB: at most 2 of 8 sequences; "+lowerSize)
	size.Layer, size.Contiguous = true, false
	require.EqualError(t, tooLarge(size, "metal:0"), "a layer's buffer of 4.0 GiB does not fit the largest buffer of metal:0, 1.0 GiB: at most 2 of 8 blocks; "+lowerSize)
}

// The state of the hardware is that of the device in the same place, or the reason why
// it is not known; it is not read where there is no such device.
func TestDoctorConditions(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the program that reads is a shell script here")
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	conditions := func() (all []string) {
		d := diagnosis{Backends: []backendStatus{{Name: "cuda:0", Bus: "0000:3b:00.0"}, {Name: "cuda:1", Bus: "0000:5e:00.0"},
			{Name: "cuda:2", Bus: "0000:01:00.0", StandIn: true}, {Name: "cpu"}}}
		d.readConditions(t.Context())
		for _, b := range d.Backends {
			all = append(all, b.Condition)
		}
		return all
	}
	missing := "not known, " + nvml.ErrNotInstalled.Error()
	require.Equal(t, []string{missing, missing, "", ""}, conditions())

	write := func(script string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, nvml.Program), []byte("#!/bin/sh\n"+script), 0o755))
	}
	write(`echo '[{"bus": "00000000:3B:00.0", "celsius": 41, "watts": 212, "ecc_errors": 2, "throttled": ["power cap"]}]'`)
	require.Equal(t, []string{"41 °C, 212 W, throttled: power cap, 2 uncorrected memory errors",
		"not known: the driver's management library does not show the device", "", ""}, conditions())
	write("echo 'ferrumkv-nvml: init: error 9' >&2; exit 1")
	broken := "not known: ferrumkv-nvml: init: error 9"
	require.Equal(t, []string{broken, broken, "", ""}, conditions())

	write(": >" + filepath.Join(dir, "asked"))
	(&diagnosis{Backends: []backendStatus{{Name: "cpu"}}}).readConditions(t.Context())
	require.NoFileExists(t, filepath.Join(dir, "asked"))
}

// A configuration from a file is shown with what its groups become; what is wrong with it, or cannot be used with it, is reported. Of a window of 64 tokens the last 63
// are read after 1024: four blocks.
func TestDoctorReadsAConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "model.json")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write(`{"model": {"layers": 7, "q_heads": 4, "kv_heads": 1, "head_dim": 256, "groups": [
		{"kind": "window", "window": 64, "layers": [0, 1, 2, 4, 5]}, {"layers": [3]}, {"kind": "none", "layers": [6]}]},
		"memory": {"layout": "paged", "capacity": 1024, "rollback": -1}}`)
	r := succeeds(t, "doctor", "--backend", "cpu", "--config", file)
	require.Contains(t, r.stdout, "cache, for 7 layers of "+file)
	require.Contains(t, r.stdout, "  group            window: 5 layers in 5 parts, blocks of 16 tokens, 20 blocks for a sequence of full capacity, 0.0 % unused\n")
	require.Contains(t, r.stdout, "  group            full: 1 layer in 1 part, blocks of 16 tokens, 64 blocks for a sequence of full capacity, 0.0 % unused\n")
	require.NotContains(t, r.stdout, "none:")
	groups := jsonLines(t, succeeds(t, "doctor", "--backend", "cpu", "--json", "--config", file).stdout)[0]["cache"].(map[string]any)["groups"].([]any)
	require.Len(t, groups, 2)
	require.Equal(t, "window", groups[0].(map[string]any)["kind"])

	fails(t, []string{"doctor", "--backend", "cpu", "--config", file, "--layers", "3"}, "--layers cannot be used with --config")
	write(`{"model": {"layers": 2, "kv_heads": 1, "head_dim": 4, "groups": [{"layers": [0]}]}}`)
	fails(t, []string{"doctor", "--backend", "cpu", "--config", file}, "layer 1 is in none")
	fails(t, []string{"doctor", "--backend", "cpu", "--config", file + "x"}, "--config")
}
