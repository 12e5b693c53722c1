package kvcache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// On a CPU with Reproducible a query's bits depend only on the query and what it sees: random models, with groups
// of every kind, masks and formats, read random texts in random pieces, in pools of every layout and block size.
func TestBitsDependOnNothingElse(t *testing.T) {
	n := 60
	switch {
	case testsize.Full():
		n *= 20
	case race.Enabled, testing.Short():
		n = 8
	}
	for seed := range uint64(n) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(45, seed))
			x := draw(rng, t)
			for range 3 {
				x.history(rng)
			}
		})
	}
}

// format is how keys and values are stored, of activations of a type; some tokens may stay as they are.
type format struct {
	act, k, v backend.DType
	residual  bool
}

var sameFormats = []format{
	{act: backend.F32, k: backend.F32}, {act: backend.F16, k: backend.F16}, {act: backend.BF16, k: backend.BF16},
	{act: backend.F16, k: backend.F16, v: backend.F32}, {act: backend.F32, k: backend.Int8}, {act: backend.F16, k: backend.Int8, v: backend.Int4},
	{act: backend.F32, k: backend.Int8Asym}, {act: backend.BF16, k: backend.Int4}, {act: backend.F32, k: backend.Int4G64}, {act: backend.F16, k: backend.FP8E4M3},
	{act: backend.F32, k: backend.FP8E5M2}, {act: backend.F32, k: backend.MXFP4}, {act: backend.BF16, k: backend.NVFP4},
	{backend.F32, backend.Int8, backend.Int4, true}, {backend.F16, backend.Int4Channel, backend.Int4, true}, {backend.F32, backend.FP8E4M3, backend.FP8E4M3, true},
}

// draw is a random model with texts, and its wanted bits.
func draw(rng *rand.Rand, t testT) *bitwise {
	for {
		x := &bitwise{t: t, cpu: cpu.Options{Reproducible: true}, long: chance(rng, 5)}
		if !x.long && chance(rng, 8) {
			x.cpu.Kernels = "go"
		}
		x.drawModel(rng)
		n := 100 + rng.IntN(300)
		if x.long {
			n = pick(rng, 2000, 4100, 5100) + rng.IntN(200)
		}
		common := rng.IntN(n)
		one := sequence(1, n)
		x.texts = [][]uint32{one, slices.Concat(one[:common], sequence(1<<14, 40+rng.IntN(60)))}
		cfg := x.cfg
		cfg.Memory.Capacity, cfg.Memory.MaxSeqs = n+200, 2
		if cfg.Memory.Layout == config.LayoutUnset {
			cfg.Memory.Layout = Contiguous
		}
		if err := x.learn(cfg); err == nil {
			return x
		} else if !errors.As(err, new(backend.ErrConfig)) && !errors.Is(err, backend.ErrUnsupported{}) {
			require.NoError(t, err)
		}
	}
}

// drawModel draws a model, and the settings of memory that are the same in all pools.
func (x *bitwise) drawModel(rng *rand.Rand) {
	m, st, f := &x.cfg.Model, &x.cfg.Storage, pick(rng, sameFormats...)
	m.KVHeads, m.HeadDim = pick(rng, 1, 2, 3), pick(rng, 8, 16, 32, 64)
	m.QHeads, m.VHeadDim = m.KVHeads*pick(rng, 1, 2, 4, 5), pick(rng, m.HeadDim, 16)
	if x.long { // to be done soon
		m.KVHeads, m.HeadDim, m.QHeads = 1, 16, pick(rng, 1, 2)
	}
	m.Act, st.K, st.V = f.act, f.k, f.v
	st.Hadamard = f.k.Quantized() && chance(rng, 3)
	x.cfg.Attention.Int8Query = f.k == backend.Int8 && chance(rng, 3)
	switch {
	case f.residual: // stored bytes depend on blocks
		st.Residual, x.cfg.Memory.StepTokens = pick(rng, 1, 6, 24, 70), pick(rng, 8, 40, 500)
		x.cfg.Memory.Layout, x.cfg.Memory.BlockSize = Paged, pick(rng, 1, 3, 4, 16, 24)
	case chance(rng, 6):
		m.Latent, m.KVHeads, m.Scale, st.V = true, 1, 0.25, f.k
		m.HeadDim, m.VHeadDim, m.QHeads = m.HeadDim+16, m.HeadDim, pick(rng, 1, 4)
	}
	if !m.Latent && chance(rng, 2) {
		m.RoPE = &backend.RoPE{}
	}
	x.drawLayers(rng)
	for _, g := range m.Groups {
		if g.Kind == group.State && !m.Latent {
			st.V, m.VHeadDim = f.k, m.HeadDim
		}
		// The other layout has no states, and a chunk is a mask there: tokens count from the sequence's beginning.
		if g.Kind == group.State || g.Chunk%64 > 0 {
			x.cfg.Memory.Layout = Paged
		}
	}
}

