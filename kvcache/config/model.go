package config

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/keytext"
)

// Model describes a model's attention layers, with values from the model's own configuration. The
// keys and values of given tokens depend on all of it.
type Model struct {
	Layers int `json:"layers"`
	// QHeads is the number of query heads, a multiple of KVHeads (grouped-query attention); 0: KVHeads.
	QHeads  int `json:"q_heads,omitzero"`
	KVHeads int `json:"kv_heads"`
	// HeadDim is the size of a query and key head; VHeadDim that of a value head, 0: HeadDim.
	HeadDim  int `json:"head_dim"`
	VHeadDim int `json:"v_head_dim,omitzero"`
	// Latent says that keys are the latents of multi-head latent attention (MLA; DeepSeek-V2, arXiv:2405.04434), absorbed
	// form, each followed by what is rotated: their first VHeadDim elements are the values, too, and there is one plane
	// of HeadDim elements, 576 with a VHeadDim of 512. KVHeads is usually 1. Storage.K says how they are stored. VHeadDim
	// and Scale must be set: the usual scale goes by the dims of a query head before it was absorbed. RoPE turns what comes
	// after the latent. See docs/latents.md.
	Latent bool `json:"latent,omitzero"`
	// Act is the type of activations: queries, new keys and values, and outputs. Unset: Storage.K if that is
	// F32, F16 or BF16, else F16.
	Act backend.DType `json:"act,omitzero"`
	// Scale is the factor of query·key; 0: 1/√HeadDim.
	Scale float32 `json:"scale,omitzero"`
	// NonCausal lets a token see those behind it, too (encoders): all that are added in one call, which the tokens of later
	// ones do not change. Keys and values then depend on more than what comes before them: no prefixes are reused.
	NonCausal bool `json:"non_causal,omitzero"`
	// Masks has one entry for all layers, or one for each; none: causal.
	Masks []Mask `json:"masks,omitempty"`
	// Groups are the layers that keep the same of a sequence's tokens, where not all keep everything; none: all do. A Mask
	// with a Window hides tokens, a group with one gives their memory back.
	Groups []Group `json:"groups,omitempty"`
	// RoPE is the model's rotary embedding. LayerIO.Rotate and Sequence.Shift need it.
	RoPE *backend.RoPE `json:"rope,omitempty"`
	// Digest is a digest of the weights, or of this device's part of them. It is part of the keys
	// of blocks in events (see Pool.Watch); within a pool it has no effect. It is required to store
	// blocks for longer than the process lives: see Config.Persistable. In JSON it is base64.
	Digest []byte `json:"digest,omitempty"`
}

// check checks what no default repairs.
func (m *Model) check() error {
	m.fillHeads()
	err := checkRanges("Model", []bounded{
		{"Layers", m.Layers, 1}, {"KVHeads", m.KVHeads, 1}, {"HeadDim", m.HeadDim, 1},
		{"QHeads", m.QHeads, 0}, {"VHeadDim", m.VHeadDim, 0},
	})
	if err != nil {
		return err
	}
	if m.Latent {
		if err := checkLatent("Model", m.HeadDim, m.VHeadDim, m.Scale); err != nil {
			return err
		}
	}
	return m.checkGroups()
}

// checkLatent checks what layers of latents must be given.
func checkLatent(name string, keyDim, valueDim int, scale float32) error {
	switch {
	case valueDim == 0:
		return badConfig(name+".VHeadDim", 0, "must be set with Latent: the first elements of a key that are its value, "+
			"such as 512")
	case valueDim > keyDim:
		return badConfig(name+".VHeadDim", valueDim, fmt.Sprintf("accepts 1 to HeadDim, %d: with Latent values are the "+
			"first elements of keys", keyDim))
	case scale == 0:
		return backend.ErrConfig{Name: name + ".Scale", Value: "0", Why: "must be set with Latent: 1/√(the dims of a " +
			"query head before it was absorbed), such as 1/√192"}
	}
	return nil
}

// RotatedDims is how many elements of a key come in the rows of new keys, where RoPE can turn them: all, or with Latent
// those behind the value, which comes in the rows of values.
func (m *Model) RotatedDims() int {
	if m.Latent {
		return m.HeadDim - m.VHeadDim
	}
	return m.HeadDim
}

