package snapshot

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot/zstd"
	zst "github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// refusedSecret is a stream that is refused for its secret alone, in words that say nothing of one.
func refusedSecret(t *testing.T, stream []byte, o Options, words string) {
	t.Helper()
	r := NewReader(bytes.NewReader(stream), o)
	_, err := r.Head()
	var e ErrMismatch
	require.ErrorAs(t, err, &e)
	require.Equal(t, "secret", e.Field)
	require.ErrorContains(t, err, words)
	for _, s := range [][]byte{secret, o.Secret} {
		require.True(t, len(s) == 0 || !strings.Contains(err.Error(), string(s[:4])))
	}
	_, again := r.Chunk()
	require.Equal(t, err, again)
}

// A stream is read with the secret that it was sealed with, and in no other way; one in the clear only without.
func TestSecrets(t *testing.T) {
	clear, hidden := write(t, sample(), Options{}), write(t, sample(), Options{Secret: secret})
	other := bytes.Clone(secret)
	other[31] ^= 1
	refusedSecret(t, hidden, Options{}, "give the secret")
	refusedSecret(t, hidden, Options{Secret: other}, "not sealed with it")
	refusedSecret(t, clear, Options{Secret: secret}, "in the clear")
	refusedSecret(t, put(t, sample(), 1, "ZZZZ", 0, 0), Options{Secret: secret}, "in the clear")
	for _, n := range []int{0, 16, 31, 33} {
		var b bytes.Buffer
		o := Options{Secret: make([]byte, n)}
		w := NewWriter(&b, o)
		var e backend.ErrConfig
		require.ErrorAs(t, w.Head(sample()), &e)
		require.Equal(t, "Secret", e.Name)
		require.ErrorAs(t, w.Chunk(0, 1, nil), &e)
		require.ErrorAs(t, w.Close(), &e)
		require.Zero(t, b.Len())
		r := NewReader(bytes.NewReader(hidden), o)
		_, err := r.Head()
		require.ErrorAs(t, err, &e)
		require.Zero(t, r.Bytes())
	}
}

// Nothing of what was said can be seen in a stream that is sealed, and no bytes are those of another one.
func TestSealedSaysNothing(t *testing.T) {
	for _, o := range codings[2:] {
		stream, second := cut(t, write(t, sample(), o)), cut(t, write(t, sample(), o))
		all := bytes.Join(stream, nil)
		for _, is := range []string{"ferrumkv content", "salt", "dog", "example.org", "hello"} {
			require.NotContains(t, string(all), is)
		}
		for _, c := range chunks(sample()) {
			require.True(t, len(c.Rows) < 8 || !bytes.Contains(all, c.Rows[:8]))
		}
		require.Len(t, second, len(stream))
		for i := 1; i < len(stream); i++ {
			require.NotEqual(t, stream[i][sectionBytes:][:24], second[i][sectionBytes:][:24])
			require.NotEqual(t, stream[i][sectionBytes+24:], second[i][sectionBytes+24:])
			require.NotZero(t, stream[i][5]&sealed)
		}
	}
}

