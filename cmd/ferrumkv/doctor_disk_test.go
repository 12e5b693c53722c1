package main

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/disk"
)

// doctor --disk measures a directory with the blocks of a model, says from which rates on loading is worth it, and leaves nothing.
func TestDoctorDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "dir")
	r := succeeds(t, "doctor", "--disk", dir)
	require.Regexp(t, `
disk, `+regexp.QuoteMeta(dir)+`
  blocks           1024 of 32\.0 KiB, 16 tokens each
  write            \d+\.\d \wiB/s, synced
  read             \d+\.\d \wiB/s, from (the disk|memory: the system did not let go of what was written, and the disk may be slower)
  first block      [\d.]+ (µs|ms|s)
  worth loading    256 tokens where computing is slower than [\d.]+ tokens/s
                   2048 tokens where computing is slower than [\d.]+ tokens/s
                   16384 tokens where computing is slower than [\d.]+ tokens/s
$`, r.stdout)
	require.NoDirExists(t, filepath.Dir(dir))

	require.Contains(t, succeeds(t, "doctor", "--help").stdout, "--disk DIR")

	dir = t.TempDir()
	model := filepath.Join(t.TempDir(), "some-model") // of groups: a token has keys and values in all layers
	require.NoError(t, os.Mkdir(model, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(model, "config.json"),
		[]byte(`{"model_type":"gemma3_text","num_hidden_layers":7,"hidden_size":1152,"num_attention_heads":4,"num_key_value_heads":1,"sliding_window":512}`), 0o600))
	for _, c := range []struct {
		args          []string
		tokens, bytes float64
	}{
		{[]string{"--layers", "32", "--q-heads", "32", "--kv-heads", "8", "--head-dim", "128"}, 16, 16 * 32 * 2 * 8 * 128 * 2},
		{[]string{"--layout", "paged", "--block-size", "32", "--kv-dtype", "f32"}, 32, 32 * 4 * 2 * 2 * 64 * 4},
		{[]string{"--model", model, "--layout", "paged"}, 16, 0},
	} {
		out := jsonLines(t, succeeds(t, append([]string{"doctor", "--json", "--disk", dir}, c.args...)...).stdout)[0]
		d := out["disk"].(map[string]any)
		require.Equal(t, dir, d["dir"])
		require.Equal(t, c.tokens, d["block_tokens"])
		if c.bytes == 0 {
			c.bytes = c.tokens * out["cache"].(map[string]any)["bytes_per_token"].(float64)
		}
		require.Equal(t, c.bytes, d["block_bytes"])
		for _, rate := range []string{"blocks", "write_bytes_per_second", "read_bytes_per_second", "first_block_seconds"} {
			require.Positive(t, d[rate], rate)
		}
		require.IsType(t, true, d["cold"])
		require.Len(t, d["loading_beats_computing"], len(promptLengths))
		require.Equal(t, []any{}, out["problems"])
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// Blocks of 2 MiB at 1 GiB/s are 512 a second, of 16 tokens each; the rest of what the first one takes is latency.
func TestDoctorBreakEven(t *testing.T) {
	d := diskStatus{BlockTokens: 16, BlockBytes: 2 << 20, Read: 1 << 30, First: 1. / 512}
	require.InDelta(t, 8192, d.breakEven(16), 1e-6)
	require.InDelta(t, 8192, d.breakEven(16384), 1e-6)
	require.InDelta(t, 4096, d.breakEven(8), 1e-6, "a part of a block is loaded whole")
	require.InDelta(t, 17*256, d.breakEven(17), 1e-6)
	d.First = 5. / 512
	require.InDelta(t, 8192./5, d.breakEven(16), 1e-6)
	require.InDelta(t, 8192*16./20, d.breakEven(256), 1e-6)
	for x, want := range map[float64]string{123456: "123000", 9996: "10000", 0.01234: "0.0123", 7: "7.00", 45.67: "45.7"} {
		require.Equal(t, want, threeDigits(x))
	}
}

// What a tier would refuse is refused by the same errors, and said with the rest.
func TestDoctorDiskRefuses(t *testing.T) {
	dir := t.TempDir()
	in, err := disk.Open(disk.Options{Dir: dir, Payload: 4096})
	require.NoError(t, err)
	cache := &cacheStatus{blockTokens: 16, blockBytes: 32 << 10}
	require.ErrorIs(t, (&diskStatus{}).on(t.Context(), dir, cache), disk.ErrInUse{Dir: dir})
	require.NoError(t, in.Close())
	cache.blockBytes = 1 << 40
	require.ErrorAs(t, (&diskStatus{}).on(t.Context(), dir, cache), new(tier.ErrConfig))

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	r := fails(t, []string{"doctor", "--disk", file}, "--disk "+file+": tier: disk: ")
	require.Contains(t, r.stdout, "bytes of a token 2.0 KiB\n", "the cache all the same")
	require.NotContains(t, r.stdout, file, "which is said once")
	if runtime.GOOS != "windows" {
		require.NoError(t, os.Chmod(dir, 0o770))
		r = fails(t, []string{"doctor", "--json", "--disk", dir}, "can be written to by others")
		out := jsonLines(t, r.stdout)[0]
		require.Contains(t, out["disk"], "error")
		require.Len(t, out["problems"], 1)
	}
	r = fails(t, []string{"doctor", "--kv-heads", "3", "--disk", filepath.Join(dir, "new")}, "--q-heads 4")
	require.NotContains(t, r.stdout, "\ndisk", "of what blocks?")
}
