package kvcache

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/below"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// under is an edit that sets variables of tiers.
func under(t testing.TB, env config.Environment) func(*Config) {
	return func(c *Config) {
		var err error
		*c, err = c.ResolveWith(env)
		require.NoError(t, err)
	}
}

// A pool ignores a variable whose tier cannot be opened, and reports it; a tier that the program set is an error.
func TestPoolGoesWithoutVariables(t *testing.T) {
	file, taken := filepath.Join(t.TempDir(), "file"), t.TempDir()
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	on := config.Tiers{Disk: config.Disk{Dir: taken, Bytes: 4 << 20, Floor: 1}}
	first := tiered(t, 12, on)
	defer first.close()
	host := "no room for a block"
	if below.HostTier(first.be.Info()) != nil {
		host = "the device's memory is the host's"
	}
	for name, c := range map[string]struct {
		env config.Environment
		why string
	}{
		config.EnvHostBytes:           {config.Environment{HostBytes: 1}, host},
		config.EnvDiskDir:             {config.Environment{DiskDir: file}, "is a file, not a directory"},
		config.EnvDiskDir + " in use": {config.Environment{DiskDir: taken, DiskBytes: 4 << 20}, "in use"},
		config.EnvDiskDir + " small":  {config.Environment{DiskDir: t.TempDir(), DiskBytes: 5}, "no room for a block"},
	} {
		t.Run(name, func(t *testing.T) {
			r := tiered(t, 12, config.Tiers{}, under(t, c.env))
			ignored := r.pool.Ignored()
			require.Len(t, ignored, 1)
			require.Equal(t, strings.Fields(name)[0], ignored[0].Variable)
			require.Contains(t, ignored[0].Why, c.why)
			require.Empty(t, r.pool.Tiers())
			prompt := sequence(1, 23)
			r.cache(prompt, OpenOptions{})
			x, m := r.read(prompt, OpenOptions{})
			require.Equal(t, 22, m.Cached)
			r.drop(x)

			cfg := small(LayoutUnset)
			cfg.Memory.BlockSize, cfg.Memory.Blocks, cfg.Memory.Prefix, cfg.Model.Digest = 4, 12, prefix.LRU, []byte("weights")
			cfg.Tiers = config.Tiers{HostBytes: c.env.HostBytes, Disk: config.Disk{Dir: c.env.DiskDir, Bytes: c.env.DiskBytes}}
			_, err := NewPool(r.be, cfg)
			require.ErrorContains(t, err, c.why)
			r.close()
		})
	}
}

// If only a variable set the disk, an adapter without a version is served, and blocks that the next process would take for those of
// other weights do not get there.
func TestAdapterWithoutVersionStaysAboveAVariablesDisk(t *testing.T) {
	env := config.Environment{DiskDir: t.TempDir(), DiskBytes: 4 << 20}
	loose := OpenOptions{Scope: prefix.Scope{Adapter: &prefix.Adapter{ID: "x"}}}
	firm := OpenOptions{Scope: prefix.Scope{Adapter: &prefix.Adapter{ID: "x", Version: "1"}}}
	prompt := sequence(1, 23)
	r := tiered(t, 40, config.Tiers{}, under(t, env))
	for _, o := range []OpenOptions{{}, loose, firm} {
		r.cache(prompt, o)
		x, m := r.read(prompt, o)
		require.Equal(t, 22, m.Cached)
		r.drop(x)
	}
	r.flush()
	r.close()
	r = tiered(t, 40, config.Tiers{}, under(t, env))
	for want, o := range map[int]OpenOptions{0: loose, 20: firm} {
		m, err := r.pool.Match(prompt, o)
		require.NoError(t, err)
		require.Equal(t, want, m.Loading)
	}
	m, err := r.pool.Match(prompt, OpenOptions{})
	require.NoError(t, err)
	require.Equal(t, 20, m.Loading)
	r.close()
}

// Each pool logs the variables that it ignores, to its own logger alone.
func TestIgnoredIsLogged(t *testing.T) {
	var others bytes.Buffer
	was := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&others, nil)))
	defer slog.SetDefault(was)
	dir := filepath.Join(t.TempDir(), "none")
	for _, logged := range []bool{false, true, true} {
		log := &lines{}
		r := tiered(t, 12, config.Tiers{}, func(c *Config) {
			c.Model.Digest, c.Memory.Layout = nil, Paged
			if logged {
				c.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			}
		}, under(t, config.Environment{DiskDir: dir}))
		require.Len(t, r.pool.Ignored(), 1)
		require.Equal(t, r.pool.Config().Ignored(), r.pool.Ignored())
		r.close()
		if !logged {
			require.Empty(t, log.String())
			continue
		}
		require.Equal(t, 1, strings.Count(log.String(), "level=WARN"))
		for _, part := range []string{config.EnvDiskDir, dir, "Model.Digest"} {
			require.Contains(t, log.String(), part)
		}
	}
	require.Empty(t, others.String())
	require.NoDirExists(t, dir)
}
