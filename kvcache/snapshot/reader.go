package snapshot

import (
	"fmt"
	"io"

	"github.com/ferrumkv/ferrumkv/internal/crc32c"
)

// maxSection is the most bytes of a payload.
const maxSection = 1 << 31

// firstRead is what is allocated before a payload is there: more only as it comes.
const firstRead = 4 << 10

// Reader reads a stream and verifies it: first Head, then chunks. After an error all that follows is that error.
type Reader struct {
	in       io.Reader
	at       int64 // bytes that were read
	begin    int64 // of the section
	kind     string
	sections int
	all      uint32 // see Writer
	stored   []byte // the payload as the stream has it
	payload  []byte // and as it was
	guard    *guard // nil: in the clear
	shrinker shrinker
	ahead    bool // the section was read, and is not used yet
	head     Head
	wanted   []want // of chunks
	chunks   int
	err      error
}

// want is what sequences say of a chunk.
type want struct{ strip, tokens int }

// NewReader returns a Reader of r, which stays the caller's. It reads no byte behind the stream. The options stay the caller's, too; Head
// returns backend.ErrConfig where they cannot be, and ErrMismatch of the field secret where the stream was not sealed with theirs.
// That of the field compression, also by Chunk, is a chunk that is compressed where they have no Compressor.
func NewReader(r io.Reader, o Options) *Reader {
	made := &Reader{in: r, shrinker: shrinker{Compressor: o.Compressor}}
	made.guard, made.err = o.guard()
	return made
}

// Bytes is how much was read.
func (r *Reader) Bytes() int64 { return r.at }

func (r *Reader) corrupt(format string, args ...any) error {
	return ErrCorrupt{Offset: r.begin, Section: r.kind, Why: fmt.Sprintf(format, args...)}
}

// read fills b.
func (r *Reader) read(b []byte) error {
	if r.in == nil {
		return errNotMade
	}
	n, err := io.ReadFull(r.in, b)
	r.at += int64(n)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return ErrCorrupt{Offset: r.begin, Section: r.kind, Why: fmt.Sprintf("the stream ends at byte %d", r.at), Err: io.ErrUnexpectedEOF}
	}
	if err != nil {
		return fmt.Errorf("snapshot: read at byte %d: %w", r.at, err)
	}
	return nil
}

// header reads the first bytes.
func (r *Reader) header() error {
	var h [headerBytes]byte
	if err := r.read(h[:]); err != nil {
		return err
	}
	switch {
	case string(h[:8]) != magic:
		return r.corrupt("this is no snapshot: it begins with %q", h[:8])
	case le.Uint32(h[12:]) != crc32c.Sum(h[:12]):
		return r.corrupt("the sum of the header is not right")
	case le.Uint16(h[8:]) != Version:
		return ErrMismatch{Field: "version", Layer: -1, Have: fmt.Sprint(le.Uint16(h[8:])), Want: fmt.Sprint(Version), Why: "it was written by a later version of the library"}
	case le.Uint16(h[10:]) != headerBytes:
		return r.corrupt("a header of %d bytes", le.Uint16(h[10:]))
	}
	r.all = crc32c.Update(r.all, h[:summedHeader])
	return nil
}

// section reads the next one, whatever it is.
func (r *Reader) section() (section, error) {
	var h [sectionBytes]byte
	r.begin, r.kind = r.at, ""
	if err := r.read(h[:]); err != nil {
		return section{}, err
	}
	s, ok := decodeSection(&h)
	if !ok {
		return s, r.corrupt("the sum of the section's head is not right")
	}
	r.kind = s.kind
	unknown := func(field, have, want string) (section, error) {
		return s, ErrMismatch{Field: field, Layer: -1, Have: have, Want: want, Why: fmt.Sprintf("section %q at byte %d was written by a later version of the library", s.kind, r.begin)}
	}
	switch {
	case s.flags&^critical != 0:
		return unknown("flags", fmt.Sprintf("%#x", s.flags), "0 or 1")
	case s.coding&^(compressed|sealed) != 0:
		return unknown("coding", fmt.Sprint(s.coding), "0 to 3")
	case s.length > maxSection:
		return s, r.corrupt("%d bytes, more than any section has", s.length)
	}
	if err := r.admit(&s); err != nil {
		return s, err
	}
	if err := r.fill(s.length); err != nil {
		return s, err
	}
	if crc32c.Sum(r.stored) != s.sum {
		return s, r.corrupt("the sum of the payload is not right")
	}
	if err := r.decode(&s, &h); err != nil {
		return s, err
	}
	if s.kind == typeEnd {
		return s, r.end(&s)
	}
	r.all = crc32c.Update(r.all, h[:summed])
	r.sections++
	return s, nil
}

