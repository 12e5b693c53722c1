package config

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Ignored is an environment variable that is set but ignored, because it conflicts with the program's settings or does not suit
// the machine. A value that the variable does not accept is an error instead.
type Ignored struct{ Variable, Value, Why string }

// Ignored lists the variables that a resolved configuration ignores. Pool.Ignored adds those that the pool ignores.
func (c Config) Ignored() []Ignored { return slices.Clone(c.ignored) }

// ignore notes an ignored variable.
func (c *Config) ignore(variable, value, why string) {
	c.ignored = append(slices.Clip(c.ignored), Ignored{variable, value, why})
}

// without is the environment minus what an earlier Resolve ignored.
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

// reconcile resolves conflicts between tiers and their requirements where a variable sets one of them: the program's settings win, and between
// variables the pool has no tiers. It returns the rest of the environment.
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
			c.ignore(EnvPaged, "0", "the program sets tiers, which need the paged layout")
			env.Layout = LayoutUnset
		} else {
			c.dropTiers("tiers need the paged layout, and this is contiguous")
		}
	}
	if policy == prefix.Off {
		if own && c.Memory.Prefix == 0 && !c.Model.NonCausal {
			c.ignore(EnvPrefix, policy.String(), "the program sets tiers, which need prefix reuse")
			env.Prefix = 0
		} else {
			c.dropTiers("tiers need prefix reuse, which is off")
		}
	}
	return env
}

// dropTiers leaves out the tiers that variables set.
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
