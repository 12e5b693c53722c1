package launch

import "github.com/ferrumkv/ferrumkv/backend"

// narrowBytes is what the kernels for narrow rows move at a time.
const narrowBytes = 4

// copyRegion is memory that goes along when blocks or slots move, and the bytes of it that
// belong to one block, or to one head of a slot. 0: none does.
type copyRegion struct {
	at    Place
	bytes int64
}

// kvPair is what one launch moves: of keys and of values, or the first only.
type kvPair [2]copyRegion

func (c *kvPair) empty() bool { return c[0].bytes == 0 }

// narrow reports whether kernels cannot move it 16 bytes at a time.
func (c *kvPair) narrow() bool {
	return (uint64(c[0].bytes|c[1].bytes)|c[0].at.At|c[1].at.At)%vectorBytes != 0
}

// scoresPair is the attention scores in what copyRegions returns.
const scoresPair = 2

// copyRegions is all that moves in a cache, which has heads and slots in what moves at once:
// the planes, their scales, and the attention scores.
func copyRegions[B Buffer](a *arguments, v *backend.CacheView[B], mass backend.Opt[B], heads, slots int) (all [3]kvPair) {
	rows := int64(heads) * int64(slots)
	all[0] = kvPair{{plane(a, "keys", v.K), rows * rowBytes(v.K)}}
	all[1] = kvPair{scalesOf(v.K, v.KVHeads, heads, slots)}
	if !v.Latent {
		all[0][1] = copyRegion{plane(a, "values", v.V), rows * rowBytes(v.V)}
		all[1][1] = scalesOf(v.V, v.KVHeads, heads, slots)
	}
	all[0].fill()
	all[1].fill()
	all[scoresPair] = massOf(mass, heads, slots)
	return all
}

// massOf is the attention scores that move, if there are any.
func massOf[B Buffer](mass backend.Opt[B], heads, slots int) (c kvPair) {
	if mass.Set {
		c[0] = copyRegion{mass.Buf.Place(), int64(heads) * int64(slots) * elementSize(backend.F32)}
	}
	c.fill()
	return c
}

// fill puts what there is first, and memory behind every argument, as Metal wants it.
func (c *kvPair) fill() {
	if c[0].bytes == 0 {
		c[0], c[1] = c[1], copyRegion{}
	}
	if c[1].bytes == 0 {
		c[1].at = c[0].at
	}
}

// scalesOf is the scales of a plane of kvHeads that move with its data: those after what heads have.
func scalesOf[B Buffer](p backend.Plane[B], kvHeads, heads, slots int) copyRegion {
	dt := p.Data.DType()
	if scope := dt.Coding().Scope; scope == backend.Unscaled || scope == backend.ByHead { // whose blocks share them
		return copyRegion{}
	}
	words, n, _ := dt.Scales(1, heads, slots, p.Dim)
	at := p.Scales.Buf.Place().Plus(int64(dt.HeadWords(kvHeads)) * elementSize(words))
	return copyRegion{at, int64(n-dt.HeadWords(heads)) * elementSize(words)}
}

// rowBytes is the bytes of one head of a slot.
func rowBytes[B Buffer](p backend.Plane[B]) int64 {
	bytes, _ := p.Data.DType().Size(p.Dim)
	return bytes
}
