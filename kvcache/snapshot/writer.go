package snapshot

import (
	"bufio"
	"fmt"
	"io"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/crc32c"
)

// Writer writes a stream: first Head, then chunks, then Close. After an error all that follows is that error.
type Writer struct {
	out      *bufio.Writer
	bytes    int64
	sections int
	all      uint32 // sum of the header and of the sections' heads without their own sums
	payload  encoder
	shrinker shrinker // without a Compressor nothing is compressed
	guard    *guard   // nil: in the clear
	sealed   []byte
	err      error
}

// NewWriter returns a Writer to w, which stays the caller's. Nothing is written before Head. The options stay the caller's, too; Head
// returns backend.ErrConfig where they cannot be.
func NewWriter(w io.Writer, o Options) *Writer {
	if w == nil {
		return &Writer{}
	}
	made := &Writer{out: bufio.NewWriterSize(w, 64<<10)}
	made.guard, made.err = o.guard()
	made.shrinker.Compressor = o.Compressor
	return made
}

// Bytes is how much was written; some of it may not have reached the io.Writer before Close.
func (w *Writer) Bytes() int64 { return w.bytes }

func (w *Writer) write(b []byte) {
	if w.err == nil {
		var n int
		n, w.err = w.out.Write(b)
		w.bytes += int64(n)
	}
}

// section writes one with a payload in pieces.
func (w *Writer) section(kind string, flags byte, payload ...[]byte) error {
	if w.err != nil {
		return w.err
	}
	plain := uint64(sealBytes)
	for _, p := range payload {
		plain += uint64(len(p))
	}
	if plain > maxSection { // no reader would take it
		w.err = backend.ErrArgument{Package: "snapshot", What: fmt.Sprintf("section %q of %d bytes, and none has more than %d; save fewer tokens together", kind, plain, uint64(maxSection))}
		return w.err
	}
	s := section{kind: kind, flags: flags}
	if w.shrinker.Compressor != nil && kind == typeChunk {
		less, err := w.shrinker.shrink(payload)
		if w.err = err; err != nil {
			return err
		}
		if less != nil {
			s.coding, payload = compressed, [][]byte{less}
		}
	}
	for _, p := range payload {
		s.length += uint64(len(p))
	}
	if w.guard != nil {
		s.coding, s.length = s.coding|sealed, s.length+sealBytes
		h := s.encode()
		if w.sealed, w.err = w.guard.seal(w.sealed, w.sections, &h, payload); w.err != nil {
			return w.err
		}
		payload = [][]byte{w.sealed}
	}
	for _, p := range payload {
		s.sum = crc32c.Update(s.sum, p)
	}
	h := s.encode()
	w.write(h[:])
	w.all = crc32c.Update(w.all, h[:summed])
	for _, p := range payload {
		w.write(p)
	}
	w.sections++
	return w.err
}

// errNotMade is a Writer or Reader that no constructor made, or that was made of nil.
var errNotMade = fmt.Errorf("snapshot: not made by NewWriter or NewReader, or made of nil: %w", backend.ErrClosed)

// Head begins the stream.
func (w *Writer) Head(h *Head) error {
	if w.out == nil {
		return errNotMade
	}
	if h == nil {
		return backend.ErrArgument{Package: "snapshot", Op: "head", What: "the head is nil"}
	}
	first := header()
	w.write(first[:])
	w.all = crc32c.Update(w.all, first[:summedHeader])
	section := func(kind string, flags byte, fill func(e *encoder)) {
		w.payload = w.payload[:0]
		fill(&w.payload)
		_ = w.section(kind, flags, w.payload) // kept
	}
	if w.guard != nil {
		id := newID()
		_ = w.section(typeSeal, critical, id[:])
		w.guard.id = id
	}
	_ = w.section(typeContent, critical, []byte(h.Content))
	section(typeScopes, critical, func(e *encoder) { e.scopes(h.Scopes) })
	section(typeStrips, critical, func(e *encoder) { e.strips(h.Strips) })
	for i := range h.Sequences {
		section(typeSequence, critical, func(e *encoder) { e.sequence(&h.Sequences[i]) })
	}
	for i := range h.Notes {
		section(typeNote, 0, func(e *encoder) { e.note(&h.Notes[i]) })
	}
	return w.err
}

// Chunk writes the next one, that of number 0 first: rows in the order that its strip says.
func (w *Writer) Chunk(strip, tokens int, rows []byte) error {
	if w.out == nil {
		return errNotMade
	}
	w.payload = w.payload[:0]
	w.payload.n(strip)
	w.payload.n(tokens)
	return w.section(typeChunk, critical, w.payload, rows)
}

// Close ends the stream and passes all of it on. The io.Writer stays open.
func (w *Writer) Close() error {
	if w.out == nil {
		return errNotMade
	}
	w.payload = le.AppendUint64(w.payload[:0], uint64(w.bytes))
	w.payload.n(w.sections)
	w.payload = le.AppendUint32(w.payload, w.all)
	if err := w.section(typeEnd, critical, w.payload); err != nil {
		return err
	}
	w.err = w.out.Flush()
	return w.err
}
