package snapshot

import (
	"fmt"
	"strconv"
)

// ErrCorrupt is a stream that is not a snapshot, or not the one that was written: it is cut off, or bytes of it changed.
type ErrCorrupt struct {
	Offset  int64  // of the section, or of what is wrong in the header
	Section string // its type; empty: the header, or none could be read
	Why     string
	Err     error // io.ErrUnexpectedEOF where the stream ends early
}

func (e ErrCorrupt) Error() string {
	at := "byte " + strconv.FormatInt(e.Offset, 10)
	if e.Section != "" {
		at = fmt.Sprintf("section %q at %s", e.Section, at)
	}
	return "snapshot: corrupt: " + at + ": " + e.Why
}

// Is matches the same error and the zero value.
func (e ErrCorrupt) Is(target error) bool {
	t, ok := target.(ErrCorrupt)
	return ok && (t == ErrCorrupt{} || t.Offset == e.Offset && t.Section == e.Section && t.Why == e.Why)
}

func (e ErrCorrupt) Unwrap() error { return e.Err }

// ErrMismatch is a snapshot that is whole and that the reader cannot use: it is of another model, stored in other formats, or needs what
// the reader's pool does not have.
type ErrMismatch struct {
	Field string // of the content (docs/keys.md), or of the configuration as Memory.BlockSize; version, section, coding, flags, secret or compression
	Layer int    // of the model; −1: all of it
	Have  string // what the snapshot has
	Want  string // what the reader has
	Why   string // where Have and Want alone do not say it
}

func (e ErrMismatch) Error() string {
	of := e.Field
	if e.Layer >= 0 {
		of += " of layer " + strconv.Itoa(e.Layer)
	}
	s := fmt.Sprintf("snapshot: mismatch: %s is %s in the snapshot, and here %s", of, e.Have, e.Want)
	if e.Why != "" {
		s += ": " + e.Why
	}
	return s
}

// Is matches the same error and the zero value.
func (e ErrMismatch) Is(target error) bool {
	t, ok := target.(ErrMismatch)
	return ok && (t == e || t == ErrMismatch{})
}
