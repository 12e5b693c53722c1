package config

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Ignored is a variable of the environment that is set and not followed, for what the program asks for, or the machine has, leaves no
// room for it. A variable that says something that it does not accept is an error instead.
type Ignored struct{ Variable, Value, Why string }

// Ignored lists the variables that a resolved configuration goes without. Pool.Ignored has those of the pool, too.
func (c Config) Ignored() []Ignored { return slices.Clone(c.ignored) }

// ignore notes a variable that is not followed.
func (c *Config) ignore(variable, value, why string) {
	c.ignored = append(slices.Clip(c.ignored), Ignored{variable, value, why})
}

// without is an environment without what an earlier Resolve has ignored.
func (env Environment) without(ignored []Ignored) Environment {
	for _, i := range ignored {
		switch i.Variable {
		case EnvPaged:
			env.Layout = LayoutUnset
		case EnvPrefix:
			env.Prefix = 0
		case EnvHostBytes:
			env.HostBytes = 0
		case EnvDiskDir:
			env.DiskDir = ""
		}
	}
	return env
}

// reconcile has tiers and what they need agree where a variable asks for one of them: what the program asks for stays, and where variables ask
// for both, the pool has no tiers. It returns what is left of the environment.
func (c *Config) reconcile(env Environment) Environment {
	if err := c.Persistable(); err != nil {
		c.dropDisk(err.Error())
	}
	own := c.Tiers.HostBytes != 0 && c.sources[setHostBytes] == FromOption || c.Tiers.Disk.Dir != "" && c.sources[setDiskDir] == FromOption || len(c.Tiers.More) > 0
	policy := cmp.Or(c.Memory.Prefix, env.Prefix)
	if c.Model.NonCausal {
		policy = cmp.Or(c.Memory.Prefix, prefix.Off)
	}
	if cmp.Or(c.Memory.Layout, env.Layout) == Contiguous {
		if own && c.Memory.Layout == LayoutUnset {
			c.ignore(EnvPaged, "0", "the program has tiers, to which blocks go from the paged layout only")
			env.Layout = LayoutUnset
		} else {
			c.dropTiers("blocks go to tiers from the paged layout only, and this is contiguous")
		}
	}
	if policy == prefix.Off {
		if own && c.Memory.Prefix == 0 && !c.Model.NonCausal {
			c.ignore(EnvPrefix, policy.String(), "the program has tiers, in which nothing is kept that nobody finds")
			env.Prefix = 0
		} else {
			c.dropTiers("what nobody finds is not kept in tiers, and prefixes are not reused here")
		}
	}
	return env
}

// dropTiers leaves out the tiers of variables.
func (c *Config) dropTiers(why string) {
	if t := &c.Tiers; t.HostBytes != 0 && c.sources[setHostBytes] == FromEnvironment {
		value := "auto"
		if t.HostBytes > 0 {
			value = strconv.FormatInt(t.HostBytes, 10)
		}
		c.ignore(EnvHostBytes, value, why)
		t.HostBytes, c.sources[setHostBytes] = 0, FromDefault
	}
	c.dropDisk(why)
}

func (c *Config) dropDisk(why string) {
	if d := &c.Tiers.Disk; d.Dir != "" && c.sources[setDiskDir] == FromEnvironment {
		c.ignore(EnvDiskDir, d.Dir, why)
		d.Dir, c.sources[setDiskDir] = "", FromDefault
	}
}
