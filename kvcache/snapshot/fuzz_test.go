package snapshot

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/crc32c"
	"github.com/stretchr/testify/require"
)

// Whatever is read, a reader returns what fits together or an error, and allocates no more than a multiple of it. Sums are made right, and
// what is mended is sealed where a secret is given, so that what is behind them is met.
func FuzzReader(f *testing.F) {
	for _, o := range codings {
		stream := write(f, sample(), o)
		f.Add(stream, false, o.Secret != nil)
		if o.Secret != nil {
			continue
		}
		for _, hidden := range []bool{false, true} {
			f.Add(stream, true, hidden)
			f.Add(put(f, sample(), 7, "ZZZZ", 0, 0), true, hidden)
			for range 20 {
				other := bytes.Clone(stream)
				other[rand.IntN(len(other))]++
				f.Add(other, true, hidden)
			}
		}
	}
	f.Fuzz(func(t *testing.T, stream []byte, mend, hidden bool) {
		o := codings[1]
		if hidden {
			o.Secret = secret
		}
		if mend {
			stream = mended(t, stream, o)
		}
		var h *Head
		var rows []Chunk
		var err error
		bytesFor := allocated(func() { h, rows, err = readAll(bytes.NewReader(stream), o) })
		require.LessOrEqual(t, bytesFor, mayAllocate(stream))
		if err != nil {
			require.True(t, errors.Is(err, ErrCorrupt{}) || errors.Is(err, ErrMismatch{}), err)
			return
		}
		for _, o := range codings {
			again, chunks, err := readAll(bytes.NewReader(rewritten(t, h, rows, o)), o)
			require.NoError(t, err)
			require.Equal(t, h, again)
			require.Equal(t, rows, chunks)
		}
	})
}

func rewritten(t testing.TB, h *Head, rows []Chunk, o Options) []byte {
	var b bytes.Buffer
	w := NewWriter(&b, o)
	require.NoError(t, w.Head(h))
	for _, c := range rows {
		require.NoError(t, w.Chunk(c.Strip, c.Tokens, c.Rows))
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

// mayAllocate is how much a reader may allocate for a stream and for the copies that readAll makes: a multiple of its bytes and a few rooms,
// and where chunks are compressed what they say that they have, as far as it is within limits, and once more where they lie about it.
func mayAllocate(stream []byte) uint64 {
	n := uint64(multiple*len(stream) + 4*firstRead)
	shrunk := uint64(0)
	for rest := stream[min(headerBytes, len(stream)):]; len(rest) >= sectionBytes; {
		length := min(le.Uint64(rest[8:]), uint64(len(rest)-sectionBytes))
		if rest[5]&compressed != 0 {
			shrunk += length
		}
		rest = rest[sectionBytes+length:]
	}
	if shrunk > 0 {
		n += decoderBytes + 3*mostShrunk*shrunk
	}
	return n
}

// decoderBytes is what is allocated for a decoder of zstd, and for the most that a block of it takes.
const decoderBytes = 1 << 20

// mended is a stream whose sums and lengths are right as far as it goes, and which is sealed where a secret is given.
func mended(t testing.TB, stream []byte, o Options) []byte {
	stream = bytes.Clone(stream)
	if len(stream) < headerBytes {
		return stream
	}
	copy(stream, magic)
	le.PutUint32(stream[12:], crc32c.Sum(stream[:12]))
	g, err := o.guard()
	require.NoError(t, err)
	parts := [][]byte{stream[:headerBytes]}
	add := func(kind string, flags, coding byte, payload []byte) {
		if g != nil {
			parts = append(parts, sealedSection(t, g, len(parts)-1, kind, flags, coding, payload))
			return
		}
		parts = append(parts, sectionOf(kind, flags, coding, payload))
	}
	if g != nil {
		add(typeSeal, critical, 0, make([]byte, idBytes))
	}
	for rest := stream[headerBytes:]; len(rest) >= sectionBytes && string(rest[:4]) != typeEnd; {
		length := min(le.Uint64(rest[8:]), uint64(len(rest)-sectionBytes))
		add(string(rest[:4]), rest[4], rest[5], rest[sectionBytes:][:length])
		rest = rest[sectionBytes+length:]
	}
	add(typeEnd, critical, 0, endOf(parts))
	return bytes.Join(parts, nil)
}

// sealedSection is a section that is sealed and whose sums are right.
func sealedSection(t testing.TB, g *guard, number int, kind string, flags, coding byte, payload []byte) []byte {
	s := section{kind: kind, flags: flags, coding: coding | sealed, length: uint64(len(payload) + sealBytes)}
	head := s.encode()
	payload, err := g.seal(nil, number, &head, [][]byte{payload})
	require.NoError(t, err)
	return sectionOf(kind, flags, s.coding, payload)
}
