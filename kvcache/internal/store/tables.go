package store

import (
	"github.com/ferrumkv/ferrumkv/backend"
)

// tables are a sequence's block tables and length on the device, made when asked for, and what its scores
// are gathered into.
type tables[B backend.Buffer] struct {
	blocks [MostStores]Vector[B, uint32] // [blocks] of each store
	length Vector[B, uint32]             // [1]
	scores Vector[B, float32]            // of layers, on their way to the host
	slots  Vector[B, int64]              // whose scores are cleared
}

func (s *Run[B]) uploadTables(stream backend.Stream) error {
	t, be := &s.tables, s.Part.BE
	t.length.Host = append(t.length.Host[:0], uint32(s.Len))
	for i := range s.Segments {
		v := &t.blocks[i]
		v.Host = s.Part.Stores[i].Places(v.Host[:0], &s.Segments[i])
		if err := v.Upload(be, stream); err != nil {
			return err
		}
	}
	return t.length.Upload(be, stream)
}

// Device is the block tables of the kept store and of the one after it, if there is one, and the length, as they were last uploaded.
func (s *Run[B]) Device() (kept, recent, length backend.Opt[B]) {
	t := &s.tables
	return t.blocks[0].Buf, t.blocks[1].Buf, t.length.Buf
}

// made reports whether any of them was; the first alone, where there was no memory for the next.
func (t *tables[B]) made() bool {
	for i := range t.blocks {
		if t.blocks[i].Buf.Set {
			return true
		}
	}
	return t.length.Buf.Set || t.scores.Buf.Set || t.slots.Buf.Set
}

// free ends the vectors' lives.
func (t *tables[B]) free(be backend.Backend[B]) {
	for i := range t.blocks {
		t.blocks[i].Free(be)
	}
	t.length.Free(be)
	t.scores.Free(be)
	t.slots.Free(be)
}
