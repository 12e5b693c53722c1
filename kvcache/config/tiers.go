package config

import (
	"strconv"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/seal"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/disk"
)

// Tiers is memory below the device, where full blocks of exact content go once they are written, and from where Open has them
// brought back. The zero value is none. With tiers the paged layout is the default, and needed.
type Tiers struct {
	// HostBytes is how much host memory blocks may take; HostAuto: half of what the machine, or the container's limit, leaves
	// beside the pool. 0: none.
	HostBytes int64 `json:"host_bytes,omitzero"`
	// Disk keeps blocks in files, also for the next process. It needs Model.Digest; if only a variable sets it, see Ignored.
	Disk Disk `json:"disk,omitzero"`
	// More are tiers of the program's own, asked after those above. They stay the program's, which closes them after the pool.
	More []tier.Tier `json:"-"`
	// Secret encrypts and authenticates what Disk and More store: 32 random bytes that the owner keeps elsewhere. A tier of More then sees
	// neither payloads nor keys, and pools that share it need the same secret. A changed block is a miss. nil: nothing is encrypted, and
	// sums detect faults, not forgeries.
	Secret []byte `json:"-"`
}

// HostAuto is the HostBytes that fit the machine.
const HostAuto = -1

// Disk is a directory for blocks: see disk.Options.
type Disk struct {
	// Dir has a directory for each model and way to store its keys and values; "": no disk. It is made, for the owner alone. One process
	// at a time uses it.
	Dir         string         `json:"dir,omitzero"`
	Bytes       int64          `json:"bytes,omitzero"`        // the most that files take; 0: a tenth of the file system
	Floor       int64          `json:"floor,omitzero"`        // bytes of the file system left free; 0: a twentieth of it, at most disk.DefaultFloor
	Admission   disk.Admission `json:"admission,omitzero"`    // what is written when it is full: "all" or "second-use"; "": all
	WriteBudget int64          `json:"write_budget,omitzero"` // bytes a day, of second-use
	Durable     bool           `json:"durable,omitzero"`
	Network     bool           `json:"network,omitzero"` // a network file system is admitted
}

// Any reports whether there are tiers.
func (t *Tiers) Any() bool { return t.HostBytes != 0 || t.Disk.Dir != "" || len(t.More) > 0 }

// outlive reports whether some tier is found by the next process.
func (t *Tiers) outlive() bool {
	for _, m := range t.More {
		if m != nil && m.Info().Outlives {
			return true
		}
	}
	return t.Disk.Dir != ""
}

// settleTiers fills in what the environment says.
func (c *Config) settleTiers(env Environment) {
	settle(c, setHostBytes, &c.Tiers.HostBytes, env.HostBytes, 0)
	settle(c, setDiskDir, &c.Tiers.Disk.Dir, env.DiskDir, "")
	settle(c, setDiskBytes, &c.Tiers.Disk.Bytes, env.DiskBytes, 0)
}

func (t *Tiers) check() error {
	if t.HostBytes < HostAuto {
		return backend.ErrConfig{Name: "Tiers.HostBytes", Value: strconv.FormatInt(t.HostBytes, 10), Why: "accepts bytes, 0 for none and HostAuto"}
	}
	if n := len(t.Secret); t.Secret != nil && n != seal.SecretBytes {
		return backend.ErrConfig{Name: "Tiers.Secret", Value: strconv.Itoa(n) + " bytes", Why: "accepts " + strconv.Itoa(seal.SecretBytes) + " bytes"}
	}
	for _, m := range t.More {
		if m == nil {
			return backend.ErrConfig{Name: "Tiers.More", Value: "nil", Why: "accepts tiers that are open"}
		}
	}
	return nil
}

// checkTiers checks what tiers want of the rest, once that is filled in.
func (c *Config) checkTiers() error {
	if !c.Tiers.Any() {
		return nil
	}
	switch {
	case c.Memory.Layout == Contiguous:
		return backend.ErrConfig{Name: "Memory.Layout", Value: "contiguous", Why: "tiers (" + c.tierNames() + ") need the paged layout; leave the layout unset, or set no tiers"}
	case c.Memory.Prefix == prefix.Off:
		return backend.ErrConfig{Name: "Memory.Prefix", Value: c.Memory.Prefix.String(), Why: "tiers (" +
			c.tierNames() + ") need prefix reuse; choose a policy, or set no tiers"}
	case c.Tiers.outlive():
		return c.Persistable()
	}
	return nil
}

// tierNames are the settings that make tiers.
func (c *Config) tierNames() string {
	t := &c.Tiers
	var names []string
	for _, n := range []struct {
		is   bool
		name string
	}{{t.HostBytes != 0, "Tiers.HostBytes"}, {t.Disk.Dir != "", "Tiers.Disk.Dir"}, {len(t.More) > 0, "Tiers.More"}} {
		if n.is {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, ", ")
}

// ParseBytes reads a number of bytes: 1048576, 1MiB, 1.5GiB, with K, M, G and T, i or not, B or not: powers of 1024 with an i,
// else of 1000. "auto" is HostAuto.
func ParseBytes(text string) (int64, error) {
	if text == "auto" {
		return HostAuto, nil
	}
	digits := strings.TrimRight(text, "KMGTkmgtiB ")
	v, err := strconv.ParseFloat(digits, 64)
	unit := strings.TrimSuffix(strings.TrimSpace(text[len(digits):]), "B")
	base := 1000.0
	if rest, ok := strings.CutSuffix(unit, "i"); ok {
		base, unit = 1024, rest
	}
	power := strings.Index("KMGT", strings.ToUpper(unit)) + 1
	if unit == "" {
		power = 0
		if base == 1024 {
			err = strconv.ErrSyntax
		}
	} else if len(unit) > 1 || power == 0 {
		err = strconv.ErrSyntax
	}
	for range power {
		v *= base
	}
	if err != nil || !(v >= 0 && v < 1<<62) || v != float64(int64(v)) {
		return 0, backend.ErrConfig{Name: "bytes", Value: text, Why: "accepts whole bytes such as 1048576, 64MiB or 1.5GB, and auto"}
	}
	return int64(v), nil
}
