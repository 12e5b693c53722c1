package config

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// A variable does not break a configuration that is right without it: it is ignored, and the configuration lists it.
func TestVariablesBreakNothing(t *testing.T) {
	tiers := Environment{HostBytes: 1 << 20, DiskDir: "/there"}
	both := []string{EnvHostBytes, EnvDiskDir}
	for name, c := range map[string]struct {
		edit    func(*Config)
		env     Environment
		ignored []string
		layout  Layout
		tiers   Tiers
	}{
		"right":                                {nil, tiers, nil, Paged, Tiers{HostBytes: 1 << 20, Disk: Disk{Dir: "/there"}}},
		"no digest":                            {func(c *Config) { c.Model.Digest = nil }, tiers, both[1:], Paged, Tiers{HostBytes: 1 << 20}},
		"no digest, disk alone":                {func(c *Config) { c.Model.Digest = nil }, Environment{DiskDir: "/there"}, both[1:], Contiguous, Tiers{}},
		"contiguous":                           {func(c *Config) { c.Memory.Layout = Contiguous }, tiers, both, Contiguous, Tiers{}},
		"no prefixes":                          {func(c *Config) { c.Memory.Prefix = prefix.Off }, tiers, both, Contiguous, Tiers{}},
		"not causal":                           {func(c *Config) { c.Model.NonCausal = true }, tiers, both, Contiguous, Tiers{}},
		"variables that contradict each other": {nil, Environment{Layout: Contiguous, HostBytes: HostAuto, DiskDir: "/there"}, both, Contiguous, Tiers{}},
		"as do these":                          {nil, Environment{Prefix: prefix.Off, HostBytes: 1}, both[:1], Contiguous, Tiers{}},
		"tiers of the program, and a contiguous variable": {func(c *Config) { c.Tiers.HostBytes = 5 }, Environment{Layout: Contiguous}, []string{EnvPaged}, Paged, Tiers{HostBytes: 5}},
		"tiers of the program, and no prefixes by a variable": {func(c *Config) { c.Tiers.Disk.Dir = "/mine" }, Environment{Prefix: prefix.Off, DiskDir: "/there"},
			[]string{EnvPrefix}, Paged, Tiers{Disk: Disk{Dir: "/mine"}}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Model: Model{Layers: 1, KVHeads: 1, HeadDim: 64, Digest: []byte("weights")}}
			if c.edit != nil {
				c.edit(&cfg)
			}
			got, err := cfg.ResolveWith(c.env)
			require.NoError(t, err)
			require.Equal(t, c.tiers, got.Tiers)
			require.Equal(t, c.layout, got.Memory.Layout)
			var names []string
			for _, i := range got.Ignored() {
				names = append(names, i.Variable)
				require.NotEmpty(t, i.Value)
				require.NotEmpty(t, i.Why)
			}
			require.Equal(t, c.ignored, names)
			for _, env := range []Environment{c.env, {}} {
				again, err := got.ResolveWith(env)
				require.NoError(t, err)
				require.Equal(t, got, again)
			}
		})
	}
}

// Configurations of all kinds that are right without variables are right with any one of them.
func TestVariablesGoWithConfigurations(t *testing.T) {
	m := Model{Layers: 2, KVHeads: 2, HeadDim: 64, Digest: []byte("weights")}
	plain, free, window, groups := m, m, m, m
	plain.Digest, free.NonCausal, window.Masks = nil, true, []Mask{{Window: 32}}
	groups.Groups = []Group{{Kind: group.Full, Layers: []int{0}}, {Kind: group.Window, Layers: []int{1}, Window: 32}}
	variables := []Environment{{Layout: Contiguous}, {Layout: Paged}, {Capacity: 100}, {MaxSeqs: 1}, {MaxBlocks: 3}, {HostBytes: 1}, {HostBytes: HostAuto}, {DiskDir: "/there"}, {DiskBytes: 5}}
	for p := prefix.Adaptive; p <= prefix.Off; p++ {
		variables = append(variables, Environment{Prefix: p})
	}
	for _, model := range []Model{m, plain, free, window, groups} {
		for _, memory := range []Memory{{}, {Layout: Contiguous}, {Layout: Paged}, {Layout: Paged, BlockSize: 32, Blocks: 4}, {Layout: Paged, Prefix: prefix.Off}} {
			for _, storage := range []Storage{{}, {K: backend.Int8}, {K: backend.Int4Channel, Residual: 32}} {
				for _, tiers := range []Tiers{{}, {HostBytes: 1 << 20}, {Disk: Disk{Dir: "/mine"}}} {
					c := Config{Model: model, Memory: memory, Storage: storage, Tiers: tiers}
					if _, err := c.ResolveWith(Environment{}); err != nil {
						continue
					}
					for _, env := range variables {
						_, err := c.ResolveWith(env)
						require.NoError(t, err, "%+v under %+v", c, env)
					}
				}
			}
		}
	}
}

// A variable that lookup reports as unset does not count, whatever its value.
func TestUnsetVariables(t *testing.T) {
	for _, value := range []string{"1", "x", "64MiB", "lru", "int8"} {
		env, err := ParseEnvironment(func(string) (string, bool) { return value, false })
		require.NoError(t, err)
		require.Zero(t, env)
	}
}
