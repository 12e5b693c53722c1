package snapshot

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"runtime"
	"testing"
	"testing/iotest"

	"github.com/ferrumkv/ferrumkv/internal/crc32c"
	"github.com/stretchr/testify/require"
)

// What is written is read, a byte at a time, too, and nothing behind it is.
func TestRoundTrip(t *testing.T) {
	for _, o := range codings {
		h := sample()
		stream := write(t, h, o)
		behind := bytes.NewReader(append(bytes.Clone(stream), "behind"...))
		for _, r := range []io.Reader{bytes.NewReader(stream), iotest.OneByteReader(bytes.NewReader(stream)), behind, iotest.DataErrReader(bytes.NewReader(stream))} {
			got, rows, err := readAll(r, o)
			require.NoError(t, err)
			require.Equal(t, h, got)
			require.Equal(t, chunks(h), rows)
		}
		rest, err := io.ReadAll(behind)
		require.NoError(t, err)
		require.Equal(t, "behind", string(rest))
		empty := &Head{Content: content, Scopes: nil}
		got, rows, err := readAll(bytes.NewReader(write(t, empty, o)), o)
		require.NoError(t, err)
		require.Equal(t, empty, got)
		require.Empty(t, rows)
	}
}

// A stream that ends too soon is refused wherever it does.
func TestEveryTruncation(t *testing.T) {
	for _, o := range codings {
		stream := write(t, sample(), o)
		for n := range stream {
			_, _, err := readAll(bytes.NewReader(stream[:n]), o)
			require.ErrorIs(t, err, ErrCorrupt{}, "%d bytes", n)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}
	}
}

// A stream with another bit is refused, whichever it is.
func TestEveryFlippedBit(t *testing.T) {
	for _, o := range codings {
		stream := write(t, sample(), o)
		for i := range stream {
			for _, bit := range []int{i % 8, (i + 3) % 8} {
				stream[i] ^= 1 << bit
				_, _, err := readAll(bytes.NewReader(stream), o)
				require.ErrorIs(t, err, ErrCorrupt{}, "byte %d", i)
				stream[i] ^= 1 << bit
			}
		}
	}
}

// Sections that are taken out, repeated or exchanged are noticed.
func TestSectionsBelongTogether(t *testing.T) {
	for _, o := range codings {
		parts := cut(t, write(t, sample(), o))
		refused := func(parts [][]byte, what string, of []byte) {
			_, _, err := readAll(bytes.NewReader(bytes.Join(parts, nil)), o)
			require.ErrorIs(t, err, ErrCorrupt{}, "%q %s", of[:4], what)
		}
		for i := 1; i < len(parts); i++ {
			refused(append(parts[:i:i], parts[i+1:]...), "taken out", parts[i])
			if i == len(parts)-1 {
				continue
			}
			refused(append(append(parts[:i+1:i+1], parts[i]), parts[i+1:]...), "twice", parts[i])
			if i > 1 {
				refused(append(append(parts[:i-1:i-1], parts[i], parts[i-1]), parts[i+1:]...), "exchanged with the next", parts[i-1])
			}
		}
	}
}

// A sequence names chunks in any order, and what is in a chunk's section does not depend on its number.
func TestChunksInAnyOrder(t *testing.T) {
	first := chunks(sample())
	at := map[string]bool{}
	for _, p := range cut(t, write(t, sample(), Options{})) {
		at[string(p)] = true
	}
	h := sample()
	moved := [...]int{3, 2, 4, 1, 0, 6, 5, 8, 9, 7} // within a sequence
	for _, s := range h.Sequences {
		for _, runs := range s.Strips {
			for _, run := range runs {
				for i := range run.Refs {
					run.Refs[i].Chunk = moved[run.Refs[i].Chunk]
				}
			}
		}
	}
	rows := make([]Chunk, len(first))
	for i, c := range first {
		c.Number = moved[i]
		rows[c.Number] = c
	}
	stream := rewritten(t, h, rows, Options{})
	for _, p := range cut(t, stream) {
		require.True(t, string(p[:4]) != typeChunk || at[string(p)])
	}
	got, all, err := readAll(bytes.NewReader(stream), Options{})
	require.NoError(t, err)
	require.Equal(t, h, got)
	require.Equal(t, rows, all)
}

// cut is the header and the sections of a stream.
func cut(t testing.TB, stream []byte) [][]byte {
	parts := [][]byte{stream[:headerBytes]}
	for rest := stream[headerBytes:]; len(rest) > 0; {
		s, ok := decodeSection((*[sectionBytes]byte)(rest[:sectionBytes]))
		require.True(t, ok)
		n := sectionBytes + int(s.length)
		parts, rest = append(parts, rest[:n:n]), rest[n:]
	}
	return parts
}

