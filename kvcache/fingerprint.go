package kvcache

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Fingerprint is what the content of a pool's blocks depends on besides tokens: with
// its Root a process that has no pool computes the keys that a pool's events name
// (see Pool.Watch). Equal configurations have equal fingerprints, on every machine.
func (c Config) Fingerprint() (prefix.Fingerprint, error) {
	c, err := c.Resolve()
	if err != nil {
		return prefix.Fingerprint{}, err
	}
	return c.fingerprint(), nil
}

// fingerprint is Fingerprint of a configuration that is filled in.
func (c Config) fingerprint() prefix.Fingerprint {
	f := prefix.Fingerprint{
		Model: c.Model, Layers: c.Layers, KVHeads: c.KVHeads, HeadDim: c.HeadDim, VHeadDim: c.VHeadDim,
		K: c.K.String(), V: c.V.String(), BlockSize: c.slots(),
	}
	if c.RoPE != nil {
		if r, err := c.RoPE.Resolve(c.HeadDim); err == nil { // as it did when the configuration was checked
			f.RoPE = ropeBytes(r)
		}
	}
	// How a layer sees its past decides what the layers above it store.
	m := words{}
	m.ints(c.QHeads, int(c.Act))
	m.floats(float64(c.Scale))
	for l := range c.Layers {
		mask := c.mask(l)
		m.ints(mask.Window, mask.SinkTokens, len(mask.ALiBi), len(mask.SinkLogits))
		m.floats(float64(mask.SoftCap))
		for _, list := range [...][]float32{mask.ALiBi, mask.SinkLogits} {
			for _, v := range list {
				m.floats(float64(v))
			}
		}
	}
	// How keys and values are rounded decides what is stored, too.
	if c.K.Quantized() || c.V.Quantized() {
		m.ints(bit(c.Hadamard), bit(c.Saturate), bit(c.Int8Query), c.Residual)
		for l := range c.Layers {
			m.ints(bit(slices.Contains(c.SkipLayers, l)))
			for _, list := range [...][]float32{c.headScales(c.KScales, l), c.headScales(c.VScales, l)} {
				for _, v := range list {
					m.floats(float64(v))
				}
			}
		}
	}
	f.Masks = m
	return f
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func ropeBytes(r backend.RoPE) []byte {
	w := words{}
	w.ints(r.Dims, int(r.Pairing), int(r.Scaling), r.OriginalContext)
	w.floats(r.Theta, r.Factor, r.BetaFast, r.BetaSlow, r.LowFreq, r.HighFreq, r.Attention)
	return w
}

// words are numbers of 8 bytes one after the other. How many there are follows from
// the numbers themselves.
type words []byte

func (w *words) ints(ns ...int) {
	for _, n := range ns {
		*w = binary.LittleEndian.AppendUint64(*w, uint64(n))
	}
}

func (w *words) floats(fs ...float64) {
	for _, f := range fs {
		*w = binary.LittleEndian.AppendUint64(*w, math.Float64bits(f))
	}
}