// Who changes a sealed stream, makes its sums right and has no secret is found out by the section that he changed.
func TestSealedCannotBeForged(t *testing.T) {
	for _, o := range codings[2:] {
		parts, others := cut(t, write(t, sample(), o)), cut(t, write(t, sample(), o))
		for i := 1; i < len(parts); i++ {
			part := parts[i]
			refused := func(what string, with []byte) {
				t.Helper()
				stream := bytes.Join(slices.Replace(slices.Clone(parts), i, i+1, with), nil)
				_, _, err := readAll(bytes.NewReader(stream), o)
				if i == 1 && what != "head" {
					require.ErrorIs(t, err, ErrMismatch{})
					require.ErrorContains(t, err, "not sealed with it")
					return
				}
				require.ErrorIs(t, err, ErrCorrupt{}, "%q %s", part[:4], what)
				if what != "head" {
					require.ErrorContains(t, err, "not sealed as this section")
				}
				var e ErrCorrupt
				require.ErrorAs(t, err, &e)
				require.EqualValues(t, len(bytes.Join(parts[:i], nil)), e.Offset)
			}
			again := func(change func(p []byte)) []byte {
				p := bytes.Clone(part)
				change(p)
				return sectionOf(string(p[:4]), p[4], p[5], p[sectionBytes:])
			}
			for at := sectionBytes; at < len(part); at++ {
				refused("payload", again(func(p []byte) { p[at] ^= 1 << (at % 8) }))
			}
			refused("shorter", again(func(p []byte) { copy(p[sectionBytes:], p[sectionBytes+1:]) }))
			if i > 1 {
				refused("of another stream", others[i])
				if i > 2 {
					refused("of another place", parts[i-1])
				}
				for n := range sealBytes {
					refused("too short", sectionOf(string(part[:4]), part[4], part[5], part[sectionBytes:][:n]))
				}
				refused("compressed or not", again(func(p []byte) { p[5] ^= compressed }))
				refused("head", again(func(p []byte) { p[5] = 0 }))
			}
		}
		// A stream that goes on as another one does, from any section on.
		for i := 2; i < len(parts); i++ {
			_, _, err := readAll(bytes.NewReader(bytes.Join(append(parts[:i:i], others[i:]...), nil)), o)
			require.ErrorContains(t, err, "not sealed as this section")
		}
		// One whose sections nobody sealed.
		plain := cut(t, write(t, sample(), Options{}))
		_, _, err := readAll(bytes.NewReader(bytes.Join(append(parts[:2:2], plain[1:]...), nil)), o)
		require.ErrorIs(t, err, ErrCorrupt{})
		require.ErrorContains(t, err, "in the clear")
		_, _, err = readAll(bytes.NewReader(ended(append(append(plain[:5:5], parts[6]), plain[5:]...))), Options{})
		require.ErrorIs(t, err, ErrCorrupt{})
		require.ErrorContains(t, err, "it is sealed")
	}
}

// Who has the secret and begins a stream in another way is refused, too.
func TestSealThatCannotBe(t *testing.T) {
	first := header()
	for _, n := range []int{0, idBytes - 1, idBytes, idBytes + 1} {
		g, err := (&Options{Secret: secret}).guard()
		require.NoError(t, err)
		for _, s := range [][]byte{sealedSection(t, g, 0, typeSeal, critical, 0, make([]byte, n)), sealedSection(t, g, 0, typeSeal, 0, 0, make([]byte, idBytes)),
			sealedSection(t, g, 0, typeSeal, critical, compressed, make([]byte, n)), sectionOf(typeSeal, critical, 0, make([]byte, n))} {
			if n == idBytes && s[4] == critical && s[5] == sealed {
				continue
			}
			_, err := NewReader(bytes.NewReader(append(first[:], s...)), Options{Secret: secret}).Head()
			require.ErrorIs(t, err, ErrCorrupt{})
			require.NotErrorIs(t, err, io.ErrUnexpectedEOF)
		}
	}
}

// oneChunk is a head with a chunk of so many bytes.
func oneChunk(bytes int) *Head {
	h := sample()
	h.Strips = []Strip{{Kind: State, Tokens: 1, Layers: []Layer{{0, []Plane{{States, PerLayer, 1, bytes}}}}}}
	h.Sequences = []Sequence{{Len: 1, Next: 1, Strips: [][]Run{{{0, []Ref{{0, 1}}}}}}}
	return h
}

// Chunks are compressed where that saves something, and not more than a reader believes. Nothing else decides.
func TestCompressedWhereItSaves(t *testing.T) {
	random, half := make([]byte, 1<<20), make([]byte, 1<<20)
	for i := range random {
		random[i] = byte(rand.Uint32())
		if i%16 < 8 {
			half[i] = random[i]
		}
	}
	for _, c := range []struct {
		what string
		rows []byte
		is   bool
	}{
		{"nothing", nil, false}, // is left out below
		{"bytes of anything", random, false}, {"few bytes of anything", random[:100], false}, {"one", []byte{1}, false},
		{"half of them zeros", half, true}, {"the same, a few", half[:4096], true},
		{"zeros, which are one in a thousand", make([]byte, 1<<20), false}, {"few zeros", make([]byte, 1000), true},
		{"zeros behind", append(slices.Clone(random[:1<<18]), make([]byte, 1<<19)...), true},
	}[1:] {
		var last []byte
		for _, before := range [][]byte{nil, random, half} { // on other chunks neither
			s := shrinker{Compressor: codings[1].Compressor}
			_, err := s.shrink([][]byte{before})
			require.NoError(t, err)
			got, err := s.shrink([][]byte{{1, 2}, c.rows})
			require.NoError(t, err)
			got = bytes.Clone(got)
			require.True(t, c.is || len(c.rows) < 1<<20 || c.rows[0] == 0 || len(s.room) < 3*samples*sampleBytes, "tried in a few places")
			require.Equal(t, c.is, got != nil, c.what)
			require.True(t, before == nil || bytes.Equal(last, got))
			require.Less(t, len(got), len(c.rows)+2)
			last = got
		}
		stream := rewritten(t, oneChunk(len(c.rows)), []Chunk{{0, 0, 1, c.rows}}, codings[1])
		parts := cut(t, stream)
		require.Equal(t, c.is, parts[len(parts)-2][5] == compressed)
		_, all, err := readAll(bytes.NewReader(stream), codings[1])
		require.NoError(t, err)
		require.Equal(t, c.rows, all[0].Rows)
	}
}