// put is a stream with another section before one of them, whose end says so.
func put(t testing.TB, h *Head, at int, kind string, flags, coding byte) []byte {
	parts := cut(t, write(t, h, Options{}))
	parts = append(parts[:at:at], append([][]byte{sectionOf(kind, flags, coding, []byte("something"))}, parts[at:]...)...)
	return ended(parts)
}

// sectionOf is a section whose sums are right.
func sectionOf(kind string, flags, coding byte, payload []byte) []byte {
	s := section{kind, flags, coding, uint64(len(payload)), crc32c.Sum(payload)}
	head := s.encode()
	return append(head[:], payload...)
}

// ended is parts with an end that is right.
func ended(parts [][]byte) []byte {
	payload := endOf(parts[:len(parts)-1])
	return append(bytes.Join(parts[:len(parts)-1], nil), sectionOf(typeEnd, critical, 0, payload)...)
}

// endOf is the payload of the end behind some parts.
func endOf(parts [][]byte) []byte {
	heads := bytes.Clone(parts[0][:summedHeader])
	for _, p := range parts[1:] {
		heads = append(heads, p[:summed]...)
	}
	payload := le.AppendUint64(nil, uint64(len(bytes.Join(parts, nil))))
	return le.AppendUint32(le.AppendUint32(payload, uint32(len(parts)-1)), crc32c.Sum(heads))
}

// What a later version adds is skipped or refused, as it says.
func TestUnknownSections(t *testing.T) {
	h := sample()
	for at := 1; at < 20; at += 3 {
		for _, coding := range []byte{0, compressed} { // nobody looks into it
			got, _, err := readAll(bytes.NewReader(put(t, h, at, "ZZZZ", 0, coding)), Options{})
			require.NoError(t, err)
			require.Equal(t, h, got)
		}
		for field, stream := range map[string][]byte{
			"section": put(t, h, at, "ZZZZ", critical, 0),
			"coding":  put(t, h, at, "ZZZZ", 0, 4),
			"flags":   put(t, h, at, "ZZZZ", 2, 0),
		} {
			_, _, err := readAll(bytes.NewReader(stream), Options{})
			var e ErrMismatch
			require.ErrorAs(t, err, &e)
			require.Equal(t, field, e.Field)
			require.ErrorContains(t, err, `"ZZZZ"`)
		}
	}
	stream := write(t, h, Options{})
	le.PutUint16(stream[8:], 2)
	le.PutUint32(stream[12:], crc32c.Sum(stream[:12]))
	_, _, err := readAll(bytes.NewReader(stream), Options{})
	require.ErrorIs(t, err, ErrMismatch{})
	require.ErrorContains(t, err, "version is 2 in the snapshot, and here 1")
	for _, kind := range []string{typeSeal, typeContent, typeSequence, typeChunk} {
		_, _, err := readAll(bytes.NewReader(put(t, h, 2, kind, 0, 0)), Options{})
		require.ErrorIs(t, err, ErrCorrupt{})
	}
}

