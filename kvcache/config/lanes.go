package config

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

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
		if !k.attends() {
			state = max(state, k.state)
			continue
		}
		attends = true
		m.keys = m.keys / gcd(m.keys, k.keys) * k.keys
		if !latent {
			m.vals = m.vals / gcd(m.vals, k.vals) * k.vals
		}
		if m.keys/k.keys > mostEach || !latent && m.vals/k.vals > mostEach {
			return k.unequal("blocks of all groups take the same memory, and those of this one have no small multiple in common with " +
				"the others'; choose other formats")
		}
	}
	if latent {
		m.vals = 0
	}
	for i := range classes {
		if k := &classes[i]; k.attends() && !latent && m.keys/k.keys != m.vals/k.vals {
			return k.unequal("keys and values of a block must be in the same proportion in all groups, for blocks of all groups take " +
				"the same memory; choose other formats or value dims")
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
		return backend.ErrConfig{Name: "Storage.V", Value: c.Storage.V.String(), Why: "keys and values must take the " +
			"same memory in a pool with states, which lie where blocks of both do"}
	}
	n := (int64(state) + 2*m.keys - 1) / (2 * m.keys)
	m.keys, m.vals = n*m.keys, n*m.vals
	return nil
}

// mostKernelTokens is the tokens of the largest block that a part makes its kernels take.
const mostKernelTokens = 256

// part is the configuration of some layers of a class.
func (m *memory) part(c *Config, k class, layers []int) Part {
	g := &c.Model.Groups[k.of]
	p := Part{Of: k.of, Layers: layers, State: k.state}
	if !k.attends() {
		p.Config = *c
		p.Rule = g.rule(c.Memory.BlockSize, c.Memory.rollback(), 0)
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
	p.Rule = g.rule(p.BlockTokens(), c.Memory.rollback(), p.Storage.Residual)
	return p
}

// unequal is that the blocks of a class do not go with those of others.
func (k *class) unequal(why string) error {
	return backend.ErrConfig{
		Name: fmt.Sprintf("Model.Groups[%d]", k.of), Value: fmt.Sprint(k.keys, "+", k.vals, " bytes"), Why: why}
}

// allLatent reports whether the layers that attend have all their values in their keys. Blocks of all parts take the same
// memory, that of keys and values in two places: layers of either kind do not go together.
func allLatent(classes []class) (bool, error) {
	latent, first := false, true
	for i := range classes {
		k := &classes[i]
		if !k.attends() {
			continue
		}
		if of := k.sub.Model.Latent; first {
			latent, first = of, false
		} else if of != latent {
			return false, backend.ErrConfig{
				Name: fmt.Sprintf("Model.Groups[%d].Latent", k.of), Value: fmt.Sprint(of),
				Why: "blocks of all groups take the same memory, and latent ones have one plane: in the paged layout all groups that " +
					"attend are latent, or none"}
		}
	}
	return latent, nil
}

// stateAlign is what the bytes of a state are rounded up to where nothing else decides.
const stateAlign = 256

func gcd[T int | int64](a, b T) T {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