// Who gives no compressor is told of it.
func TestCompressedNeedsCompressor(t *testing.T) {
	for _, o := range codings {
		stream := write(t, sample(), o)
		r := NewReader(bytes.NewReader(stream), Options{Secret: o.Secret})
		_, err := r.Head() // the first chunk is read by then, which is one that is compressed
		for err == nil {
			_, err = r.Chunk()
		}
		if o.Compressor == nil {
			require.Equal(t, io.EOF, err)
			continue
		}
		var e ErrMismatch
		require.ErrorAs(t, err, &e)
		require.Equal(t, "compression", e.Field)
		require.ErrorContains(t, err, "kvcache/snapshot/zstd")
		_, again := r.Chunk()
		require.Equal(t, err, again)
	}
}

// broken is a compressor that fails, or says what is not so.
type broken struct {
	zstd.Compressor
	err error
	off int // bytes that it gives more
}

func (b broken) Compress(dst, plain []byte) ([]byte, error) {
	dst, _ = b.Compressor.Compress(dst, plain)
	return dst, b.err
}

func (b broken) Decompress(dst, frame []byte) ([]byte, error) {
	dst, _ = b.Compressor.Decompress(dst, frame)
	return dst[:len(dst)+b.off], b.err
}

// A compressor that fails is the end of a stream that is written, and of one that is read.
func TestCompressorFails(t *testing.T) {
	fails := errors.New("no")
	for _, rows := range [][]byte{make([]byte, 1000), make([]byte, 1<<20)} {
		w := NewWriter(io.Discard, Options{Compressor: broken{err: fails}})
		require.NoError(t, w.Head(oneChunk(len(rows))))
		require.Equal(t, fails, w.Chunk(0, 1, rows))
		require.Equal(t, fails, w.Close())
	}
	stream := rewritten(t, oneChunk(1000), []Chunk{{0, 0, 1, make([]byte, 1000)}}, codings[1])
	for _, c := range []broken{{err: fails}, {off: -1}} {
		_, _, err := readAll(bytes.NewReader(stream), Options{Compressor: c})
		require.ErrorIs(t, err, ErrCorrupt{})
		require.ErrorContains(t, err, "what was compressed")
	}
}

// bomb is a stream with a chunk that says that it has n bytes, and a frame.
func bomb(t *testing.T, n int, frame []byte) []byte {
	parts := cut(t, rewritten(t, oneChunk(n-8), []Chunk{{0, 0, 1, nil}}, Options{}))
	parts[len(parts)-2] = sectionOf(typeChunk, critical, compressed, append(le.AppendUint32(nil, uint32(n)), frame...))
	return ended(parts)
}