// Heads that do not fit together, though their sums are right, are refused.
func TestHeadsThatCannotBe(t *testing.T) {
	for name, change := range map[string]func(h *Head){
		"scope 3 of 3":                     func(h *Head) { h.Sequences[0].Scope = 3 },
		"draft 8 of 7":                     func(h *Head) { h.Sequences[0].Draft = 8 },
		"of which there are 7":             func(h *Head) { h.Sequences[0].Prompt = 7 },
		"need 7":                           func(h *Head) { h.Sequences[0].Tokens = h.Sequences[0].Tokens[:6] },
		"has no tokens":                    func(h *Head) { h.Sequences[1].Tokens = nil },
		"next position is 8":               func(h *Head) { h.Sequences[0].Next = 8 },
		"position 8, the next token is at": func(h *Head) { h.Sequences[2].Next = 8 },
		"lists of positions":               func(h *Head) { h.Sequences[3].Positions = make([][]int, 6) },
		"fidelity 0x8":                     func(h *Head) { h.Sequences[0].Fidelity = 8 },
		"spans do not rise":                func(h *Head) { h.Sequences[1].Spans[0].End = 0 },
		"chunk 2 has 4 tokens from 4 on":   func(h *Head) { h.Sequences[0].Strips[0][0].Refs[1].Tokens = 4 },
		"chunk 0 has 5 tokens":             func(h *Head) { h.Sequences[0].Strips[0][0].Refs[0].Tokens = 5 },
		"chunk 0 has 0 tokens":             func(h *Head) { h.Sequences[0].Strips[0][0].Refs[0].Tokens = 0 },
		"chunk 5 is named, and not all":    func(h *Head) { h.Sequences[0].Strips[1][0].Refs[0].Chunk = 5 }, // though the next sequence has 1
		"before it: chunk 2":               func(h *Head) { h.Sequences[0].Strips[0][0].Refs[1].Chunk = 0 },
		"chunk 0 is of strips 0 and 1":     func(h *Head) { h.Sequences[0].Strips[1][0].Refs[0].Chunk = 0 },
		"a run at token 0, behind":         func(h *Head) { h.Sequences[2].Strips[0][1].First = 0 },
		"a run without tokens":             func(h *Head) { h.Sequences[0].Strips[1][0].Refs = nil },
		"without its state":                func(h *Head) { h.Sequences[0].Strips[2] = nil },
		"after 8 of 7 tokens":              func(h *Head) { h.Sequences[0].Strips[2][1].Refs[0].Tokens = 8 },
		"behind one after 4":               func(h *Head) { h.Sequences[0].Strips[2][1].Refs[0].Tokens = 4 },
		"after 0 of 7":                     func(h *Head) { h.Sequences[0].Strips[2][0].Refs[0].Tokens = 0 },
		"a sequence without its state":     func(h *Head) { h.Sequences[0].Strips[2] = h.Sequences[0].Strips[2][:1] },
		"a state at token 1":               func(h *Head) { h.Sequences[0].Strips[2][1].First = 1 },
		"is a state after 4 tokens and":    func(h *Head) { h.Sequences[0].Strips[2][1].Refs[0].Chunk = 3 },
		"a strip of kind 3":                func(h *Head) { h.Strips[0].Kind = 3 },
		"a strip without layers":           func(h *Head) { h.Strips[0].Layers = nil },
		"layer 0 behind layer 0":           func(h *Head) { h.Strips[0].Layers[1].Number = 0 },
		"planes are not in their order":    func(h *Head) { h.Strips[0].Layers[0].Planes[1].Role = Keys },
		"a plane of role keys in a strip":  func(h *Head) { h.Strips[2].Layers[0].Planes[0].Role = Keys },
		"of 0 heads":                       func(h *Head) { h.Strips[0].Layers[0].Planes[0].Heads = 0 },
		"a plane of role 6":                func(h *Head) { h.Strips[0].Layers[0].Planes[3].Role = 6 },
	} {
		h := sample()
		change(h)
		var b bytes.Buffer
		w := NewWriter(&b, Options{})
		require.NoError(t, w.Head(h))
		require.NoError(t, w.Close())
		_, err := NewReader(&b, Options{}).Head()
		require.ErrorIs(t, err, ErrCorrupt{}, name)
		require.ErrorContains(t, err, name)
	}
}

// Chunks that are not what sequences say are refused.
func TestChunksThatCannotBe(t *testing.T) {
	h := sample()
	for name, change := range map[string]func(all []Chunk) []Chunk{
		"strip 1, and sequences say 0":        func(all []Chunk) []Chunk { all[0].Strip = 1; return all },
		"3 tokens; sequences have 4":          func(all []Chunk) []Chunk { all[0].Tokens = 3; return all },
		"5 tokens; sequences have 4":          func(all []Chunk) []Chunk { all[0].Tokens = 5; return all },
		"5 tokens; sequences have 4 of":       func(all []Chunk) []Chunk { all[3].Tokens = 5; return all },
		"bytes for 4 tokens":                  func(all []Chunk) []Chunk { all[0].Rows = all[0].Rows[1:]; return all },
		"nobody refers to chunk 10":           func(all []Chunk) []Chunk { return append(all, all[0]) },
		"9 chunks, and sequences refer to 10": func(all []Chunk) []Chunk { return all[:9] },
	} {
		var b bytes.Buffer
		w := NewWriter(&b, Options{})
		require.NoError(t, w.Head(h))
		for _, c := range change(chunks(h)) {
			require.NoError(t, w.Chunk(c.Strip, c.Tokens, c.Rows))
		}
		require.NoError(t, w.Close())
		_, _, err := readAll(&b, Options{})
		require.ErrorIs(t, err, ErrCorrupt{}, name)
		require.ErrorContains(t, err, name)
	}
}