// fill reads a payload. Memory grows with what is there.
func (r *Reader) fill(length uint64) error {
	r.stored = r.stored[:0]
	for n := int(length); len(r.stored) < n; {
		had := len(r.stored)
		more := min(n-had, max(cap(r.stored), firstRead)-had)
		if more == 0 {
			more = min(n-had, had)
		}
		if had+more > cap(r.stored) {
			r.stored = append(make([]byte, 0, had+more), r.stored...)
		}
		r.stored = r.stored[:had+more]
		if err := r.read(r.stored[had:]); err != nil {
			return err
		}
	}
	return nil
}

// end verifies the last section.
func (r *Reader) end(s *section) error {
	switch e := r.payload; {
	case len(e) != endBytes || s.flags != critical:
		return r.corrupt("%d bytes", s.length)
	case le.Uint64(e) != uint64(r.begin) || le.Uint32(e[8:]) != uint32(r.sections) || le.Uint32(e[12:]) != r.all:
		return r.corrupt("%d bytes and %d sections were written, %d and %d read, or their sums differ", le.Uint64(e), le.Uint32(e[8:]), r.begin, r.sections)
	}
	return nil
}

// next reads sections up to one that this version knows.
func (r *Reader) next() (kind string, err error) {
	if r.ahead {
		r.ahead = false
		return r.kind, nil
	}
	for {
		s, err := r.section()
		if err != nil {
			return "", err
		}
		switch {
		case s.kind == typeSeal: // it was looked at
		case known(s.kind):
			if s.flags&critical == 0 && s.kind != typeNote {
				return "", r.corrupt("it is not critical")
			}
			return s.kind, nil
		case s.flags&critical != 0:
			return "", ErrMismatch{Field: "section", Layer: -1, Have: fmt.Sprintf("%q", s.kind), Want: "not known", Why: "it was written by a later version of the library, and nothing goes without that section"}
		}
	}
}

// Head is what a stream has before its chunks.
func (r *Reader) Head() (*Head, error) {
	if r.err != nil {
		return nil, r.err
	}
	if r.err = r.readHead(); r.err != nil {
		return nil, r.err
	}
	return &r.head, nil
}

func (r *Reader) readHead() error {
	if err := r.header(); err != nil {
		return err
	}
	// In this order; of those behind any number.
	stage := []string{typeContent, typeScopes, typeStrips}
	for noted := false; ; {
		kind, err := r.next()
		if err != nil {
			return err
		}
		if len(stage) > 0 {
			if kind != stage[0] {
				return r.corrupt("there has to be a section %q before it", stage[0])
			}
			stage = stage[1:]
		} else if kind == typeChunk || kind == typeEnd {
			r.ahead = true
			return nil
		} else if kind == typeNote {
			noted = true
		} else if kind != typeSequence || noted {
			return r.corrupt("the section is not where it belongs")
		}
		d := decoder{rest: r.payload}
		switch kind {
		case typeContent:
			r.head.Content = string(d.take(len(d.rest)))
		case typeScopes:
			r.head.Scopes = d.scopes()
		case typeStrips:
			r.head.Strips = d.strips()
		case typeSequence:
			r.head.Sequences = append(r.head.Sequences, d.sequence(&r.head))
			if d.why == "" {
				r.want(&d, &r.head.Sequences[len(r.head.Sequences)-1])
			}
		case typeNote:
			r.head.Notes = append(r.head.Notes, Note{string(d.bytes()), append([]byte{}, d.take(len(d.rest))...)})
		}
		if d.end(); d.why != "" {
			return r.corrupt("%s", d.why)
		}
	}
}

