package kvcache

import (
	"fmt"
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// plane is how a layer's keys or values are stored.
type plane struct {
	dt  backend.DType
	dim int
}

// format is the types of a layer. A skipped one stores what it computes with.
func (c Config) format(layer int) backend.Format {
	if slices.Contains(c.SkipLayers, layer) {
		return backend.Format{Act: c.Act, K: c.Act, V: c.Act}
	}
	return backend.Format{Act: c.Act, K: c.K, V: c.V}
}

// formats are the different ones of the layers, that of K and V first, and how many
// layers have each.
func (c Config) formats() (all []backend.Format, layers []int) {
	skipped := 0
	for i, l := range c.SkipLayers {
		if !slices.Contains(c.SkipLayers[:i], l) {
			skipped++
		}
	}
	for _, f := range [...]struct {
		format backend.Format
		layers int
	}{{backend.Format{Act: c.Act, K: c.K, V: c.V}, c.Layers - skipped}, {backend.Format{Act: c.Act, K: c.Act, V: c.Act}, skipped}} {
		if f.layers > 0 {
			all, layers = append(all, f.format), append(layers, f.layers)
		}
	}
	return all, layers
}

// planes are the keys and the values of layers of a format.
func (c Config) planes(f backend.Format) [2]plane {
	return [2]plane{{f.K, c.HeadDim}, {f.V, c.VHeadDim}}
}

// hadamard reports whether a layer's keys, and its queries, are turned.
func (c Config) hadamard(layer int) bool { return c.Hadamard && c.format(layer).K.Quantized() }

// blockBytes is the bytes of one layer's block of a plane, its scales included, and those
// of its scales that no block has.
func (c Config) blockBytes(p plane) (perBlock, fixed int64, ok bool) {
	n, fits := backend.Mul(c.KVHeads, c.slots(), p.dim)
	bytes, sized := p.dt.Size(n)
	_, scales, few := p.dt.Scales(1, c.KVHeads, c.slots(), p.dim)
	if !fits || !sized || !few || bytes > math.MaxInt64/8 || scales > math.MaxInt32 {
		return 0, 0, false
	}
	if p.dt.Coding().Scope == backend.ByHead { // a scale for each head of the layer
		return bytes, 4 * int64(scales), true
	}
	return bytes + 4*int64(scales), 0, true
}

// headScales are a layer's scales [KV heads] from a list of one for all, of one for each
// layer, or of one for each layer and head.
func (c Config) headScales(list []float32, layer int) []float32 {
	out := make([]float32, c.KVHeads)
	for h := range out {
		switch len(list) {
		case 0:
			out[h] = 1
		case 1:
			out[h] = list[0]
		case c.Layers:
			out[h] = list[layer]
		default:
			out[h] = list[layer*c.KVHeads+h]
		}
	}
	return out
}

// checkStorage checks what belongs to quantized types.
func (c Config) checkStorage() error {
	if c.V.Coding().Values != c.V {
		return ErrConfig{Name: "V", Value: c.V.String(), Why: "is for keys only"}
	}
	for _, p := range []struct {
		name string
		plane
	}{{"HeadDim", plane{c.K, c.HeadDim}}, {"VHeadDim", plane{c.V, c.VHeadDim}}} {
		if p.dt.Quantized() && p.dim*p.dt.Bits()%8 != 0 {
			return badConfig(p.name, p.dim, fmt.Sprintf("must be even for %s", p.dt))
		}
	}
	if c.Hadamard && !c.K.Quantized() {
		return ErrConfig{Name: "Hadamard", Value: "true", Why: fmt.Sprintf("is for quantized keys, K is %s", c.K)}
	}
	if len(c.SkipLayers) > 0 && !c.K.Quantized() && !c.V.Quantized() {
		return ErrConfig{Name: "SkipLayers", Value: fmt.Sprint(c.SkipLayers), Why: fmt.Sprintf("are for quantized keys or values; K is %s, V is %s", c.K, c.V)}
	}
	for i, l := range c.SkipLayers {
		if l < 0 || l >= c.Layers {
			return badConfig(fmt.Sprintf("SkipLayers[%d]", i), l, fmt.Sprintf("accepts 0 to %d", c.Layers-1))
		}
	}
	for _, s := range []struct {
		name string
		dt   backend.DType
		list []float32
	}{{"KScales", c.K, c.KScales}, {"VScales", c.V, c.VScales}} {
		n := len(s.list)
		if n == 0 {
			continue
		}
		if s.dt.Coding().Scope != backend.ByHead {
			return ErrConfig{Name: s.name, Value: fmt.Sprint(n, " scales"), Why: fmt.Sprintf("are for 8-bit floats; %s has scales of its own, or none", s.dt)}
		}
		if all, ok := backend.Mul(c.Layers, c.KVHeads); n != 1 && n != c.Layers && (!ok || n != all) {
			return badConfig(s.name, n, fmt.Sprintf("need 1, one for each of %d layers, or one for each of their %d heads", c.Layers, c.KVHeads))
		}
		for i, v := range s.list {
			if !(v > 0) || math.IsInf(float64(v), 0) {
				return ErrConfig{Name: fmt.Sprintf("%s[%d]", s.name, i), Value: fmt.Sprint(v), Why: "must be positive and finite"}
			}
		}
	}
	return nil
}
