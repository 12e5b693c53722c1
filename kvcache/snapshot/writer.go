package snapshot

import (
	"bufio"
	"errors"
	"hash/crc32"
	"io"
)

// Writer writes a stream: first Head, then chunks, then Close. After an error all that follows is that error.
type Writer struct {
	out      *bufio.Writer
	bytes    int64
	sections int
	all      uint32 // sum of the header and of the sections' heads without their own sums
	payload  encoder
	err      error
}

// NewWriter returns a Writer to w, which stays the caller's. Nothing is written before Head.
func NewWriter(w io.Writer) *Writer { return &Writer{out: bufio.NewWriterSize(w, 64<<10)} }

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
	s := section{kind: kind, flags: flags}
	for _, p := range payload {
		s.length += uint64(len(p))
		s.sum = crc32.Update(s.sum, castagnoli, p)
	}
	h := s.encode()
	w.write(h[:])
	w.all = crc32.Update(w.all, castagnoli, h[:summed])
	for _, p := range payload {
		w.write(p)
	}
	w.sections++
	return w.err
}

// errNotMade is a Writer or Reader that no constructor made.
var errNotMade = errors.New("snapshot: not made by NewWriter or NewReader")

// Head begins the stream.
func (w *Writer) Head(h *Head) error {
	if w.out == nil || h == nil {
		return errNotMade
	}
	first := header()
	w.write(first[:])
	w.all = crc32.Update(w.all, castagnoli, first[:summedHeader])
	section := func(kind string, flags byte, fill func(e *encoder)) {
		w.payload = w.payload[:0]
		fill(&w.payload)
		_ = w.section(kind, flags, w.payload) // kept
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
	for _, v := range [...]int{strip, tokens} {
		w.payload.n(v)
	}
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
