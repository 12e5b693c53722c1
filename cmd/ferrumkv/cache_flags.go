package main

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/spf13/cobra"
)

// cacheFlags say how the cache is held. What is not given is left to the
// environment and then to the library's defaults.
type cacheFlags struct {
	layout, kvDType string
	blockSize       int
}

func (f *cacheFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.layout, "layout", "", "`NAME`: contiguous or paged (default: what "+kvcache.EnvPaged+" says, else contiguous)")
	cmd.Flags().IntVar(&f.blockSize, "block-size", 0, fmt.Sprintf("`N` tokens a block, a power of two; paged only (default: %d)", kvcache.DefaultBlockSize))
	cmd.Flags().StringVar(&f.kvDType, "kv-dtype", "", fmt.Sprintf("storage type `NAME` of keys and values: f32, f16 or bf16 (default: what %s says, else %s)", kvcache.EnvDType, kvcache.DefaultDType))
}

// config is what the flags say of a cache; the model's part is left open.
func (f cacheFlags) config() (kvcache.Config, error) {
	var cfg kvcache.Config
	var err error
	if f.layout != "" {
		if cfg.Layout, err = parseLayout(f.layout); err != nil {
			return cfg, err
		}
	}
	if f.kvDType != "" {
		if cfg.K, err = kvcache.ParseKVType(f.kvDType); err != nil {
			return cfg, asFlag(err, "dtype", "--kv-dtype")
		}
	}
	if f.blockSize < 0 {
		return cfg, fmt.Errorf("--block-size %d: accepts a power of two", f.blockSize)
	}
	cfg.BlockSize = f.blockSize
	return cfg, nil
}

// explain names the flag where the library names a field of its configuration.
func (f cacheFlags) explain(err error) error { return asFlag(err, "BlockSize", "--block-size") }

func asFlag(err error, field, flag string) error {
	var config kvcache.ErrConfig
	if errors.As(err, &config) && config.Name == field {
		return fmt.Errorf("%s %s: %s", flag, config.Value, config.Why)
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