// A few bytes that become many, or are no frame of as many as they say, are refused, and no memory is taken for what they would become.
func TestBombs(t *testing.T) {
	e, err := zst.NewWriter(nil, zst.WithEncoderConcurrency(1))
	require.NoError(t, err)
	const many = 256 << 20
	large := e.EncodeAll(make([]byte, many), nil)
	var unsaid bytes.Buffer // a frame that does not say how long it is
	e.Reset(&unsaid)
	_, err = io.Copy(e, io.LimitReader(zeros{}, many))
	require.NoError(t, err)
	require.NoError(t, e.Close())
	require.Less(t, len(large)+unsaid.Len(), 100_000)
	rows := append([]byte{0, 0, 0, 0, 1, 0, 0, 0}, make([]byte, 992)...)
	frame := e.EncodeAll(rows, nil)
	taken := bomb(t, len(rows), frame)
	_, all, err := readAll(bytes.NewReader(taken), codings[1])
	require.NoError(t, err)
	require.Equal(t, rows[8:], all[0].Rows)
	wide := append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0xf8}, make([]byte, 200)...) // a window of 2⁴¹ bytes
	whole := append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0}, bytes.Repeat([]byte{0xff}, 200)...)
	for what, stream := range map[string][]byte{
		"says all":                 bomb(t, many, large),
		"says all, unsaid inside":  bomb(t, many, unsaid.Bytes()),
		"says what it may":         bomb(t, mostShrunk*len(large), large),
		"says what it may, unsaid": bomb(t, mostShrunk*unsaid.Len(), unsaid.Bytes()),
		"says few":                 bomb(t, 1000, large),
		"says few, unsaid":         bomb(t, 1000, unsaid.Bytes()),
		"says one more":            bomb(t, len(rows)+1, frame),
		"says one less":            bomb(t, len(rows)-1, frame),
		"another frame behind":     bomb(t, len(rows), append(slices.Clone(frame), frame...)),
		"cut off":                  bomb(t, len(rows), frame[:len(frame)-1]),
		"bytes behind":             bomb(t, len(rows), append(slices.Clone(frame), 1)),
		"a window of all memory":   bomb(t, 1000, wide),
		"a size of all memory":     bomb(t, 1000, whole),
		"no frame":                 bomb(t, 1000, make([]byte, 100)),
		"nothing":                  bomb(t, 1000, nil),
	} {
		require.LessOrEqual(t, allocated(func() {
			_, _, err := readAll(bytes.NewReader(stream), codings[1])
			require.ErrorIs(t, err, ErrCorrupt{}, what)
			require.ErrorContains(t, err, "what was compressed", what)
		}), mayAllocate(stream), what)
	}
	// What is small next to chunks is not compressed, so that few bytes do not become a head of many.
	parts := cut(t, write(t, sample(), Options{}))
	for i := 1; i < len(parts); i++ {
		if p := parts[i]; string(p[:4]) != typeChunk {
			_, _, err := readAll(bytes.NewReader(bytes.Join(slices.Replace(slices.Clone(parts), i, i+1, sectionOf(string(p[:4]), p[4], compressed, frame)), nil)), Options{})
			require.ErrorContains(t, err, "only chunks are")
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// Streams that are left, wherever, leave no goroutines.
func TestNoGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 10 {
		stream := write(t, sample(), codings[3])
		_, _, err := readAll(bytes.NewReader(stream), codings[3])
		require.NoError(t, err)
		_, _, err = readAll(bytes.NewReader(stream[:len(stream)-100]), codings[3])
		require.Error(t, err)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
}

// Files of version 1 that are compressed, and sealed, are read.
func TestVersion1Coded(t *testing.T) {
	for path, o := range map[string]Options{
		"testdata/version1-zstd.snap":        codings[1],
		"testdata/version1-sealed.snap":      codings[2],
		"testdata/version1-zstd-sealed.snap": codings[3],
	} {
		golden, err := os.ReadFile(path)
		if os.Getenv("FERRUM_TEST_GOLDEN") == "write" {
			if _, _, bad := readAll(bytes.NewReader(golden), o); bad != nil { // nonces are others each time
				golden, err = write(t, sample(), o), nil
				require.NoError(t, os.WriteFile(path, golden, 0o644))
			}
		}
		require.NoError(t, err)
		h, rows, err := readAll(bytes.NewReader(golden), o)
		require.NoError(t, err)
		require.Equal(t, sample(), h)
		require.Equal(t, chunks(h), rows)
		text, err := os.ReadFile("testdata/version1.txt")
		require.NoError(t, err)
		require.Equal(t, string(text), describe(h, rows))
		shrunk := 0
		for _, p := range cut(t, golden)[1:] {
			require.Equal(t, o.Secret != nil, p[5]&sealed != 0)
			shrunk += int(p[5] & compressed)
		}
		require.Equal(t, o.Compressor != nil, shrunk > 0)
	}
}

// What no reader would take is not written.
func TestWriterRefusesLongSections(t *testing.T) {
	part := make([]byte, 1<<28) // never touched
	for _, o := range codings {
		var b bytes.Buffer
		w := NewWriter(&b, o)
		require.NoError(t, w.Head(sample()))
		require.ErrorIs(t, w.section(typeChunk, critical, part, part, part, part, part, part, part, part), backend.ErrArgument{})
		require.ErrorIs(t, w.Close(), backend.ErrArgument{})
		_, _, err := readAll(bytes.NewReader(b.Bytes()), o)
		require.ErrorIs(t, err, ErrCorrupt{})
	}
}
