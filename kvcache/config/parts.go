package config

import (
	"fmt"
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// Part is layers of one group that have their blocks in common: layer i of the part lies in lane i of the pool's memory,
// where the blocks of all parts take as many bytes.
type Part struct {
	Config     // of these layers alone; of a state part only Memory counts
	Of     int // Model.Groups
	Rule   group.Rule
	Layers []int // of the model
	State  int   // bytes of a state in a layer; 0: keys and values
}

// memory is how the blocks of a pool with groups are laid out.
type memory struct {
	lanes       int   // 0: every part has memory of its own, as in the contiguous layout
	keys, vals  int64 // bytes of a block in a lane
	interleaved bool  // keys and values lie behind each other, so that a state is in one piece
	entry       int   // tokens of an entry of the prefix tree
	parts       []Part
}

// Parts are the layers of the configuration that have their blocks in common: all of them, where there are no groups.
// c is filled in.
func (c *Config) Parts() []Part {
	if c.memory == nil {
		all := make([]int, c.Model.Layers)
		for l := range all {
			all[l] = l
		}
		return []Part{{Config: *c, Layers: all, Rule: group.Rule{Block: c.BlockTokens()}}}
	}
	return c.memory.parts
}

// Grouped reports whether layers do not all keep the same. c is filled in.
func (c *Config) Grouped() bool { return c.memory != nil }

// Lanes is how many layers of a part lie beside each other; keys and values are the bytes of a block in each of them,
// which of a part with a state follow each other.
func (c *Config) Lanes() (n int, keys, values int64, interleaved bool) {
	if c.memory == nil {
		return 0, 0, 0, false
	}
	return c.memory.lanes, c.memory.keys, c.memory.vals, c.memory.interleaved
}

// EntryTokens is the tokens of an entry of the prefix tree.
func (c *Config) EntryTokens() int {
	if c.memory == nil {
		return c.BlockTokens()
	}
	return c.memory.entry
}

// class is layers of a group that are stored alike.
type class struct {
	of         int
	layers     []int
	sub        Config
	keys, vals int64 // bytes of a kernel's block in a layer
	state      int
}

// divide lays out the memory of a configuration with groups.
func (c *Config) divide() error {
	classes, err := c.classes()
	if err != nil {
		return err
	}
	if len(classes) == 0 {
		return badConfig("Model.Groups", len(c.Model.Groups), "no group keeps anything: a pool needs one that does")
	}
	if c.Memory.Layout == Contiguous {
		return c.apart(classes)
	}
	m := &memory{lanes: lanes(classes), keys: 1, vals: 1, entry: c.Memory.BlockSize}
	if err := m.size(c, classes); err != nil {
		return err
	}
	for _, k := range classes {
		for at := 0; at < len(k.layers); at += m.lanes {
			m.parts = append(m.parts, m.part(c, k, k.layers[at:min(at+m.lanes, len(k.layers))]))
		}
	}
	for i := range m.parts {
		if p := &m.parts[i]; p.State == 0 {
			m.entry = m.entry / gcd(m.entry, p.BlockTokens()) * p.BlockTokens()
		}
	}
	for i := range m.parts {
		p := &m.parts[i]
		if p.State == 0 && p.Storage.Residual > 0 && p.Stride() > 1 {
			return badConfig("Storage.Residual", p.Storage.Residual, fmt.Sprintf("does not go with blocks of several blocks of a kernel, as those of Model.Groups[%d] have to be here for blocks of all groups to take the same memory", p.Of))
		}
		if p.State > 0 {
			p.Rule.Block = m.entry
		} else if p.Rule.Kind == group.Chunked && p.Rule.Chunk%p.BlockTokens() != 0 {
			return badConfig(fmt.Sprintf("Model.Groups[%d].Chunk", p.Of), p.Rule.Chunk, fmt.Sprintf("must be a multiple of the tokens of a block, %d", p.BlockTokens()))
		}
	}
	c.memory = m
	return nil
}

// apart is divide in the contiguous layout: a window or a chunk is a mask there, and each part has its own blocks.
func (c *Config) apart(classes []class) error {
	m := &memory{entry: c.Memory.Capacity}
	for _, k := range classes {
		if kind := c.Model.Groups[k.of].Kind; kind > group.Chunked {
			return backend.ErrConfig{Name: fmt.Sprintf("Model.Groups[%d].Kind", k.of), Value: kind.String(), Why: "needs the paged layout"}
		}
		m.parts = append(m.parts, Part{Config: k.sub, Of: k.of, Layers: k.layers, Rule: group.Rule{Block: c.Memory.Capacity}})
	}
	c.memory = m
	return nil
}

// settleParts gives the parts what was decided after they were.
func (c *Config) settleParts() {
	for i := range c.memory.parts {
		c.memory.parts[i].Memory.Blocks, c.memory.parts[i].resolved = c.Memory.Blocks, true
	}
}

// blocksWanted is the blocks of MaxSeqs sequences of full capacity, and of one long step.
func (c *Config) blocksWanted() int {
	n := 0
	for i := range c.memory.parts {
		r := &c.memory.parts[i].Rule
		all, each := ceilDiv(c.Memory.Capacity, r.Block), r.Need(c.Memory.Capacity)
		if r.Kind == group.State {
			all, each = 1, 2
		}
		more, ok := backend.Mul(c.Memory.MaxSeqs, each)
		if n += more + all - r.Need(c.Memory.Capacity); !ok || n > maxSetting {
			return math.MaxInt
		}
	}
	return n
}

// classes divides each group into layers that are stored alike.
func (c *Config) classes() (all []class, err error) {
	for i := range c.Model.Groups {
		g := &c.Model.Groups[i]
		if g.Kind == group.None {
			continue
		}
		var plain, skipped []int
		for _, l := range g.Layers {
			if g.attends() && slices.Contains(c.Storage.SkipLayers, l) {
				skipped = append(skipped, l)
			} else {
				plain = append(plain, l)
			}
		}
		for _, layers := range [...][]int{plain, skipped} {
			if len(layers) == 0 {
				continue
			}
			k := class{of: i, layers: layers, state: g.StateBytes}
			if g.attends() {
				k.sub = c.of(g, layers)
				if err := k.sub.checkFilled(); err != nil {
					return nil, fmt.Errorf("Model.Groups[%d]: %w", i, err)
				}
				bytes := [...]*int64{&k.keys, &k.vals}
				for j, p := range k.sub.planes(k.sub.FormatOf(0)) {
					n, ok := k.sub.kernelBytes(p)
					if !ok {
						return nil, c.tooLarge()
					}
					*bytes[j] = n
				}
			}
			all = append(all, k)
		}
	}
	return all, nil
}

// kernelBytes is the bytes of a plane's block, without scales.
func (c *Config) kernelBytes(p plane) (int64, bool) {
	n, ok := backend.Mul(c.Model.KVHeads, c.Memory.BlockSize, p.dim)
	bytes, sized := p.dt.Size(n)
	return bytes, ok && sized && bytes < math.MaxInt32
}

// lanes is how many layers lie beside each other: as many as the smallest class has, unless that leaves more than an
// eighth of another's places empty.
func lanes(classes []class) int {
	n := math.MaxInt
	for _, k := range classes {
		n = min(n, len(k.layers))
	}
	for ; n > 1; n-- {
		ok := true
		for _, k := range classes {
			places := ceilDiv(len(k.layers), n) * n
			ok = ok && (places-len(k.layers))*8 <= places
		}
		if ok {
			return n
		}
	}
	return n
}

// mostKernelTokens is the tokens of the largest block that a part makes its kernels take.
const mostKernelTokens = 256

// mostEach is the most blocks of a kernel that make one block.
const mostEach = 1 << 12

// size finds the bytes of a block in a lane: the fewest of which every class can make whole blocks of a kernel, and that a
// state has room in.
func (m *memory) size(c *Config, classes []class) error {
	state, attends := 0, false
	latent, err := allLatent(classes)
	if err != nil {
		return err
	}
	for i := range classes {
		k := &classes[i]
		if k.state > 0 {
			state = max(state, k.state)
			continue
		}
		attends = true
		m.keys = m.keys / gcd(m.keys, k.keys) * k.keys
		if !latent {
			m.vals = m.vals / gcd(m.vals, k.vals) * k.vals
		}
		if m.keys/k.keys > mostEach || !latent && m.vals/k.vals > mostEach {
			return backend.ErrConfig{Name: fmt.Sprintf("Model.Groups[%d]", k.of), Value: fmt.Sprint(k.keys, "+", k.vals, " bytes"), Why: "blocks of all groups take the same memory, and those of this one have no small multiple in common with the others'; choose other formats"}
		}
	}
	if latent {
		m.vals = 0
	}
	for i := range classes {
		if k := &classes[i]; k.state == 0 && !latent && m.keys/k.keys != m.vals/k.vals {
			return backend.ErrConfig{Name: fmt.Sprintf("Model.Groups[%d]", k.of), Value: fmt.Sprint(k.keys, "+", k.vals, " bytes"), Why: "keys and values of a block must be in the same proportion in all groups, for blocks of all groups take the same memory; choose other formats or value dims"}
		}
	}
	if state == 0 {
		return nil
	}
	m.interleaved = true
	if !attends {
		m.keys, m.vals = int64(state+stateAlign-1)/stateAlign*stateAlign, 0
		return nil
	}
	if latent { // which a state lies in as it is
		m.keys = (int64(state) + m.keys - 1) / m.keys * m.keys
		return nil
	}
	if m.keys != m.vals {
		return backend.ErrConfig{Name: "Storage.V", Value: c.Storage.V.String(), Why: "keys and values must take the same memory in a pool with states, which lie where blocks of both do"}
	}
	n := (int64(state) + 2*m.keys - 1) / (2 * m.keys)
	m.keys, m.vals = n*m.keys, n*m.vals
	return nil
}

// allLatent reports whether the layers that attend have all their values in their keys. Blocks of all parts take the same
// memory, that of keys and values in two places: layers of either kind do not go together.
func allLatent(classes []class) (bool, error) {
	latent, first := false, true
	for i := range classes {
		k := &classes[i]
		if k.state > 0 {
			continue
		}
		if of := k.sub.Model.Latent; first {
			latent, first = of, false
		} else if of != latent {
			return false, backend.ErrConfig{Name: fmt.Sprintf("Model.Groups[%d].Latent", k.of), Value: fmt.Sprint(of), Why: "blocks of all groups take the same memory, and latent ones have one plane: in the paged layout all groups that attend are latent, or none"}
		}
	}
	return latent, nil
}

// stateAlign is what the bytes of a state are rounded up to where nothing else decides.
const stateAlign = 256

// part is the configuration of some layers of a class.
func (m *memory) part(c *Config, k class, layers []int) Part {
	g := &c.Model.Groups[k.of]
	p := Part{Of: k.of, Layers: layers, State: k.state}
	if k.state > 0 {
		p.Config = *c
		p.Config.memory = nil
		p.Rule = g.rule(c.Memory.BlockSize, c.Memory.rollback())
		return p
	}
	p.Config = c.of(g, layers)
	p.Config.each = int(m.keys / k.keys)
	for p.Config.each%2 == 0 && p.Memory.BlockSize < mostKernelTokens { // one larger block of a kernel will do
		p.Config.each, p.Memory.BlockSize = p.Config.each/2, p.Memory.BlockSize*2
	}
	p.Config.stride = p.Config.each
	if m.interleaved && m.vals > 0 {
		p.Config.stride *= 2
	}
	p.Rule = g.rule(p.BlockTokens(), c.Memory.rollback())
	return p
}

// of is the configuration of some layers of a group alone.
func (c *Config) of(g *Group, layers []int) Config {
	sub, m := *c, &c.Model
	sub.memory = nil
	s := &sub.Model
	s.Groups, s.Layers, s.Masks = nil, len(layers), nil
	s.KVHeads, s.HeadDim = orElse(g.KVHeads, m.KVHeads), orElse(g.HeadDim, m.HeadDim)
	s.QHeads, s.VHeadDim = orElse(g.QHeads, m.QHeads), orElse(g.VHeadDim, m.VHeadDim)
	if g.QHeads == 0 && c.sources[setQHeads] == FromDefault {
		s.QHeads = s.KVHeads
	}
	if g.VHeadDim == 0 && c.sources[setVHeadDim] == FromDefault {
		s.VHeadDim = s.HeadDim
	}
	s.Latent = m.Latent || g.Latent
	switch {
	case g.Scale > 0:
		s.Scale = g.Scale
	case c.sources[setScale] == FromDefault:
		s.Scale = float32(1 / math.Sqrt(float64(s.HeadDim)))
	}
	if g.RoPE != nil {
		s.RoPE = g.RoPE
	}
	if g.NoRoPE {
		s.RoPE = nil
	}
	for _, l := range layers {
		mask := m.MaskOf(l)
		if g.Kind == group.Window {
			mask.Window, mask.SinkTokens = g.Window, g.Sinks
		}
		if g.Kind == group.Chunked && c.Memory.Layout == Contiguous {
			mask.Chunk = g.Chunk
		}
		s.Masks = append(s.Masks, mask)
	}
	t := &sub.Storage
	if g.K != backend.Invalid {
		t.K, t.V = g.K, g.K.Coding().Values
	}
	if s.Latent {
		t.V = t.K
	}
	if g.V != backend.Invalid {
		t.V = g.V
	}
	t.SkipLayers, t.KScales, t.VScales = nil, nil, nil
	if slices.Contains(c.Storage.SkipLayers, layers[0]) || g.Kind == group.Window && g.Sinks == 0 && g.Window <= t.Residual {
		t.K, t.V = m.Act, m.Act // or never read in fewer bits
	}
	if !t.K.Quantized() {
		t.Hadamard, t.Residual, sub.Memory.StepTokens = false, 0, 0
	}
	if t.K.HeadFactors() && len(c.Storage.KScales) > 0 {
		t.KScales = c.scalesOf(c.Storage.KScales, layers, s.KVHeads)
	}
	if t.V.HeadFactors() && len(c.Storage.VScales) > 0 && !s.Latent {
		t.VScales = c.scalesOf(c.Storage.VScales, layers, s.KVHeads)
	}
	return sub
}

// scalesOf is the scales of the heads of some layers that have so many each.
func (c *Config) scalesOf(list []float32, layers []int, heads int) (out []float32) {
	for _, l := range layers {
		of := c.headScales(list, l)
		for h := range heads {
			out = append(out, of[min(h, len(of)-1)])
		}
	}
	return out
}

func orElse(n, other int) int {
	if n > 0 {
		return n
	}
	return other
}

func gcd[T int | int64](a, b T) T {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
