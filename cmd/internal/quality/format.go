package quality

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Format is a way to store keys and values, by the name that a user gives it.
type Format struct {
	Name, About string
	k, v        backend.DType
	hadamard    bool
	block       int // tokens of a block; 0: the library's default
	residual    int
}

// Reference is the format that all others are compared with.
const Reference = "f32"

// kiviBlock is the tokens that share the scales of a channel, and of the window after them.
const kiviBlock = 32

// formats are every storage type with its own values, and ways to combine and to use them.
var formats = append(storages(), []Format{
	{Name: "int8-int4", About: "keys int8, values int4", k: backend.Int8, v: backend.Int4},
	{Name: "int4-hadamard", About: "int4, keys turned by a Hadamard matrix", k: backend.Int4, v: backend.Int4, hadamard: true},
	{Name: "int4-residual", About: "int4, at least the last 32 tokens exact", k: backend.Int4, v: backend.Int4, block: kiviBlock, residual: kiviBlock},
	{Name: "kivi4", About: "KIVI: keys int4 for each channel of 32 tokens, values int4, at least the last 32 tokens exact",
		k: backend.Int4Channel, v: backend.Int4, block: kiviBlock, residual: kiviBlock},
	{Name: "kivi4-int8", About: "keys as kivi4, values int8", k: backend.Int4Channel, v: backend.Int8, block: kiviBlock, residual: kiviBlock},
}...)

// storages is the types that a row is stored in by itself.
func storages() (all []Format) {
	for dt := range backend.StorageTypes {
		if c := dt.Coding(); c.Values == dt {
			all = append(all, Format{Name: c.Name, About: about(c), k: dt, v: dt})
		}
	}
	return all
}

// about is a storage type in a few words.
func about(c backend.Coding) string {
	switch {
	case c.Code == backend.BrainFloat:
		return "bfloat16"
	case c.Act && c.Bits == 32:
		return "as computed"
	case c.Act:
		return "half precision"
	}
	var scale string
	switch {
	case c.Scope == backend.ByHead:
		scale = "scale 1"
	case c.Scale == backend.Minifactors:
		scale = fmt.Sprintf("groups of %d along the head, scale 1", c.Group)
	case c.Group > 0:
		scale = fmt.Sprintf("groups of %d along the head", c.Group)
	case c.Scale == backend.StepZero:
		scale = "a scale and a zero point for each token and head"
	default:
		scale = "a scale for each token and head"
	}
	if c.Code.Float() {
		return fmt.Sprintf("%d-bit floats, %s", c.Bits, scale)
	}
	return scale
}

// Formats is every format there is, Reference first.
func Formats() []Format { return append([]Format(nil), formats...) }

// FormatNames lists their names for a message.
func FormatNames() string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.Name
	}
	return strings.Join(names, ", ")
}

// ParseFormat is the format of a name.
func ParseFormat(name string) (Format, error) {
	for _, f := range formats {
		if f.Name == name {
			return f, nil
		}
	}
	return Format{}, fmt.Errorf("format %s: accepts %s", name, FormatNames())
}

// On reports whether a device has the format for activations in float32.
func (f Format) On(caps backend.Caps) bool {
	return caps.Supports(backend.Format{Act: backend.F32, K: f.k, V: f.v})
}

// Under is an error where the format cannot be combined with a policy.
func (f Format) Under(p Policy) error {
	if f.residual > 0 && p.scored() {
		return fmt.Errorf("format %s under policy %s: a cache with a window of exact tokens keeps no attention scores", f.Name, p.Name)
	}
	return nil
}

// config is the cache for one text of that many tokens. It leaves nothing to the environment.
func (f Format) config(tokens int) kvcache.Config {
	block := cmp.Or(f.block, config.DefaultBlockSize)
	return kvcache.Config{
		Storage: kvcache.Storage{K: f.k, V: f.v, Hadamard: f.hadamard, Residual: f.residual},
		Memory:  kvcache.Memory{Layout: kvcache.Paged, Capacity: tokens, MaxSeqs: 1, BlockSize: block, Blocks: (tokens + block - 1) / block, Prefix: prefix.Off},
	}
}
