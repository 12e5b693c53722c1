package config

import (
	"fmt"
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Storage is how keys and values are stored: in which types, and how they are rounded.
type Storage struct {
	// K and V are the storage types. K unset: F16. V unset: K, or backend.Coding.Values of K when K is for keys only.
	K backend.DType `json:"k,omitzero"`
	V backend.DType `json:"v,omitzero"`
	// SkipLayers are the layers whose keys and values stay in Model.Act where K or V is
	// quantized: often the first and the last.
	SkipLayers []int `json:"skip_layers,omitempty"`
	// Hadamard transforms keys, and queries, with a Walsh-Hadamard matrix before keys are
	// quantized, so that one channel of large values does not degrade its group (QuaRot,
	// arXiv:2404.00456). Append then needs the queries, too: see LayerIO.
	Hadamard bool `json:"hadamard,omitzero"`
	// KScales and VScales are the scales of 8-bit floats, and those that NVFP4's groups have
	// theirs relative to: one for all, one for each layer, or [layers, KV heads]; none: 1. Values
	// beyond 448 (FP8E4M3), 57344 (FP8E5M2) or 6*448 (NVFP4) times the scale are saturated. For 8-bit
	// floats that product is a finite float32.
	KScales []float32 `json:"k_scales,omitempty"`
	VScales []float32 `json:"v_scales,omitempty"`
	// Residual is, with quantized K and V, the least number of last tokens that a query reads
	// unquantized, in Model.Act; older tokens are quantized in whole blocks (KIVI's residual
	// length, arXiv:2402.02750). Int4Channel as K needs it. Which tokens a query reads
	// unquantized depends only on its position, not on how a prompt is split into steps. Paged only.
	Residual int `json:"residual,omitzero"`
	// Saturate stores values that are not finite as finite ones when they are quantized (see
	// backend.AppendParams); without it they are an error (backend.ErrNonFinite).
	Saturate bool `json:"saturate,omitzero"`
}

// plane is how a layer's keys or values are stored.
type plane struct {
	dt  backend.DType
	dim int
}

// FormatOf is the types of a layer. A layer of SkipLayers stores keys and values in Model.Act.
func (c Config) FormatOf(layer int) backend.Format {
	if slices.Contains(c.Storage.SkipLayers, layer) {
		return backend.Format{Act: c.Model.Act, K: c.Model.Act, V: c.Model.Act}
	}
	return backend.Format{Act: c.Model.Act, K: c.Storage.K, V: c.Storage.V}
}

// Formats lists each format that layers have once, that of Storage.K and V first.
func (c Config) Formats() []backend.Format {
	all, _ := c.countFormats()
	return all
}

// countFormats is formats, and how many layers have each.
func (c Config) countFormats() (all []backend.Format, layers []int) {
	skipped := 0
	for i, l := range c.Storage.SkipLayers {
		if !slices.Contains(c.Storage.SkipLayers[:i], l) {
			skipped++
		}
	}
	for _, f := range [...]struct {
		format backend.Format
		layers int
	}{{backend.Format{Act: c.Model.Act, K: c.Storage.K, V: c.Storage.V}, c.Model.Layers - skipped}, {backend.Format{Act: c.Model.Act, K: c.Model.Act, V: c.Model.Act}, skipped}} {
		if f.layers > 0 {
			all, layers = append(all, f.format), append(layers, f.layers)
		}
	}
	return all, layers
}

// planes are the keys and, where they are not in those, the values of layers of a format.
func (c Config) planes(f backend.Format) []plane {
	planes := []plane{{f.K, c.Model.HeadDim}, {f.V, c.Model.VHeadDim}}
	if c.Model.Latent {
		return planes[:1]
	}
	return planes
}

// HadamardOf reports whether a layer's keys and queries are transformed (Storage.Hadamard).
func (c Config) HadamardOf(layer int) bool {
	return c.Storage.Hadamard && c.FormatOf(layer).K.Quantized()
}

// blockBytes is the bytes of one layer's block of a plane, its scales included, and those
// of its scales that no block has.
func (c Config) blockBytes(p plane) (perBlock, fixed int64, ok bool) {
	n, fits := backend.Mul(c.Model.KVHeads, c.BlockTokens(), p.dim)
	bytes, sized := p.dt.Size(n)
	_, scales, few := p.dt.Scales(1, c.Model.KVHeads, c.BlockTokens(), p.dim)
	if !fits || !sized || !few || bytes > math.MaxInt64/8 || scales > math.MaxInt32 {
		return 0, 0, false
	}
	heads := p.dt.HeadWords(c.Model.KVHeads) // of the layer
	return bytes + 4*int64(scales-heads), 4 * int64(heads), true
}

// KeyScales are the scales of a layer's keys [KV heads], ValueScales those of its values; nil if there is no such layer.
func (c Config) KeyScales(layer int) []float32   { return c.headScales(c.Storage.KScales, layer) }
func (c Config) ValueScales(layer int) []float32 { return c.headScales(c.Storage.VScales, layer) }

// headScales are a layer's scales [KV heads] from a list of one for all, of one for each
// layer, or of one for each layer and head.
func (c Config) headScales(list []float32, layer int) []float32 {
	if layer < 0 || layer >= c.Model.Layers || c.Model.KVHeads < 1 || c.Model.KVHeads > maxSetting {
		return nil
	}
	out := make([]float32, c.Model.KVHeads)
	for h := range out {
		switch n := len(list); {
		case n == 0:
			out[h] = 1
		case n == 1:
			out[h] = list[0]
		case n == c.Model.Layers:
			out[h] = list[layer]
		case layer < n/c.Model.KVHeads:
			out[h] = list[layer*c.Model.KVHeads+h]
		default: // not a list that Resolve accepts
			return nil
		}
	}
	return out
}

// checkLatent checks what does not go with keys that have the values in them.
func (s *Storage) checkLatent(m *Model) error {
	switch {
	case s.K.Coding().Scope == backend.ByChannel:
		return backend.ErrConfig{Name: "Storage.K", Value: s.K.String(), Why: "is for keys that are not values, too; with Model.Latent take int4"}
	case s.V != s.K:
		return backend.ErrConfig{Name: "Storage.V", Value: s.V.String(), Why: fmt.Sprintf("with Model.Latent values are parts of the keys, of %s: leave it unset", s.K)}
	case len(s.VScales) > 0:
		return backend.ErrConfig{Name: "Storage.VScales", Value: fmt.Sprint(len(s.VScales), " scales"), Why: "with Model.Latent values are parts of the keys: KScales are theirs"}
	case s.Hadamard:
		return backend.ErrConfig{Name: "Storage.Hadamard", Value: "true", Why: "does not go with Model.Latent: values would be transformed, too"}
	}
	return nil
}

func (s *Storage) check() error {
	return checkRanges("Storage", []bounded{{"Residual", s.Residual, 0}})
}

// checkFilled checks the part once its fields are filled in.
func (s *Storage) checkFilled(m *Model) error {
	for _, t := range [...]struct {
		name string
		dt   backend.DType
	}{{"Storage.K", s.K}, {"Storage.V", s.V}} {
		if !t.dt.Float() && !t.dt.Quantized() {
			return backend.ErrConfig{Name: t.name, Value: t.dt.String(), Why: "accepts " + kvTypeNames()}
		}
	}
	if m.Latent {
		if err := s.checkLatent(m); err != nil {
			return err
		}
	}
	if s.V.Coding().Values != s.V {
		return backend.ErrConfig{Name: "Storage.V", Value: s.V.String(), Why: "is for keys only"}
	}
	for _, p := range []struct {
		name string
		plane
	}{{"Model.HeadDim", plane{s.K, m.HeadDim}}, {"Model.VHeadDim", plane{s.V, m.VHeadDim}}} {
		if p.dt.Quantized() && p.dim*p.dt.Bits()%8 != 0 {
			return badConfig(p.name, p.dim, fmt.Sprintf("must be even for %s", p.dt))
		}
	}
	if s.Hadamard && !s.K.Quantized() {
		return backend.ErrConfig{Name: "Storage.Hadamard", Value: "true", Why: fmt.Sprintf("is for quantized keys, K is %s", s.K)}
	}
	if len(s.SkipLayers) > 0 && !s.K.Quantized() && !s.V.Quantized() {
		return backend.ErrConfig{Name: "Storage.SkipLayers", Value: fmt.Sprint(s.SkipLayers), Why: fmt.Sprintf("are for quantized keys or values; K is %s, V is %s", s.K, s.V)}
	}
	for i, l := range s.SkipLayers {
		if l < 0 || l >= m.Layers {
			return badConfig(fmt.Sprintf("Storage.SkipLayers[%d]", i), l, fmt.Sprintf("accepts 0 to %d", m.Layers-1))
		}
	}
	for _, p := range []struct {
		name string
		dt   backend.DType
		list []float32
	}{{"Storage.KScales", s.K, s.KScales}, {"Storage.VScales", s.V, s.VScales}} {
		n := len(p.list)
		if n == 0 {
			continue
		}
		if !p.dt.HeadFactors() {
			return backend.ErrConfig{Name: p.name, Value: fmt.Sprint(n, " scales"), Why: fmt.Sprintf("are for 8-bit floats and nvfp4; %s has scales of its own, or none", p.dt)}
		}
		if all, ok := backend.Mul(m.Layers, m.KVHeads); n != 1 && n != m.Layers && (!ok || n != all) {
			return badConfig(p.name, n, fmt.Sprintf("need 1, one for each of %d layers, or one for each of their %d heads", m.Layers, m.KVHeads))
		}
		for i, v := range p.list {
			if !(v > 0) || math.IsInf(float64(v), 0) {
				return backend.ErrConfig{Name: fmt.Sprintf("%s[%d]", p.name, i), Value: fmt.Sprint(v), Why: "must be positive and finite"}
			}
			if most := mostScale(p.dt); v > most {
				return backend.ErrConfig{Name: fmt.Sprintf("%s[%d]", p.name, i), Value: fmt.Sprint(v),
					Why: fmt.Sprintf("must be at most %g: the largest codes of %s would be worth an infinity", most, p.dt)}
			}
		}
	}
	return s.checkResidual()
}

// mostScale is the largest scale with which all codes of a type are finite. NVFP4 chooses its groups' own so
// that they are.
func mostScale(dt backend.DType) float32 {
	switch dt.Coding().Code {
	case backend.E4M3:
		return float32(math.MaxFloat32) / 448
	case backend.E5M2:
		return float32(math.MaxFloat32) / 57344
	}
	return math.MaxFloat32
}
