package states

import (
	"io"
	"time"
)

// Source is a part of a state for Put to store.
type Source struct {
	Name    string    // such as "target", "draft" or "checkpoint"; unique among the parts of a state
	Content io.Reader // Put reads it to its end
}

// Part is a part of a state that Get has read and verified.
type Part struct {
	Name  string
	Bytes []byte
}

// PartInfo describes a part of a state.
type PartInfo struct {
	Name  string
	Bytes int64 // size of the part
}

// Info describes a state. The slices in it, Key.Tokens and Parts, are shared with the store and must not be modified.
type Info struct {
	ID      ID
	Key     Key
	Parts   []PartInfo // in the order in which they were put
	Bytes   int64      // size of all parts
	Stored  time.Time
	Used    time.Time // time of the last Get, or Stored if there was none
	Expires time.Time // zero if the state does not expire
	Pinned  bool
}

// PutOptions says how long a state is kept. With the zero value it is kept until its room is needed for other states.
type PutOptions struct {
	TTL time.Duration // lifetime from the time of the Put on; 0 means no limit
	Pin bool          // exempt the state from eviction; see Store.Pin

	fetched *state // it is this copy
}

// state is one that is stored.
type state struct {
	Info
	chunks  [][]chunk // of each part
	size    int64     // of the manifest's file
	readers int       // calls of Get that read it, for which its chunks stay
	gone    bool      // deleted, replaced or evicted
}

// each calls a function for all chunks, in order.
func (s *state) each(do func(chunk)) {
	for _, part := range s.chunks {
		for _, c := range part {
			do(c)
		}
	}
}
