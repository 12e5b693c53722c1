package config

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// Part is layers of one group that have their blocks in common: layer i of the part lies in lane i of the pool's memory,
// where the blocks of all parts take as many bytes.
type Part struct {
	Config     // of these layers alone; of a state part only Memory counts
	Of     int // Model.Groups; −1: there are none
	Rule   group.Rule
	Layers []int // of the model
	State  int   // bytes of a state in a layer; 0: keys and values
}

func (p *Part) attends() bool { return p.State == 0 }

// Alike names what the caches of layers must have in common to lie in the same place of a lane, one layer's blocks
// beside another's, with the same scales of heads.
func (p *Part) Alike(layer int) string {
	f := p.FormatOf(layer)
	of := fmt.Sprint(p.Model.KVHeads, " ", p.Model.HeadDim, " ", p.Model.VHeadDim, " ", f.K, " ", f.V, " ", p.each, " ", p.Model.Act, " ", p.Model.Latent)
	for _, s := range [...]struct {
		dt   backend.DType
		list []float32
	}{{f.K, p.KeyScales(layer)}, {f.V, p.ValueScales(layer)}} {
		if s.dt.HeadFactors() {
			of += fmt.Sprint(" ", s.list)
		}
	}
	return of
}

// recent is the part's cache of the last, unquantized tokens, with Storage.Residual.
func (p *Part) recent() Part {
	return Part{Config: p.Recent(), Of: p.Of, Rule: p.Rule, Layers: p.Layers}
}

// costs are those of the part's layers alone, in memory of their own.
func (p *Part) costs() (fixed, perBlock int64, err error) {
	formats, layers := p.countFormats()
	for i, f := range formats {
		for _, plane := range p.planes(f) {
			block, once, ok := p.blockBytes(plane)
			if !ok || block > math.MaxInt64/8/int64(p.Model.Layers) {
				return 0, 0, p.tooLarge()
			}
			perBlock, fixed = perBlock+int64(layers[i])*block, fixed+int64(layers[i])*once
		}
	}
	if p.Attention.Scores {
		n, ok := backend.Mul(p.Model.Layers, p.Model.KVHeads, p.BlockTokens())
		if !ok || int64(n) > math.MaxInt64/32 {
			return 0, 0, p.tooLarge()
		}
		perBlock += 4 * int64(n)
	}
	if p.Storage.Residual > 0 {
		r := p.recent()
		_, block, err := r.costs()
		if err != nil || int64(r.Memory.Blocks) > math.MaxInt64/8/block {
			return 0, 0, p.tooLarge()
		}
		fixed += int64(r.Memory.Blocks) * block
	}
	floats := 0
	if p.Model.RoPE != nil {
		r, err := p.Model.RoPE.Resolve(p.Model.RotatedDims())
		if err != nil {
			return 0, 0, err
		}
		n, ok := backend.Mul(p.Memory.Capacity, r.Dims)
		if !ok || n > math.MaxInt32 {
			return 0, 0, p.tooLarge()
		}
		floats = n
	}
	for _, m := range p.Model.Masks {
		floats += len(m.ALiBi) + len(m.SinkLogits)
	}
	return fixed + 4*int64(floats), perBlock, nil
}

// largest are the planes of all formats.
func (p *Part) largest() (all []plane) {
	formats := p.Formats()
	for _, f := range formats {
		all = append(all, p.planes(f)...)
	}
	return all
}

// mostBuffers is MostBuffers of the part.
func (p *Part) mostBuffers() int {
	n := 2*p.Model.Layers + 1 + 2*len(p.Model.Masks)
	if p.Storage.K.Quantized() || p.Storage.V.Quantized() {
		n += 2 * p.Model.Layers
	}
	if p.Storage.Residual > 0 {
		n += 2 * p.Model.Layers
	}
	if p.Attention.Scores {
		n += p.Model.Layers
		if p.Storage.Residual > 0 {
			n += p.Model.Layers
		}
	}
	return n
}

// besides is the bytes that a block of a layer takes besides keys and values: scales and scores.
func (p *Part) besides(layer int) (n int64) {
	f := p.FormatOf(layer)
	for _, plane := range p.planes(f) {
		_, words, _ := plane.dt.Scales(1, p.Model.KVHeads, p.KernelTokens(), plane.dim)
		n += 4 * int64(words-plane.dt.HeadWords(p.Model.KVHeads)) * int64(p.Stride())
	}
	if p.Attention.Scores {
		n += 4 * int64(p.Model.KVHeads) * int64(p.KernelTokens()) * int64(p.Stride())
	}
	return n
}
