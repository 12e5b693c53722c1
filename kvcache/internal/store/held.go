package store

import "github.com/ferrumkv/ferrumkv/kvcache/block"

// Held is where a sequence has its tokens of a store, on the device or in host memory.
type Held struct {
	Len, Gone int           // of the body
	First     int           // leading blocks of the body that are not in the store any more
	Blocks    []block.Block // those from First on; of a suspended sequence with the numbers 0, 1, 2 …
	Pieces    *Pieces       // how these lie in Host; nil: they are on the device
	Host      []byte
}

// Held is that of a store of a part.
func (s *Bodies[B]) Held(part, store int) Held {
	if s.Away == nil {
		b := &s.Parts[part]
		g := &b.Segments[store]
		return Held{Len: b.Len, Gone: b.Gone, First: g.Gone, Blocks: g.Blocks}
	}
	a := &s.Away.parts[part]
	p := &a.segments[store]
	h := Held{Len: a.len, Gone: a.gone, First: p.gone, Pieces: p.Pieces, Host: s.Away.memory.Bytes()[p.at:]}
	for i := range p.blocks() {
		h.Blocks = append(h.Blocks, block.Block{ID: uint32(i)})
	}
	return h
}
