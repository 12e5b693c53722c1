package main

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// layersStatus is what layers that are alike see of a sequence, and with what.
type layersStatus struct {
	Layers     string        `json:"layers"` // "0-4,6"
	Sees       string        `json:"sees"`
	QHeads     int           `json:"q_heads,omitempty"`
	KVHeads    int           `json:"kv_heads,omitempty"`
	HeadDim    int           `json:"head_dim,omitempty"`
	VHeadDim   int           `json:"v_head_dim,omitempty"`
	Latent     bool          `json:"latent,omitempty"` // values are the first elements of keys
	StateBytes int           `json:"state_bytes,omitempty"`
	Scale      float32       `json:"scale,omitempty"` // 0: of the head dim
	SoftCap    float32       `json:"soft_cap,omitempty"`
	Sinks      bool          `json:"sinks,omitempty"` // a logit for each head that has no value
	RoPE       *backend.RoPE `json:"rope,omitempty"`
}

// ofModel puts what a model's config.json or the header of its file says into cfg, and lists its layers. It returns the tokens that the model was made for.
func (s *cacheStatus) ofModel(given func(flag string) bool, model string, cfg *kvcache.Config) (context int, err error) {
	for _, flag := range [...]string{"layers", "q-heads", "kv-heads", "head-dim"} {
		if given(flag) {
			return 0, fmt.Errorf("--%s cannot be used with --model: the model sets it", flag)
		}
	}
	m, cannot, err := runner.LoadHeader(model)
	if err != nil {
		return 0, notDownloaded(model, fmt.Errorf("--model: %w", err))
	}
	s.weights, s.named = int64(m.Weights), true
	for _, c := range cannot {
		s.NotRun = append(s.NotRun, c.Error())
	}
	asked := cfg.Memory.Capacity
	// Its sink logits are weights, which are not read: only that there are some counts here.
	sinks := make([]float32, m.Heads)
	if *cfg, err = m.Complete(*cfg, func(int) []float32 { return sinks }); err != nil {
		return 0, asFlag(err)
	}
	cfg.Memory.Capacity = asked // doctor reports where it came from
	s.Model = fmt.Sprintf("%s of %s", count(m.Layers, "layer"), filepath.Base(model))
	if s.Context = m.Context; m.Context > 0 {
		s.Model += ", which was made for " + count(m.Context, "token")
	}
	s.Layers = layersOf(&cfg.Model)
	return m.Context, nil
}

// layersOf lists the layers of a model, those that are alike together.
func layersOf(m *kvcache.Model) (all []layersStatus) {
	var numbers [][]int
	for l := range m.Layers {
		mask := m.MaskOf(l)
		one := layersStatus{Sees: "everything", QHeads: m.QHeads, KVHeads: m.KVHeads, HeadDim: m.HeadDim, VHeadDim: m.VHeadDim, Latent: m.Latent, Scale: m.Scale, RoPE: m.RoPE}
		for i := range m.Groups {
			for _, of := range m.Groups[i].Layers {
				if of == l {
					one = layersIn(&m.Groups[i])
				}
			}
		}
		one.SoftCap, one.Sinks = mask.SoftCap, mask.SinkLogits != nil
		at := 0
		for at < len(all) && !reflect.DeepEqual(all[at], one) {
			at++
		}
		if at == len(all) {
			all, numbers = append(all, one), append(numbers, nil)
		}
		numbers[at] = append(numbers[at], l)
	}
	for i := range all {
		all[i].Layers = ranges(numbers[i])
	}
	return all
}

// onePlane reports whether no layer of a model has values beside its keys.
func onePlane(m *kvcache.Model) bool {
	if m.Groups == nil {
		return m.Latent
	}
	return !slices.ContainsFunc(m.Groups, func(g config.Group) bool { return g.Kind != group.State && g.Kind != group.None && !g.Latent })
}

// noKeys is of layers that keep nothing which grows with a text.
const noKeys = "no keys and values"

func layersIn(g *config.Group) layersStatus {
	if g.Kind == group.State {
		return layersStatus{Sees: "a state", StateBytes: g.StateBytes}
	}
	if g.Kind == group.None {
		return layersStatus{Sees: noKeys}
	}
	one := layersStatus{Sees: "everything", QHeads: g.QHeads, KVHeads: g.KVHeads, HeadDim: g.HeadDim, VHeadDim: g.VHeadDim, Latent: g.Latent, Scale: g.Scale, RoPE: g.RoPE}
	switch g.Kind {
	case group.Window:
		one.Sees = fmt.Sprintf("a window of %s", count(g.Window, "token"))
	case group.Chunked:
		one.Sees = fmt.Sprintf("chunks of %s", count(g.Chunk, "token"))
	}
	return one
}

// ranges writes rising numbers, those that follow each other as the first and the last of them.
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		part := fmt.Sprint(numbers[i])
		if j > i {
			part += fmt.Sprintf("-%d", numbers[j])
		}
		parts, i = append(parts, part), j+1
	}
	return strings.Join(parts, ",")
}

// line says for people what the layers are.
func (l layersStatus) line() string {
	if l.StateBytes > 0 {
		return l.Sees + " of " + byteSize(int64(l.StateBytes)) + " a sequence in each"
	}
	if l.Sees == noKeys {
		return l.Sees
	}
	parts := []string{l.Sees, fmt.Sprintf("%s on %s of %d", count(l.QHeads, "query head"), count(l.KVHeads, "KV head"), l.HeadDim)}
	switch {
	case l.Latent:
		parts[1] = fmt.Sprintf("%s on latents of %d and %d after them", count(l.QHeads, "query head"), l.VHeadDim, l.HeadDim-l.VHeadDim)
	case l.VHeadDim != l.HeadDim:
		parts[1] += fmt.Sprintf("+%d", l.VHeadDim)
	}
	if l.Scale != 0 {
		parts = append(parts, fmt.Sprintf("scale %.4g", l.Scale))
	}
	if l.SoftCap > 0 {
		parts = append(parts, fmt.Sprintf("soft cap %g", l.SoftCap))
	}
	if l.Sinks {
		parts = append(parts, "sink logits")
	}
	rope := "no rotary embedding"
	if r := l.RoPE; r != nil {
		rope = fmt.Sprintf("theta %g", r.Theta)
		if r.Dims > 0 && r.Dims < l.HeadDim {
			rope += fmt.Sprintf(" on %d dims", r.Dims)
		}
		if r.Scaling != backend.NoScaling {
			rope += fmt.Sprintf(", %v by %g", r.Scaling, r.Factor)
		}
	}
	return strings.Join(append(parts, rope), ", ")
}