// want notes the chunks of a sequence. With its own, those that sequences have named are the first ones, none left out, so that there are
// no more than references. In which order it names them is the writer's choice.
func (r *Reader) want(d *decoder, s *Sequence) {
	had, refs := len(r.wanted), 0
	for _, runs := range s.Strips {
		for _, run := range runs {
			refs += len(run.Refs)
		}
	}
	for strip, runs := range s.Strips {
		for _, run := range runs {
			for _, ref := range run.Refs {
				if ref.Chunk >= had+refs {
					d.fail("chunk %d is named, and not all before it", ref.Chunk)
					return
				}
				for len(r.wanted) <= ref.Chunk {
					r.wanted = append(r.wanted, want{})
				}
				w := &r.wanted[ref.Chunk]
				if w.tokens == 0 {
					w.strip = strip
				} else if w.strip != strip {
					d.fail("chunk %d is of strips %d and %d", ref.Chunk, w.strip, strip)
					return
				}
				if r.head.Strips[strip].Kind == State && w.tokens > 0 && w.tokens != ref.Tokens {
					d.fail("chunk %d is a state after %d tokens and after %d", ref.Chunk, w.tokens, ref.Tokens)
					return
				}
				w.tokens = max(w.tokens, ref.Tokens)
			}
		}
	}
	for i, w := range r.wanted[had:] {
		if w.tokens == 0 {
			d.fail("chunk %d is named, and not all before it: chunk %d", len(r.wanted)-1, had+i)
			return
		}
	}
}

// Chunk is rows of a strip.
type Chunk struct {
	Number, Strip, Tokens int    // the number is its place among the chunks of the stream
	Rows                  []byte // valid until the next call
}

// Chunk returns the next one. It is io.EOF when all are read, and the whole stream is what was written.
func (r *Reader) Chunk() (Chunk, error) {
	if r.err != nil {
		return Chunk{}, r.err
	}
	var c Chunk
	if c, r.err = r.readChunk(); r.err != nil {
		return Chunk{}, r.err
	}
	return c, nil
}

// most is the tokens that a chunk has at most. A state is after just as many as sequences say.
func (r *Reader) most(c Chunk) int {
	if of := &r.head.Strips[c.Strip]; of.Kind != State {
		return of.Tokens
	}
	return r.wanted[c.Number].tokens
}

func (r *Reader) readChunk() (c Chunk, err error) {
	kind, err := r.next()
	if err != nil {
		return c, err
	}
	switch kind {
	case typeEnd:
		if r.chunks < len(r.wanted) {
			return c, r.corrupt("there are %d chunks, and sequences refer to %d", r.chunks, len(r.wanted))
		}
		return c, io.EOF
	case typeChunk:
	default:
		return c, r.corrupt("the section is not where it belongs")
	}
	d := decoder{rest: r.payload}
	c = Chunk{Number: r.chunks, Strip: d.n(), Tokens: d.n()}
	switch {
	case d.why != "":
	case c.Number >= len(r.wanted):
		d.fail("nobody refers to chunk %d", c.Number)
	case c.Strip != r.wanted[c.Number].strip:
		d.fail("strip %d, and sequences say %d", c.Strip, r.wanted[c.Number].strip)
	case c.Tokens < r.wanted[c.Number].tokens || c.Tokens > r.most(c):
		d.fail("%d tokens; sequences have %d of them", c.Tokens, r.wanted[c.Number].tokens)
	case uint64(len(d.rest)) != r.head.Strips[c.Strip].Size(c.Tokens):
		d.fail("%d bytes for %d tokens, which have %d", len(d.rest), c.Tokens, r.head.Strips[c.Strip].Size(c.Tokens))
	}
	if d.why != "" {
		return c, r.corrupt("%s", d.why)
	}
	r.chunks++
	c.Rows = d.rest
	return c, nil
}
