package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/disk"
	"github.com/spf13/cobra"
)

// cacheFlags say how the cache is held. What is not given is left to the
// environment and then to the library's defaults.
type cacheFlags struct {
	layout, kvDType, prefix string
	blockSize, residual     int
	hadamard                bool
	skipLayers              []int
}

// layoutUsage is the help of --layout, where that is the default.
func layoutUsage(of kvcache.Layout) string {
	return fmt.Sprintf("`NAME`: contiguous or paged (default: what %s says, else %v)", config.EnvPaged, of)
}

func (f *cacheFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.layout, "layout", "", layoutUsage(kvcache.Contiguous))
	cmd.Flags().IntVar(&f.blockSize, "block-size", 0, fmt.Sprintf("`N` tokens a block: a power of two, or on the CPU any number; paged only (default: %d)", config.DefaultBlockSize))
	cmd.Flags().StringVar(&f.prefix, "prefix", "", fmt.Sprintf("policy `NAME` of prefix reuse, %s; paged only (default: what %s says, else %s)", prefix.PolicyNames(), config.EnvPrefix, prefix.Adaptive))
	cmd.Flags().StringVar(&f.kvDType, "kv-dtype", "", fmt.Sprintf("storage type `NAME` of keys and values, one of those that 'ferrumkv doctor' lists (default: what %s says, else %s)", config.EnvDType, config.DefaultDType))
	cmd.Flags().IntVar(&f.residual, "residual", 0, "quantized types: leave at least the last `N` tokens as they were computed; paged only, and needed for "+byChannel())
	cmd.Flags().BoolVar(&f.hadamard, "hadamard", false, "quantized types: turn keys by a Hadamard matrix, so that large channels do less harm")
	cmd.Flags().IntSliceVar(&f.skipLayers, "skip-layers", nil, "quantized types: leave the layers `N`, counted from 0, as they were computed")
}

// byChannel names the types that quantize keys in whole blocks.
func byChannel() string {
	var names []string
	for dt := range backend.StorageTypes {
		if dt.Coding().Scope == backend.ByChannel {
			names = append(names, dt.String())
		}
	}
	return strings.Join(names, ", ")
}

