package disk

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/seal"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// names is what there is below a directory.
func names(t *testing.T, dir string) (out []string) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		out = append(out, path)
		return err
	}))
	return out
}

// Measuring says how fast a disk is, and leaves what was there as it was.
func TestMeasure(t *testing.T) {
	base := t.TempDir()
	before := names(t, base)
	for _, dir := range []string{base, filepath.Join(base, "a", "b")} {
		s, err := Measure(ctx, Options{Dir: dir, Payload: 20_000, Floor: 1})
		require.NoError(t, err)
		require.Equal(t, int64(20_000), s.Payload)
		require.Equal(t, mostMeasured, s.Blocks)
		require.Positive(t, s.First)
		for _, rate := range []float64{s.Write, s.Read, float64(s.Payload) / s.First.Seconds()} {
			require.Greater(t, rate, 1e5)
			require.Less(t, rate, 1e12)
		}
		require.Equal(t, before, names(t, base))
	}
	s, err := Measure(ctx, Options{Dir: base, Payload: 17 << 20, Floor: 1, Secret: make([]byte, seal.SecretBytes)})
	require.NoError(t, err)
	require.Equal(t, fewMeasured, s.Blocks)

	during, cancel := context.WithCancel(ctx)
	cancel()
	_, err = Measure(during, Options{Dir: base, Payload: 20_000, Floor: 1})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, before, names(t, base))
}

// What a tier would refuse is refused, and nothing is left of it.
func TestMeasureRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	o := Options{Dir: dir, Payload: 1 << 20}
	for what, change := range map[string]func(*Options){
		"payloads":     func(o *Options) { o.Payload = 0 },
		"no directory": func(o *Options) { o.Dir = "" },
		"room for a":   func(o *Options) { o.Bytes = 1 },
		"no room":      func(o *Options) { o.Floor = 1 << 60 },
	} {
		bad := o
		change(&bad)
		_, err := Measure(ctx, bad)
		require.ErrorAs(t, err, new(tier.ErrConfig), what)
		require.ErrorContains(t, err, what)
		require.NoDirExists(t, dir)
	}
	file := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Measure(ctx, Options{Dir: file, Payload: 1 << 20})
	require.ErrorAs(t, err, new(tier.ErrConfig))

	in, err := Open(onDisk(dir))
	require.NoError(t, err)
	before := names(t, dir)
	_, err = Measure(ctx, o)
	require.ErrorIs(t, err, ErrInUse{dir})
	require.Equal(t, before, names(t, dir))
	require.NoError(t, in.Close())
	if runtime.GOOS != "windows" {
		require.NoError(t, os.Chmod(dir, 0o770))
		_, err = Measure(ctx, o)
		require.ErrorAs(t, err, new(tier.ErrConfig))
		require.ErrorContains(t, err, "written to by others")
		require.Equal(t, before, names(t, dir))
	}
}
