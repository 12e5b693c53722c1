package store

import "github.com/ferrumkv/ferrumkv/kvcache/block"

// Held is where a sequence has its tokens of a store, on the device or in host memory.
type Held struct {
	Len, Gone int           // of the run
	First     int           // leading blocks of the run that are not in the store any more
	Blocks    []block.Block // those from First on; of a suspended sequence with the numbers 0, 1, 2 …
	Pieces    *Pieces       // how these lie in Host; nil: they are on the device
	Host      []byte
}

// Held is that of a store of a part.
func (s *Runs[B]) Held(part, store int) Held {
	if s.Suspended == nil {
		b := &s.In[part]
		g := &b.Segments[store]
		return Held{Len: b.Len, Gone: b.Gone, First: g.From, Blocks: g.Blocks}
	}
	a := &s.Suspended.runs[part]
	p := &a.segments[store]
	h := Held{Len: a.len, Gone: a.gone, First: p.from, Pieces: p.Pieces, Host: s.Suspended.memory.Bytes()[p.at:]}
	for i := range p.blocks() {
		h.Blocks = append(h.Blocks, block.Block{ID: uint32(i)})
	}
	return h
}