// A few bytes that speak of many do not make a reader allocate many.
func TestMemoryComesWithBytes(t *testing.T) {
	first := header()
	long := section{typeContent, critical, 0, maxSection, 0}
	head := long.encode()
	for _, payload := range []int{0, 10, 200_000} {
		stream := append(append(first[:], head[:]...), make([]byte, payload)...)
		require.LessOrEqual(t, allocated(func() {
			_, _, err := readAll(bytes.NewReader(stream), Options{})
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}), uint64(4*len(stream)+2*firstRead))
	}
	h := sample()
	h.Sequences[0].Strips[0][0].Refs[1].Chunk = 1 << 30
	stream := rewritten(t, h, nil, Options{})
	require.LessOrEqual(t, allocated(func() { _, _, _ = readAll(bytes.NewReader(stream), Options{}) }), uint64(multiple*len(stream)+2*firstRead))
	// Lists that say that they are long.
	for at := range 120 {
		parts := cut(t, write(t, sample(), Options{}))
		for i := 2; i < 6; i++ {
			if at+4 > len(parts[i])-sectionBytes {
				continue
			}
			le.PutUint32(parts[i][sectionBytes+at:], 1<<31-1)
			s, _ := decodeSection((*[sectionBytes]byte)(parts[i][:sectionBytes]))
			s.sum = crc32c.Sum(parts[i][sectionBytes:])
			h := s.encode()
			copy(parts[i], h[:])
			stream := ended(parts)
			require.LessOrEqual(t, allocated(func() { _, _, _ = readAll(bytes.NewReader(stream), Options{}) }), uint64(multiple*len(stream)+2*firstRead))
			break
		}
	}
}

// multiple is how much a reader may allocate for each byte that it reads, besides two first buffers.
const multiple = 24

// allocated is the bytes that do takes from Go's heap: the least of three runs, for Go's own work beside them is counted, too.
func allocated(do func()) uint64 {
	least := uint64(math.MaxUint64)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// Errors of what a stream is written to and read from are passed on.
func TestErrorsOfOthers(t *testing.T) {
	broken := errors.New("broken")
	h := sample()
	for n := 0; n < len(write(t, h, Options{})); n += 7 {
		w := NewWriter(&limited{n, broken}, Options{})
		err := w.Head(h)
		for _, c := range chunks(h) {
			if err == nil {
				err = w.Chunk(c.Strip, c.Tokens, c.Rows)
			}
		}
		_ = err // Close has it
		require.ErrorIs(t, w.Close(), broken)
	}
	_, _, err := readAll(io.MultiReader(bytes.NewReader(write(t, h, Options{})[:99]), iotest.ErrReader(broken)), Options{})
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, ErrCorrupt{})
	r := NewReader(iotest.ErrReader(broken), Options{})
	_, err = r.Head()
	require.ErrorIs(t, err, broken)
	_, err = r.Chunk()
	require.ErrorIs(t, err, broken)
}

// limited is a writer that has room for so many bytes.
type limited struct {
	room int
	err  error
}

func (l *limited) Write(b []byte) (int, error) {
	if len(b) > l.room {
		return l.room, l.err
	}
	l.room -= len(b)
	return len(b), nil
}

// Compare names the field, and the first layer, in which two contents differ.
func TestCompare(t *testing.T) {
	require.NoError(t, Compare(content, content))
	for _, c := range []struct {
		was, is, field string
		layer          int
	}{
		{"content 2", "content 3", "content", -1},
		{"numerics 1", "numerics 2", "numerics", -1},
		{"model 0x01", "model 0x02", "model", -1},
		{"layers 3", "layers 4", "layers", -1},
		{"f16 bits=16", "f32 bits=32", "keys", 0},
		{"residual 0", "residual 8", "residual", 0},
		{"state-bytes 5", "state-bytes 6", "state-bytes", 2},
		{"layer 2\n", "layer 1\n", "keys", 1},
		{"state-bytes 5\n", "", "state-bytes", 2},
		{"residual 0\n", "residual 0\nnew 1\n", "new", 0},
	} {
		other := string(bytes.Replace([]byte(content), []byte(c.was), []byte(c.is), 1))
		var e, back ErrMismatch
		require.ErrorAs(t, Compare(content, other), &back)
		require.ErrorAs(t, Compare(other, content), &e)
		require.Equal(t, []any{c.layer, c.layer}, []any{e.Layer, back.Layer}, c.is)
		require.Equal(t, c.field, e.Field, c.is)
		require.NotEqual(t, e.Have, e.Want)
	}
	require.NoError(t, Compare(content, content+"state-bytes 5\n"))
	require.ErrorIs(t, Compare("", content), ErrMismatch{})
	require.ErrorIs(t, Compare("\n\nlayer x\n", content), ErrMismatch{})
}

const goldenFile = "testdata/version1.snap"

// The file of version 1 is read, and is what is written today.
func TestVersion1(t *testing.T) {
	stream := write(t, sample(), Options{})
	if os.Getenv("FERRUM_TEST_GOLDEN") == "write" {
		require.NoError(t, os.WriteFile(goldenFile, stream, 0o644))
	}
	golden, err := os.ReadFile(goldenFile)
	require.NoError(t, err)
	h, rows, err := readAll(bytes.NewReader(golden), Options{})
	require.NoError(t, err)
	require.Equal(t, sample(), h)
	require.Equal(t, chunks(h), rows)
	require.Equal(t, golden, stream, "files have it: another stream for the same input needs another version (docs/snapshot.md)")
}
