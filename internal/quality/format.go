package quality

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
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

// kiviBlock is the tokens that share the scales of a channel, and of the window behind them.
const kiviBlock = 32

var formats = []Format{
	{Name: Reference, About: "as computed", k: backend.F32, v: backend.F32},
	{Name: "f16", About: "half precision", k: backend.F16, v: backend.F16},
	{Name: "bf16", About: "bfloat16", k: backend.BF16, v: backend.BF16},
	{Name: "int8", About: "a scale for each token and head", k: backend.Int8, v: backend.Int8},
	{Name: "int8asym", About: "a scale and a zero point for each token and head", k: backend.Int8Asym, v: backend.Int8Asym},
	{Name: "fp8e4m3", About: "8-bit floats, scale 1", k: backend.FP8E4M3, v: backend.FP8E4M3},
	{Name: "fp8e5m2", About: "8-bit floats, scale 1", k: backend.FP8E5M2, v: backend.FP8E5M2},
	{Name: "int8-int4", About: "keys int8, values int4", k: backend.Int8, v: backend.Int4},
	{Name: "int4", About: "groups of 32 along the head", k: backend.Int4, v: backend.Int4},
	{Name: "int4g64", About: "groups of 64 along the head", k: backend.Int4G64, v: backend.Int4G64},
	{Name: "int4-hadamard", About: "int4, keys turned by a Hadamard matrix", k: backend.Int4, v: backend.Int4, hadamard: true},
	{Name: "int4-residual", About: "int4, at least the last 32 tokens exact", k: backend.Int4, v: backend.Int4, block: kiviBlock, residual: kiviBlock},
	{Name: "kivi4", About: "KIVI: keys int4 for each channel of 32 tokens, values int4, at least the last 32 tokens exact",
		k: backend.Int4Channel, v: backend.Int4, block: kiviBlock, residual: kiviBlock},
	{Name: "kivi4-int8", About: "keys as kivi4, values int8", k: backend.Int4Channel, v: backend.Int8, block: kiviBlock, residual: kiviBlock},
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

// Under is an error where the format does not go with a policy.
func (f Format) Under(p Policy) error {
	if f.residual > 0 && p.Evicts() {
		return fmt.Errorf("format %s under policy %s: tokens that lie in two places, exact and quantized, cannot be evicted", f.Name, p.Name)
	}
	return nil
}

// config is the cache for one text of so many tokens. It leaves nothing to the environment.
func (f Format) config(tokens int) kvcache.Config {
	block := cmp.Or(f.block, kvcache.DefaultBlockSize)
	return kvcache.Config{
		Layout: kvcache.Paged, Capacity: tokens, MaxSeqs: 1, BlockSize: block, Blocks: (tokens + block - 1) / block, Prefix: prefix.Off,
		K: f.k, V: f.v, Hadamard: f.hadamard, Residual: f.residual,
	}
}
