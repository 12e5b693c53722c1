package states

import (
	"io"
	"time"
)

// Source is a part of a state on its way into the store.
type Source struct {
	Name    string    // such as "target", "draft", "checkpoint"; each name once
	Content io.Reader // read to its end by Put
}

// Part is a part of a state that was read and verified.
type Part struct {
	Name  string
	Bytes []byte
}

// PartInfo says what a state has under a name.
type PartInfo struct {
	Name  string
	Bytes int64
}

// Info describes a state. What its fields refer to must not be changed.
type Info struct {
	ID      ID
	Key     Key
	Parts   []PartInfo
	Bytes   int64 // of all parts
	Stored  time.Time
	Used    time.Time // by Get, or stored
	Expires time.Time // zero: it does not
	Pinned  bool
}

// PutOptions is how long a state is kept. The zero value is until others need its room.
type PutOptions struct {
	TTL time.Duration // after it was stored; 0: without end
	Pin bool          // it is not evicted; see Store.Pin

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
