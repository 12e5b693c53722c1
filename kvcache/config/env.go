package config

import (
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Names of the environment variables. FERRUM_METAL_PAGED_KV applies to every
// backend, despite its name.
const (
	EnvPaged     = "FERRUM_METAL_PAGED_KV" // layout: 0 contiguous, 1 paged
	EnvCapacity  = "FERRUM_KV_CAPACITY"    // most tokens of a sequence
	EnvMaxSeqs   = "FERRUM_PAGED_MAX_SEQS" // sequences of full capacity to make room for
	EnvMaxBlocks = "FERRUM_KV_MAX_BLOCKS"  // blocks of a paged pool
	EnvDType     = "FERRUM_KV_DTYPE"       // storage type of keys and values
	EnvPrefix    = "FERRUM_KV_PREFIX"      // policy of prefix reuse in a paged pool, or "off"
	EnvHostBytes = "FERRUM_KV_HOST_BYTES"  // host memory for blocks that leave the device, as 64MiB, or "auto"
	EnvDiskDir   = "FERRUM_KV_DISK_DIR"    // directory for blocks
	EnvDiskBytes = "FERRUM_KV_DISK_BYTES"  // the most that it takes
)

// Environment has the values of the environment variables. The zero value of a field: not set.
type Environment struct {
	Layout    Layout
	Capacity  int
	MaxSeqs   int
	MaxBlocks int
	DType     backend.DType
	Prefix    prefix.Policy
	HostBytes int64
	DiskDir   string
	DiskBytes int64
}

// maxSetting bounds the numbers that a variable may give, so that products of
// two of them stay far from overflow on every platform.
const maxSetting = 1<<31 - 1

// ParseEnvironment reads the variables through lookup (os.LookupEnv). An empty
// value counts as unset. For a value that a variable does not accept it returns a
// backend.ErrConfig that names the variable; it never falls back to a default silently.
func ParseEnvironment(lookup func(string) (string, bool)) (Environment, error) {
	var env Environment
	if v, ok := lookup(EnvPaged); ok && v != "" {
		switch v {
		case "0":
			env.Layout = Contiguous
		case "1":
			env.Layout = Paged
		default:
			return Environment{}, backend.ErrConfig{Name: EnvPaged, Value: v, Why: "accepts 0 (contiguous) and 1 (paged)"}
		}
	}
	for _, number := range []struct {
		name string
		to   *int
	}{{EnvCapacity, &env.Capacity}, {EnvMaxSeqs, &env.MaxSeqs}, {EnvMaxBlocks, &env.MaxBlocks}} {
		v, ok := lookup(number.name)
		if !ok || v == "" {
			continue
		}
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > maxSetting {
			return Environment{}, backend.ErrConfig{Name: number.name, Value: v, Why: "accepts a whole number from 1 to " + strconv.Itoa(maxSetting)}
		}
		*number.to = n
	}
	if v, ok := lookup(EnvDType); ok && v != "" {
		dt, err := ParseKVType(v)
		if err != nil {
			return Environment{}, backend.ErrConfig{Name: EnvDType, Value: v, Why: "accepts " + kvTypeNames()}
		}
		env.DType = dt
	}
	if v, ok := lookup(EnvPrefix); ok && v != "" {
		policy, err := prefix.ParsePolicy(v)
		if err != nil {
			return Environment{}, backend.ErrConfig{Name: EnvPrefix, Value: v, Why: "accepts " + prefix.PolicyNames()}
		}
		env.Prefix = policy
	}
	for _, size := range []struct {
		name string
		to   *int64
	}{{EnvHostBytes, &env.HostBytes}, {EnvDiskBytes, &env.DiskBytes}} {
		v, ok := lookup(size.name)
		if !ok || v == "" {
			continue
		}
		n, err := ParseBytes(v)
		if err != nil || n == 0 || n < 0 && size.name == EnvDiskBytes {
			return Environment{}, backend.ErrConfig{Name: size.name, Value: v, Why: "accepts bytes such as 1048576, 64MiB or 1.5GB"}
		}
		*size.to = n
	}
	if v, ok := lookup(EnvDiskDir); ok {
		env.DiskDir = v
	}
	return env, nil
}

// processEnvironment reads the environment of the process, once.
var processEnvironment = sync.OnceValues(func() (Environment, error) { return ParseEnvironment(os.LookupEnv) })

// ParseKVType returns the storage type of keys and values with a name: that of any float
// or quantized [backend.DType], in upper or lower case, or fp32 and fp16 for f32 and f16.
func ParseKVType(name string) (backend.DType, error) {
	lower := strings.ToLower(name)
	if lower == "fp32" || lower == "fp16" {
		lower = lower[:1] + lower[2:]
	}
	if dt, ok := backend.ParseDType(lower); ok && (dt.Float() || dt.Quantized()) {
		return dt, nil
	}
	return backend.Invalid, backend.ErrConfig{Name: "dtype", Value: name, Why: "accepts " + kvTypeNames()}
}

func kvTypeNames() string {
	var names []string
	for dt := range backend.StorageTypes {
		names = append(names, dt.String())
	}
	return strings.Join(append(names, "fp32", "fp16"), ", ")
}