// drawLayers draws the groups of a model, or only its masks.
func (x *bitwise) drawLayers(rng *rand.Rand) {
	m := &x.cfg.Model
	m.Layers = 1 + rng.IntN(3)
	masks := make([]Mask, m.Layers)
	for l := range masks {
		var slopes, logits []float32
		for range m.QHeads {
			slopes, logits = append(slopes, rng.Float32()/10), append(logits, rng.Float32())
		}
		mask := &masks[l]
		if chance(rng, 4) {
			mask.ALiBi = slopes
		}
		if chance(rng, 4) {
			mask.SinkLogits = logits
		}
		if chance(rng, 4) {
			mask.SoftCap = 2
		}
	}
	m.Masks = masks
	window := func() int {
		if x.long && chance(rng, 3) {
			return 3000
		}
		return pick(rng, 1, 5, 8, 33, 64, 100, 130)
	}
	if chance(rng, 5) {
		for l := range masks {
			if chance(rng, 2) {
				masks[l].Window, masks[l].SinkTokens = window(), pick(rng, 0, 0, 3, 70)
			}
		}
		return
	}
	kinds := []group.Kind{group.Full, group.Window, group.Window, group.Chunked}
	if x.long {
		kinds = append(kinds, group.Window, group.Window, group.Window)
	}
	for l := range masks {
		g := config.Group{Layers: []int{l}, Kind: pick(rng, kinds...)}
		switch g.Kind {
		case group.Window:
			if g.Window = window(); masks[l].ALiBi == nil {
				g.Sinks = pick(rng, 0, 4, 70)
			}
		case group.Chunked:
			g.Chunk = pick(rng, 48, 128, 144, 2048, 2400)
		}
		m.Groups = append(m.Groups, g)
	}
	if chance(rng, 6) {
		m.Groups = append(m.Groups, config.Group{Kind: group.State, StateBytes: 64, Layers: []int{m.Layers}})
		m.Layers++
		m.Masks = append(m.Masks, Mask{})
	}
}

// drawPool draws a pool for the model.
func (x *bitwise) drawPool(rng *rand.Rand) *rig[*cpu.Buffer] {
	for tries := 0; ; tries++ {
		require.Less(x.t, tries, 100)
		cfg := x.cfg
		c := &cfg.Memory
		c.Capacity, c.MaxSeqs = len(x.texts[0])+200, 8
		if c.Layout == config.LayoutUnset {
			c.Layout = pick(rng, Paged, Paged, Paged, Contiguous)
		}
		if c.Layout == Paged {
			if c.BlockSize == 0 {
				c.BlockSize = pick(rng, 1, 3, 4, 16, 24, 64, 128)
			}
			if c.Prefix = pick(rng, prefix.Off, prefix.LRU); c.Prefix != prefix.Off && chance(rng, 2) {
				cfg.Tiers = host(x.t)
			}
		}
		if len(cfg.Model.Groups) > 0 {
			c.Rollback, c.RetainEvery = pick(rng, -1, 3, 20), pick(rng, 0, 1, 5)
		}
		r, err := x.on(pick(rng, 1, 2, 3, 8), signed(cfg))
		if err == nil {
			return r
		}
		require.ErrorAs(x.t, err, new(backend.ErrConfig))
	}
}

// history reads the texts in a random way.
func (x *bitwise) history(rng *rand.Rand) {
	r := x.drawPool(rng)
	h := &sameHistory{bitwise: x, rig: r, rng: rng, exact: x.cfg.Storage.Residual > 0}
	for range 40 {
		h.act()
	}
	for _, s := range h.readings {
		require.NoError(x.t, s.seq.Release())
	}
	r.flush()
	r.close()
}
