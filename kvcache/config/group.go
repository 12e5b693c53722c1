package config

import (
	"fmt"
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/kind"
)

// Group is layers of a model that keep the same of a sequence's tokens: see group.Kind. Zero values of
// what follows Layers are the model's.
type Group struct {
	Kind   group.Kind `json:"kind,omitzero"`
	Layers []int      `json:"layers"` // in rising order
	// Window is how many tokens a query of a window group sees, its own included, and Sinks the first tokens of the
	// sequence that it also sees. Memory of other tokens is given back; with Sinks that of the last Storage.Residual stays, too.
	// The paged layout refuses Sinks with Mask.ALiBi: the distance to them is not known once blocks were given back.
	Window int `json:"window,omitzero"`
	Sinks  int `json:"sinks,omitzero"`
	// Chunk is the tokens of a chunk of a chunked group: a query sees those of its own chunk up to itself. It is a multiple
	// of the tokens of a block.
	Chunk int `json:"chunk,omitzero"`
	// StateBytes is the bytes of a state group's state, of one sequence in one layer: see Batch.State.
	StateBytes int `json:"state_bytes,omitzero"`

	QHeads   int     `json:"q_heads,omitzero"`
	KVHeads  int     `json:"kv_heads,omitzero"`
	HeadDim  int     `json:"head_dim,omitzero"`
	VHeadDim int     `json:"v_head_dim,omitzero"`
	Scale    float32 `json:"scale,omitzero"`
	// Latent makes the keys of these layers latents: see Model.Latent. In the paged layout all groups that attend are latent,
	// or none.
	Latent bool `json:"latent,omitzero"`
	// K and V are how keys and values are stored, but for layers of Storage.SkipLayers.
	K backend.DType `json:"k,omitzero"`
	V backend.DType `json:"v,omitzero"`
	// RoPE is the rotary embedding of these layers; NoRoPE says that they have none though the model has.
	RoPE   *backend.RoPE `json:"rope,omitempty"`
	NoRoPE bool          `json:"no_rope,omitzero"`
}

// rule is what the group's layers read, in blocks of block tokens. A query reads the last residual tokens as they were computed,
// and sinks before them as stored in few bits: only tokens that are kept say where its residual begins.
func (g *Group) rule(block, back, residual int) group.Rule {
	r := group.Rule{Kind: g.Kind, Block: block, Window: g.Window, Sinks: g.Sinks, Chunk: g.Chunk, Back: back}
	if g.Sinks > 0 {
		r.Window = max(r.Window, residual)
	}
	return r
}

// grouped reports whether layers do not all keep the same.
func (m *Model) grouped() bool { return len(m.Groups) > 0 }

// checkGroups checks what no default repairs.
func (m *Model) checkGroups() error {
	of := make([]bool, m.Layers)
	for i := range m.Groups {
		g := &m.Groups[i]
		name := fmt.Sprintf("Model.Groups[%d]", i)
		if err := g.check(name, m); err != nil {
			return err
		}
		for j, l := range g.Layers {
			switch {
			case l < 0 || l >= m.Layers:
				return badConfig(fmt.Sprintf("%s.Layers[%d]", name, j), l, fmt.Sprintf("accepts 0 to %d", m.Layers-1))
			case of[l]:
				return badConfig(fmt.Sprintf("%s.Layers[%d]", name, j), l, "is in a group already; each layer is in one, once")
			case j > 0 && l < g.Layers[j-1]:
				return badConfig(fmt.Sprintf("%s.Layers[%d]", name, j), l, "need rising numbers")
			}
			of[l] = true
		}
	}
	if l := slices.Index(of, false); l >= 0 && m.grouped() {
		return badConfig("Model.Groups", len(m.Groups), fmt.Sprintf("layer %d is in none; one without keys and values "+
			"is in a group of kind none", l))
	}
	return nil
}

func (g *Group) check(name string, m *Model) error {
	err := checkRanges(name, []bounded{
		{"Window", g.Window, 0}, {"Sinks", g.Sinks, 0}, {"Chunk", g.Chunk, 0}, {"StateBytes", g.StateBytes, 0},
		{"QHeads", g.QHeads, 0}, {"KVHeads", g.KVHeads, 0}, {"HeadDim", g.HeadDim, 0}, {"VHeadDim", g.VHeadDim, 0}})
	if err != nil {
		return err
	}
	if err := g.checkNumbers(name); err != nil {
		return err
	}
	if g.Latent && !g.attends() {
		return backend.ErrConfig{Name: name + ".Latent", Value: "true", Why: fmt.Sprintf("is for groups with keys; this "+
			"one is of kind %v", g.Kind)}
	}
	if g.attends() && (g.Latent || m.Latent) {
		scale := g.Scale
		if scale == 0 {
			scale = m.Scale
		}
		if err := checkLatent(name, orElse(g.HeadDim, m.HeadDim), orElse(g.VHeadDim, m.VHeadDim), scale); err != nil {
			return err
		}
	}
	switch {
	case int(g.Kind) >= len(kind.Table):
		return badConfig(name+".Kind", int(g.Kind), "accepts the kinds of package group")
	case len(g.Layers) == 0:
		return badConfig(name+".Layers", 0, "need at least one")
	case !(g.Scale >= 0) || math.IsInf(float64(g.Scale), 0):
		return backend.ErrConfig{Name: name + ".Scale", Value: fmt.Sprint(g.Scale), Why: "must be positive and finite"}
	case g.NoRoPE && g.RoPE != nil:
		return backend.ErrConfig{Name: name + ".NoRoPE", Value: "true", Why: "RoPE is set"}
	}
	return nil
}
