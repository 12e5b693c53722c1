package config

import (
	"log/slog"
	"math"
	"strconv"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Config describes a model's keys and values and how to hold them, in five parts. Model.Layers,
// Model.KVHeads and Model.HeadDim are required; other zero values are taken from the environment
// (see Environment) and then from the defaults. In JSON (see Parse) its parts and fields
// have the same names in lower case, as in {"model": {"layers": 32, "kv_heads": 8, "head_dim": 128}}.
type Config struct {
	Model     Model     `json:"model"`
	Storage   Storage   `json:"storage,omitzero"`
	Memory    Memory    `json:"memory,omitzero"`
	Attention Attention `json:"attention,omitzero"`
	Tiers     Tiers     `json:"tiers,omitzero"`
	// Logger receives what the pool and what is below it decide and refuse, never a token, salt, adapter, key or secret: docs/metrics.md lists it. The
	// pool does not wait for its handler. nil: nothing is logged.
	Logger *slog.Logger `json:"-"`

	sources      [numSettings]Source
	ignored      []Ignored
	resolved     bool
	memory       memory
	each, stride int // blocks of a kernel that make one block, and from the first of one to that of the next; 0: 1
}

// Resolve checks the configuration and fills in its zero values: from the environment
// of the process, which is read once, then from the defaults. NewPool does this; Resolve
// is for programs that want sizes (Bytes) or the origins of values (Settings) beforehand.
func (c Config) Resolve() (Config, error) {
	env, err := processEnvironment()
	if err != nil {
		return Config{}, err
	}
	return c.ResolveWith(env)
}

// ResolveWith is Resolve with another environment. To resolve twice changes nothing;
// fields that were changed in between are checked like those of a new configuration.
func (c Config) ResolveWith(env Environment) (Config, error) {
	if err := c.check(); err != nil {
		return Config{}, err
	}
	c.memory = memory{}
	c.Model.fillHeads()
	env = env.without(c.ignored)
	c.settleTiers(env)
	env = c.reconcile(env)
	layout := Contiguous
	if c.Tiers.Any() {
		layout = Paged
	}
	settle(&c, setLayout, &c.Memory.Layout, env.Layout, layout)
	settle(&c, setCapacity, &c.Memory.Capacity, env.Capacity, DefaultCapacity)
	settle(&c, setMaxSeqs, &c.Memory.MaxSeqs, env.MaxSeqs, DefaultMaxSeqs)
	settle(&c, setQHeads, &c.Model.QHeads, 0, c.Model.KVHeads)
	settle(&c, setVHeadDim, &c.Model.VHeadDim, 0, c.Model.HeadDim)
	settle(&c, setK, &c.Storage.K, env.DType, DefaultDType)
	settle(&c, setV, &c.Storage.V, backend.Invalid, c.valueType())
	act := backend.F16
	if c.Storage.K.Float() {
		act = c.Storage.K
	}
	settle(&c, setAct, &c.Model.Act, backend.Invalid, act)
	settle(&c, setScale, &c.Model.Scale, 0, float32(1/math.Sqrt(float64(c.Model.HeadDim))))
	if c.Memory.Layout == Paged {
		settle(&c, setBlockSize, &c.Memory.BlockSize, 0, DefaultBlockSize)
		if c.Storage.Residual > 0 && c.Memory.StepTokens == 0 {
			c.Memory.StepTokens = DefaultStepTokens
		}
		if c.Model.NonCausal { // what tokens alone do not say is not reused
			settle(&c, setPrefix, &c.Memory.Prefix, 0, prefix.Off)
		} else {
			settle(&c, setPrefix, &c.Memory.Prefix, env.Prefix, prefix.Adaptive)
		}
	} else {
		settle(&c, setPrefix, &c.Memory.Prefix, 0, prefix.Off)
	}
	if c.resolved && c.Memory.Layout == Contiguous {
		c.Memory.Blocks = 0 // follows MaxSeqs
	}
	if err := c.checkFilled(); err != nil {
		return Config{}, err
	}
	if err := c.checkTiers(); err != nil {
		return Config{}, err
	}
	if err := c.divide(); err != nil {
		return Config{}, err
	}
	if c.Memory.Layout == Paged {
		settle(&c, setBlocks, &c.Memory.Blocks, env.MaxBlocks, c.blocksWanted())
	} else {
		c.Memory.Blocks = c.Memory.MaxSeqs
		c.sources[setBlocks] = c.sources[setMaxSeqs]
	}
	c.resolved = true
	if err := c.settleParts(); err != nil {
		return Config{}, err
	}
	return c, nil
}

// valueType is the default type of values.
func (c *Config) valueType() backend.DType {
	if c.Model.Latent {
		return c.Storage.K
	}
	return c.Storage.K.Coding().Values
}

// settle keeps what the caller chose, or an earlier Resolve, else takes the
// environment's value, else the default.
func settle[T comparable](c *Config, s setting, field *T, env, def T) {
	var unset T
	switch {
	case *field != unset:
		if !c.resolved {
			c.sources[s] = FromOption
		}
	case env != unset:
		*field, c.sources[s] = env, FromEnvironment
	default:
		*field, c.sources[s] = def, FromDefault
	}
}

// check checks what the caller must give and what no default repairs.
func (c *Config) check() error {
	for _, check := range [...]func() error{c.Model.check, c.Storage.check, c.Memory.check, c.Attention.check, c.Tiers.check} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkFilled checks the parts, and what they want of each other, once their fields are filled in.
func (c *Config) checkFilled() error {
	if err := c.Model.checkFilled(); err != nil {
		return err
	}
	if err := c.Storage.checkFilled(&c.Model); err != nil {
		return err
	}
	if err := c.checkNonCausal(); err != nil {
		return err
	}
	return c.Memory.checkFilled(&c.Storage)
}

// checkNonCausal checks what does not go with tokens that see those behind them.
func (c *Config) checkNonCausal() error {
	switch {
	case !c.Model.NonCausal:
		return nil
	case c.Memory.Prefix != prefix.Off:
		return backend.ErrConfig{Name: "Memory.Prefix", Value: c.Memory.Prefix.String(), Why: "keys and values of a " +
			"model with NonCausal depend on tokens behind them, so that equal prefixes have different ones; accepts off"}
	case c.Storage.Residual > 0:
		return badConfig("Storage.Residual", c.Storage.Residual, "does not go with Model.NonCausal, where every token "+
			"is as near to those behind it")
	}
	return nil
}

func badConfig(name string, value int, why string) error {
	return backend.ErrConfig{Name: name, Value: strconv.Itoa(value), Why: why}
}
