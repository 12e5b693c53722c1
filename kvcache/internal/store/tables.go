package store

import (
	"github.com/ferrumkv/ferrumkv/backend"
)

// Tables are a sequence's block tables and length on the device, made when asked for, and what its scores
// are gathered into.
type Tables[B backend.Buffer] struct {
	Blocks Vector[B, uint32]  // [blocks]
	Recent Vector[B, uint32]  // [blocks] of the fresh store, where there are two
	Length Vector[B, uint32]  // [1]
	Scores Vector[B, float32] // of layers, on their way to the host
	Slots  Vector[B, int64]   // whose scores are cleared
}

func (s *Body[B]) uploadTables(stream backend.Stream) error {
	t, be := &s.Tables, s.Stores.BE
	t.Blocks.Host = s.Stores.Kept.Numbers(t.Blocks.Host[:0], s.Kept.Blocks)
	t.Length.Host = append(t.Length.Host[:0], uint32(s.Len))
	if s.Stores.Windowed() {
		t.Recent.Host = s.Recent.Places(t.Recent.Host[:0])
		if err := t.Recent.Upload(be, stream); err != nil {
			return err
		}
	}
	if err := t.Blocks.Upload(be, stream); err != nil {
		return err
	}
	return t.Length.Upload(be, stream)
}

// made reports whether any of them was; the first alone, where there was no memory for the next.
func (t *Tables[B]) made() bool {
	return t.Blocks.Buf.Set || t.Recent.Buf.Set || t.Length.Buf.Set || t.Scores.Buf.Set || t.Slots.Buf.Set
}

// Free ends the vectors' lives.
func (t *Tables[B]) Free(be backend.Backend[B]) {
	for _, v := range [...]*Vector[B, uint32]{&t.Blocks, &t.Recent, &t.Length} {
		v.Free(be)
	}
	t.Scores.Free(be)
	t.Slots.Free(be)
}
