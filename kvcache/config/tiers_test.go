package config

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/disk"
	"github.com/stretchr/testify/require"
)

// With tiers the layout is paged, unless it is chosen by name, which is an error that names both.
func TestTiersChooseTheLayout(t *testing.T) {
	c := Config{Model: Model{Layers: 1, KVHeads: 1, HeadDim: 64, Digest: []byte("weights")}}
	env := Environment{HostBytes: 1 << 20, DiskDir: "/there", DiskBytes: 1 << 30}
	got, err := c.ResolveWith(env)
	require.NoError(t, err)
	require.Equal(t, Paged, got.Memory.Layout)
	require.Equal(t, Tiers{HostBytes: 1 << 20, Disk: Disk{Dir: "/there", Bytes: 1 << 30}}, got.Tiers)
	again, err := got.ResolveWith(Environment{})
	require.NoError(t, err)
	require.Equal(t, got, again)
	sources := map[string]Source{}
	for _, s := range got.Settings() {
		sources[s.Name] = s.Source
	}
	require.Equal(t, FromDefault, sources["layout"])
	require.Equal(t, FromEnvironment, sources["host memory"])
	require.Equal(t, FromEnvironment, sources["disk"])

	bad := c
	bad.Memory.Layout, bad.Tiers = Contiguous, Tiers{HostBytes: 1, Disk: Disk{Dir: "/there"}}
	_, err = bad.ResolveWith(Environment{})
	require.ErrorIs(t, err, backend.ErrConfig{Name: "Memory.Layout", Value: "contiguous", Why: "tiers (Tiers.HostBytes, " +
		"Tiers.Disk.Dir) need the paged layout; leave the layout unset, or set no tiers"})
	bad = c
	bad.Memory.Prefix, bad.Tiers.HostBytes = prefix.Off, 1
	_, err = bad.ResolveWith(Environment{})
	require.ErrorContains(t, err, "Memory.Prefix")
	bad = c
	bad.Model.Digest, bad.Tiers.Disk.Dir = nil, "/there"
	_, err = bad.ResolveWith(Environment{})
	require.ErrorContains(t, err, "Model.Digest")
	bad.Tiers = Tiers{}
	_, err = bad.ResolveWith(Environment{HostBytes: HostAuto})
	require.NoError(t, err, "it does not outlive the process")
	got, err = c.ResolveWith(Environment{})
	require.NoError(t, err)
	require.Equal(t, Contiguous, got.Memory.Layout)
}

func TestTiersInJSON(t *testing.T) {
	c, err := Parse([]byte(`{"model": {"layers": 1, "kv_heads": 1, "head_dim": 64},
		"tiers": {"host_bytes": 1048576, "disk": {"dir": "/there", "admission": "second-use", "write_budget": 5}}}`))
	require.NoError(t, err)
	require.Equal(t, Tiers{HostBytes: 1 << 20, Disk: Disk{Dir: "/there", Admission: disk.SecondUse, WriteBudget: 5}}, c.Tiers)
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "1048576": 1 << 20, "64MiB": 64 << 20, "64Mi": 64 << 20, "64M": 64e6, "64MB": 64e6, "1.5GB": 15e8, "2 KiB": 2048, "3k": 3000,
		"4TiB": 4 << 40, "7B": 7, "auto": HostAuto,
	} {
		got, err := ParseBytes(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "B", "MiB", "-1", "1.5", "0.0001KiB", "1EiB", "1iB", "5i", "1MM", "1 2", "nan", "inf", "1e30", "64MiBx", "Auto"} {
		_, err := ParseBytes(text)
		require.ErrorAs(t, err, new(backend.ErrConfig), text)
	}
	for _, name := range []string{EnvHostBytes, EnvDiskBytes} {
		for _, v := range []string{"x", "0", "-3"} {
			_, err := ParseEnvironment(func(n string) (string, bool) { return v, n == name })
			require.ErrorContains(t, err, name)
		}
	}
	_, err := ParseEnvironment(func(n string) (string, bool) { return "auto", n == EnvDiskBytes })
	require.ErrorContains(t, err, EnvDiskBytes)
}