// fillHeads takes heads and dims that only groups have from the first group that attends; of a model without one they
// count for nothing.
func (m *Model) fillHeads() {
	if !m.grouped() {
		return
	}
	heads, dim := 1, 1
	for i := range m.Groups {
		g := &m.Groups[i]
		if !g.attends() {
			continue
		}
		if heads, dim = g.KVHeads, g.HeadDim; m.QHeads == 0 {
			m.QHeads = g.QHeads
		}
		break
	}
	if m.KVHeads == 0 {
		m.KVHeads = heads
	}
	if m.HeadDim == 0 {
		m.HeadDim = dim
	}
}

// checkFilled checks the part once its fields are filled in.
func (m *Model) checkFilled() error {
	switch {
	case m.QHeads%m.KVHeads != 0:
		return badConfig("Model.QHeads", m.QHeads, fmt.Sprintf("must be a multiple of KVHeads, %d", m.KVHeads))
	case !m.Act.Float():
		return backend.ErrConfig{Name: "Model.Act", Value: m.Act.String(), Why: "accepts f32, f16 and bf16"}
	case !(m.Scale > 0) || math.IsInf(float64(m.Scale), 0):
		return backend.ErrConfig{Name: "Model.Scale", Value: fmt.Sprint(m.Scale), Why: "must be positive and finite"}
	case len(m.Masks) > 1 && len(m.Masks) != m.Layers:
		return badConfig("Model.Masks", len(m.Masks), fmt.Sprintf("need none, one for all layers, or one for each of %d "+
			"layers", m.Layers))
	}
	if err := m.checkMasks(); err != nil {
		return err
	}
	if m.RoPE != nil {
		if _, err := m.RoPE.Resolve(m.RotatedDims()); err != nil {
			return backend.ErrConfig{Name: "Model.RoPE", Value: fmt.Sprintf("%+v", *m.RoPE), Why: err.Error()}
		}
	}
	return nil
}

// content writes how a layer computes and what it sees.
func (m *Model) content(t *keytext.Text, layer int) {
	t.Line("activation", m.Act.String())
	t.Line("query-heads", keytext.Number(m.QHeads))
	t.Line("kv-heads", keytext.Number(m.KVHeads))
	t.Line("key-dim", keytext.Number(m.HeadDim))
	t.Line("value-dim", keytext.Number(m.VHeadDim))
	t.Line("scale", keytext.Real(float64(m.Scale)))
	m.ropeContent(t)
	mask := m.MaskOf(layer)
	mask.content(t)
}

// ropeContent writes what of the rotary embedding decides tables and kernels. YaRN's own
// attention factor is called by its name: a logarithm may end in another bit elsewhere.
func (m *Model) ropeContent(t *keytext.Text) {
	if m.RoPE == nil {
		t.Line("rope", keytext.Absent)
		return
	}
	r, _ := m.RoPE.Resolve(m.RotatedDims()) // as it did when the configuration was checked
	yarn, llama3 := r.Scaling == backend.YaRNScaling, r.Scaling == backend.Llama3Scaling
	attention, own := keytext.Real(r.AttentionFactor), r
	own.AttentionFactor = 0
	if own, _ = own.Resolve(m.RotatedDims()); yarn && math.Abs(own.AttentionFactor-r.AttentionFactor) < 1e-12 {
		attention = r.Scaling.String()
	}
	t.Line("rope", r.Pairing.String())
	t.Line("rope-dims", keytext.Number(r.Dims))
	t.Line("rope-theta", keytext.Real(r.Theta))
	t.Line("rope-attention", attention)
	t.Line("rope-scaling", r.Scaling.String())
	t.Line("rope-factor", keytext.Set(r.Scaling != backend.NoScaling, keytext.Real(r.Factor)))
	t.Line("rope-original-context", keytext.Set(yarn || llama3, keytext.Number(r.OriginalContext)))
	t.Line("rope-beta-fast", keytext.Set(yarn, keytext.Real(r.BetaFast)))
	t.Line("rope-beta-slow", keytext.Set(yarn, keytext.Real(r.BetaSlow)))
	t.Line("rope-low-freq", keytext.Set(llama3, keytext.Real(r.LowFreqFactor)))
	t.Line("rope-high-freq", keytext.Set(llama3, keytext.Real(r.HighFreqFactor)))
}