// config is what the flags say of a cache; the types, which depend on the device,
// and the model's part are left open.
func (f cacheFlags) config() (kvcache.Config, error) {
	cfg := kvcache.Config{Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	var err error
	if f.layout != "" {
		if cfg.Memory.Layout, err = parseLayout(f.layout); err != nil {
			return cfg, err
		}
	}
	if f.prefix != "" {
		if cfg.Memory.Prefix, err = prefix.ParsePolicy(f.prefix); err != nil {
			return cfg, fmt.Errorf("--prefix %s: accepts %s", f.prefix, prefix.PolicyNames())
		}
	}
	if f.blockSize < 0 {
		return cfg, fmt.Errorf("--block-size %d: accepts a power of two, or on the CPU any number", f.blockSize)
	}
	if f.residual < 0 {
		return cfg, fmt.Errorf("--residual %d: accepts a number of tokens, or 0 for none", f.residual)
	}
	cfg.Memory.BlockSize, cfg.Storage.Residual, cfg.Storage.Hadamard, cfg.Storage.SkipLayers = f.blockSize, f.residual, f.hadamard, f.skipLayers
	return cfg, nil
}

// kvType is the storage type that the flag, else the environment, asks for; unset
// where neither does. A type that be cannot hold comes with an error, a name that
// is none with an error and no type.
func (f cacheFlags) kvType(be anyBackend) (backend.DType, error) {
	origin, name := "--kv-dtype ", f.kvDType
	if name == "" {
		origin, name = config.EnvDType+"=", os.Getenv(config.EnvDType)
	}
	if name == "" {
		return backend.Invalid, nil
	}
	dt, err := heldType(be, origin, name)
	if err == nil && dt.Coding().Scope == backend.ByChannel && f.residual == 0 {
		return backend.Invalid, fmt.Errorf("%s%s: quantizes keys in whole blocks; say with --residual N how many tokens stay as they are until then, and --layout paged", origin, name)
	}
	return dt, err
}

// flagOf is the flag that sets a field of the library's configurations.
var flagOf = map[string]string{
	"Memory.BlockSize": "--block-size", "Memory.Prefix": "--prefix", "Temperature": "--temperature", "TopP": "--top-p", "TopK": "--top-k", "MinP": "--min-p",
	"RepeatPenalty": "--repeat-penalty", "Guesses": "--guesses",
	"Memory.Layout": "--layout", "Capacity": "--context", "Tiers.HostBytes": "--host-bytes", "Tiers.Disk.Dir": "--disk",
	"Storage.Residual": "--residual", "Storage.Hadamard": "--hadamard", "Storage.SkipLayers": "--skip-layers",
}

// flagsOf names flags in what the library says of fields.
var flagsOf = strings.NewReplacer("Memory.Prefix", "--prefix", "prefix.Off", "off", "Hadamard", "--hadamard", "SkipLayers", "--skip-layers",
	"Tiers.HostBytes", "--host-bytes", "Tiers.Disk.Dir", "--disk")

// asFlag names the flag where the library names a field.
func asFlag(err error) error {
	var config kvcache.ErrConfig
	if !errors.As(err, &config) {
		return err
	}
	field, _, _ := strings.Cut(config.Name, "[") // an element of a list
	if flag := flagOf[field]; flag != "" {
		return fmt.Errorf("%s %s: %s", flag, config.Value, flagsOf.Replace(config.Why))
	}
	if field == "Model.Groups" && strings.Contains(config.Why, "needs the paged layout") {
		return fmt.Errorf("the contiguous layout does not hold this model, whose layers keep a %s; say --layout paged", config.Value)
	}
	if why := flagsOf.Replace(config.Why); why != config.Why { // of a variable
		config.Why = why
		return config
	}
	return err
}

// lowerSize is what to do about a cache that is too large.
const lowerSize = "lower " + config.EnvMaxSeqs + ", " + config.EnvMaxBlocks + " or " + config.EnvCapacity

// asVariable says of a cache that is full, or too large for a device, which
// variables change that, and of a disk in use that it is.
func asVariable(err error, cfg kvcache.Config, device string) error {
	full := errors.Is(err, kvcache.ErrOutOfBlocks{})
	switch {
	case errors.As(err, new(disk.ErrInUse)):
		return fmt.Errorf("--disk %s: another ferrumkv has it open for this model and format; wait for that, or name another directory", cfg.Tiers.Disk.Dir) // a variable would be ignored
	case full && cfg.Memory.Layout == kvcache.Contiguous:
		return fmt.Errorf("the cache is full: it holds %s of %s; raise %s", count(cfg.Memory.MaxSeqs, "sequence"), count(cfg.Memory.Capacity, "token"), config.EnvMaxSeqs)
	case full:
		raise := config.EnvMaxBlocks
		if os.Getenv(raise) == "" { // the blocks follow from the sequences
			raise = config.EnvMaxSeqs + " or " + raise
		}
		return fmt.Errorf("the cache is full: it holds %s of %s; raise %s", count(cfg.Memory.Blocks, "block"), count(cfg.Memory.BlockSize, "token"), raise)
	case errors.Is(err, backend.ErrOutOfMemory{}):
		return fmt.Errorf("the cache does not fit the memory of %s; lower --context, or, where they are set, %s", device, strings.TrimPrefix(lowerSize, "lower "))
	case err != nil:
		if _, why, ok := strings.Cut(err.Error(), "tier: disk: "); ok { // as errors of the library's disk tier begin
			return fmt.Errorf("--disk: %s", why)
		}
	}
	return err
}

func parseLayout(name string) (kvcache.Layout, error) {
	for _, l := range []kvcache.Layout{kvcache.Contiguous, kvcache.Paged} {
		if name == l.String() {
			return l, nil
		}
	}
	return kvcache.LayoutUnset, fmt.Errorf("--layout %s: accepts contiguous and paged", name)
}
