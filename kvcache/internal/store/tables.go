package store

import (
	"github.com/ferrumkv/ferrumkv/backend"
)

// Tables are a sequence's block tables and length on the device, made when asked for, and what its scores
// are gathered into.
type Tables[B backend.Buffer] struct {
	Blocks [MostStores]Vector[B, uint32] // [blocks] of each store
	Length Vector[B, uint32]             // [1]
	Scores Vector[B, float32]            // of layers, on their way to the host
	Slots  Vector[B, int64]              // whose scores are cleared
}

func (s *Run[B]) uploadTables(stream backend.Stream) error {
	t, be := &s.Tables, s.Part.BE
	t.Length.Host = append(t.Length.Host[:0], uint32(s.Len))
	for i := range s.Segments {
		v := &t.Blocks[i]
		v.Host = s.Part.Stores[i].Places(v.Host[:0], &s.Segments[i])
		if err := v.Upload(be, stream); err != nil {
			return err
		}
	}
	return t.Length.Upload(be, stream)
}

// made reports whether any of them was; the first alone, where there was no memory for the next.
func (t *Tables[B]) made() bool {
	for i := range t.Blocks {
		if t.Blocks[i].Buf.Set {
			return true
		}
	}
	return t.Length.Buf.Set || t.Scores.Buf.Set || t.Slots.Buf.Set
}

// Free ends the vectors' lives.
func (t *Tables[B]) Free(be backend.Backend[B]) {
	for i := range t.Blocks {
		t.Blocks[i].Free(be)
	}
	t.Length.Free(be)
	t.Scores.Free(be)
	t.Slots.Free(be)
}
