package kvcache

import (
	"fmt"
	"math"
	"strconv"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Layout is how a sequence's tokens lie in memory.
type Layout uint8

const (
	// LayoutUnset leaves the choice to FERRUM_METAL_PAGED_KV.
	LayoutUnset Layout = iota
	// Contiguous gives each sequence one run [heads, capacity, dim].
	Contiguous
	// Paged gives each sequence blocks [heads, block size, dim] on demand.
	Paged
)

func (l Layout) String() string { return [...]string{"unset", "contiguous", "paged"}[min(l, Paged)] }

// Defaults of a Config.
const (
	DefaultBlockSize = 16
	DefaultCapacity  = 4096
	DefaultMaxSeqs   = 8
	DefaultDType     = backend.F16
)

// Config describes a model's keys and values and how to hold them. Layers,
// KVHeads and HeadDim are required; other zero values are taken from the
// environment (see Environment) and then from the defaults.
type Config struct {
	Layout Layout // prefixes are reused in the paged layout only
	Layers int
	// QHeads is a multiple of KVHeads; 0: KVHeads.
	QHeads, KVHeads int
	// HeadDim is the size of a query and key head; VHeadDim that of a value head, 0: HeadDim.
	HeadDim, VHeadDim int
	// K and V are the storage types; V unset: K, or what its Coding says where K is for keys only. Act is
	// the type of queries, new keys and values, and outputs; unset: K if that is computed
	// with, else f16.
	K, V, Act backend.DType
	// SkipLayers are the layers whose keys and values stay in Act where K or V is
	// quantized: often the first and the last.
	SkipLayers []int
	// Hadamard turns keys by the Walsh-Hadamard matrix before they are quantized, and
	// queries with them, so that a channel of large keys does not spoil its group
	// (QuaRot, arXiv:2404.00456). Batch.AppendRotated or AppendQueries has to see the queries.
	Hadamard bool
	// KScales and VScales are the scales of 8-bit floats: one for all, one for each layer,
	// or [layers, KV heads]; none: 1. Values beyond 448 (FP8E4M3) or 57344 times a
	// scale are saturated.
	KScales, VScales []float32
	// Residual is the last tokens, at least, that a query reads in Act where K and V are
	// quantized; older ones are quantized in whole blocks (KIVI, arXiv:2402.02750). K of
	// Int4Channel needs it. Which tokens those are is a function of the query's position, however
	// a prompt is cut into steps. For the new tokens of two steps at once there are exact blocks
	// besides, StepTokens each, 0: DefaultStepTokens; a longer prompt is cut (ErrOutOfBlocks). Paged,
	// without Scores.
	Residual, StepTokens int
	// Saturate makes finite what is not, where it is quantized (see
	// backend.AppendParams); without it that is an error.
	Saturate bool
	// Int8Query also rounds queries to int8 where keys are quantized, and maybe weights (see
	// backend.AttendParams): faster and less exact. For devices that say so (backend.Caps.Int8Query).
	Int8Query bool
	// Scores keeps for each token the attention mass that it got, in all layers, for
	// eviction: 4 bytes a token and KV head, and a second pass over the keys in steps with
	// AccumulateMass, which is then on from the start.
	Scores bool
	// MinShared is the fewest tokens that sequences of a step have in common, in the blocks
	// that they share, for attention to read those once for all of them; 0: as many as pay
	// on the device (none on a CPU whose bits are to be reproducible), −1: it never does. See
	// backend.AttendShape.
	MinShared int
	// BlockSize is the tokens of a block, a power of two. Paged only.
	BlockSize int
	// Capacity is the most tokens a sequence may have. A paged sequence takes memory for the
	// tokens that it has, on the host, too.
	Capacity int
	// MaxSeqs is the number of sequences of full capacity to make room for.
	MaxSeqs int
	// Blocks is the number of blocks; 0: MaxSeqs times the blocks of Capacity, or as
	// many as the device has room for (see Within). Paged only.
	Blocks int
	// Scale is the factor of query·key; 0: 1/√HeadDim.
	Scale float32
	// Masks has one entry for all layers, or one for each; none: causal.
	Masks []Mask
	// RoPE is the model's rotary embedding. Batch.AppendRotated and Sequence.Shift need it.
	RoPE *backend.RoPE
	// Prefix is the policy by which what earlier sequences computed is kept for later
	// ones; prefix.Off keeps nothing. It needs the paged layout, where unset is
	// prefix.Adaptive. A runner whose tokens do not say what is in its keys and values
	// turns it off, or opens its sequences with NoPublish.
	Prefix prefix.Policy
	// Model is a digest of the weights, or of this device's part of them. It goes into the
	// keys by which other processes know blocks (see Pool.Watch); within a pool it decides
	// nothing. What outlives the process needs it: see Persistable.
	Model []byte

	sources  [numSettings]Source
	resolved bool
}

// Resolve checks the configuration and fills in what was left open: from the
// environment of the process, which is read once, then from the defaults. NewPool
// does this; Resolve is for programs that want sizes or origins beforehand.
func (c Config) Resolve() (Config, error) {
	env, err := processEnvironment()
	if err != nil {
		return Config{}, err
	}
	return c.ResolveWith(env)
}

// ResolveWith is Resolve with another environment. Resolving twice changes nothing;
// fields that were changed in between are checked as if given from the start.
func (c Config) ResolveWith(env Environment) (Config, error) {
	if err := c.checkModel(); err != nil {
		return Config{}, err
	}
	settle(&c, setLayout, &c.Layout, env.Layout, Contiguous)
	settle(&c, setCapacity, &c.Capacity, env.Capacity, DefaultCapacity)
	settle(&c, setMaxSeqs, &c.MaxSeqs, env.MaxSeqs, DefaultMaxSeqs)
	settle(&c, setQHeads, &c.QHeads, 0, c.KVHeads)
	settle(&c, setVHeadDim, &c.VHeadDim, 0, c.HeadDim)
	settle(&c, setK, &c.K, env.DType, DefaultDType)
	settle(&c, setV, &c.V, backend.Invalid, c.K.Coding().Values)
	act := backend.F16
	if c.K.Float() {
		act = c.K
	}
	settle(&c, setAct, &c.Act, backend.Invalid, act)
	settle(&c, setScale, &c.Scale, 0, float32(1/math.Sqrt(float64(c.HeadDim))))
	if c.Layout == Paged {
		settle(&c, setBlockSize, &c.BlockSize, 0, DefaultBlockSize)
		if c.Residual > 0 && c.StepTokens == 0 {
			c.StepTokens = DefaultStepTokens
		}
		settle(&c, setPrefix, &c.Prefix, env.Prefix, prefix.Adaptive)
	} else {
		settle(&c, setPrefix, &c.Prefix, 0, prefix.Off)
	}
	if c.resolved && c.Layout == Contiguous {
		c.Blocks = 0 // follows MaxSeqs
	}
	if err := c.checkCache(); err != nil {
		return Config{}, err
	}
	if c.Layout == Paged {
		blocks, ok := backend.Mul(c.MaxSeqs, ceilDiv(c.Capacity, c.BlockSize))
		if !ok {
			blocks = math.MaxInt // too many: bytes says so unless Blocks is given
		}
		settle(&c, setBlocks, &c.Blocks, env.MaxBlocks, blocks)
	} else {
		c.Blocks = c.MaxSeqs
		c.sources[setBlocks] = c.sources[setMaxSeqs]
	}
	c.resolved = true
	if _, err := c.bytes(); err != nil {
		return Config{}, err
	}
	return c, nil
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

// checkModel checks what the caller must give and what no default repairs.
func (c Config) checkModel() error {
	for _, f := range []struct {
		name     string
		v, least int
	}{
		{"Layers", c.Layers, 1}, {"KVHeads", c.KVHeads, 1}, {"HeadDim", c.HeadDim, 1}, {"QHeads", c.QHeads, 0},
		{"VHeadDim", c.VHeadDim, 0}, {"BlockSize", c.BlockSize, 0}, {"Capacity", c.Capacity, 0},
		{"MaxSeqs", c.MaxSeqs, 0}, {"Blocks", c.Blocks, 0}, {"Residual", c.Residual, 0}, {"StepTokens", c.StepTokens, 0},
		{"MinShared", c.MinShared, -1},
	} {
		if f.v < f.least || f.v > maxSetting {
			return badConfig(f.name, f.v, fmt.Sprintf("accepts %d to %d", f.least, maxSetting))
		}
	}
	if c.Layout > Paged {
		return badConfig("Layout", int(c.Layout), "accepts Contiguous and Paged")
	}
	return nil
}

// checkCache checks the configuration once its fields are filled in.
func (c Config) checkCache() error {
	switch {
	case c.QHeads%c.KVHeads != 0:
		return badConfig("QHeads", c.QHeads, fmt.Sprintf("must be a multiple of KVHeads, %d", c.KVHeads))
	case c.Layout == Paged && c.BlockSize&(c.BlockSize-1) != 0:
		return badConfig("BlockSize", c.BlockSize, "must be a power of two")
	case c.Layout == Contiguous && c.BlockSize != 0:
		return badConfig("BlockSize", c.BlockSize, "applies to the paged layout only")
	case c.Layout == Contiguous && c.Blocks != 0:
		return badConfig("Blocks", c.Blocks, "applies to the paged layout only; MaxSeqs sizes a contiguous pool")
	case c.Layout == Contiguous && c.Prefix != prefix.Off:
		return ErrConfig{Name: "Prefix", Value: c.Prefix.String(), Why: "applies to the paged layout only"}
	case c.Prefix > prefix.Off:
		return badConfig("Prefix", int(c.Prefix), "accepts the policies of package prefix")
	case !c.Act.Float():
		return ErrConfig{Name: "Act", Value: c.Act.String(), Why: "accepts f32, f16 and bf16"}
	case !(c.Scale > 0) || math.IsInf(float64(c.Scale), 0):
		return ErrConfig{Name: "Scale", Value: fmt.Sprint(c.Scale), Why: "must be positive and finite"}
	case len(c.Masks) > 1 && len(c.Masks) != c.Layers:
		return badConfig("Masks", len(c.Masks), fmt.Sprintf("need none, one for all layers, or one for each of %d layers", c.Layers))
	}
	for _, t := range []struct {
		name string
		dt   backend.DType
	}{{"K", c.K}, {"V", c.V}} {
		if !t.dt.Float() && !t.dt.Quantized() {
			return ErrConfig{Name: t.name, Value: t.dt.String(), Why: "accepts " + kvTypeNames()}
		}
	}
	if err := firstOf(c.checkStorage(), firstOf(c.checkResidual(), c.checkMasks())); err != nil {
		return err
	}
	if c.RoPE != nil {
		if _, err := c.RoPE.Resolve(c.HeadDim); err != nil {
			return ErrConfig{Name: "RoPE", Value: fmt.Sprintf("%+v", *c.RoPE), Why: err.Error()}
		}
	}
	return nil
}

func badConfig(name string, value int, why string) error {
	return ErrConfig{Name: name, Value: strconv.Itoa(value), Why: why}
}
