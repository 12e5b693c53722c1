package bench

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// source gives the calls of an operation the memory that they go through. What it returns is
// asked for the memory of each turn.
type source[B backend.Buffer] interface {
	layer(l layer, u use) func(turn int) backend.CacheView[B]
	rows(dt backend.DType, n int, u use) func(turn int) B
}

// use is what becomes of memory.
type use int

const (
	toRead   use = iota
	toWrite      // nothing is known of what it holds
	toRotate     // keys of f16 are rotated in place, and stay as large as they were
)

// ring is a source of memory that belongs to one trial: as many pieces as exceed what a device
// caches, which calls take in turn.
type ring[B backend.Buffer] struct {
	m *memory[B]
	// count is how many pieces of so many bytes each it takes, at least 1.
	count func(bytes int) int
}

func (s ring[B]) layer(l layer, u use) func(turn int) backend.CacheView[B] {
	bytes := l.bytes()
	if u == toRotate {
		bytes = l.plane(l.keys)
	}
	layers := make([]backend.CacheView[B], s.count(bytes))
	for i := range layers {
		v := view[B](l)
		for j, dt := range l.planes() {
			p := [...]*backend.Plane[B]{&v.K, &v.V}[j]
			*p = backend.Plane[B]{Data: s.m.filled(dt, l.slots*l.width()), Dim: l.dim}
			if words, n, _ := dt.Scales(l.blocks(), l.kv, l.block, l.dim); n > 0 {
				p.Scales = backend.Some(s.m.constant(words, n, smallScale(dt)))
			}
		}
		layers[i] = v
	}
	return func(turn int) backend.CacheView[B] { return layers[turn%len(layers)] }
}

// smallScale is a scale of 0.01 as a word, without a zero point where there could be one, or a word that
// is 0.00004 as a factor and four times 1 as those of groups.
func smallScale(dt backend.DType) float64 {
	switch dt.Coding().Scale {
	case backend.Factor:
		return 0.01
	case backend.Minifactors:
		return 0x38383838
	}
	return float64(quant.BF16(0.01))
}

func (s ring[B]) rows(dt backend.DType, n int, _ use) func(turn int) B {
	bytes, _ := dt.Size(n)
	rows := make([]B, s.count(int(bytes)))
	for i := range rows {
		rows[i] = s.m.filled(dt, n)
	}
	return func(turn int) B { return rows[turn%len(rows)] }
}
