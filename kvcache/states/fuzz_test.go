package states

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/seal"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot/zstd"
)

// Any bytes in the place of a manifest are refused, or are a state that is written as them again.
func FuzzManifest(f *testing.F) {
	st := &state{Info: Info{Key: numbered(1), Parts: []PartInfo{{"target", 100}, {"draft", 0}}}, chunks: [][]chunk{{{sum{1}, 60}, {sum{2}, 40}}, nil}}
	st.ID = namer{}.id(&st.Key)
	b, err := st.encode(nil)
	require.NoError(f, err)
	for _, n := range []int{len(b) - 32, len(b) / 2, recordHead, 0} {
		f.Add(b[min(recordHead, n):n])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		b := forged(manifestMagic, body)
		r := reader{rest: body}
		var k Key // whose ID it would be, so that what comes after is looked at
		for _, to := range []*string{&k.Model, &k.Engine, &k.Version, &k.Settings, &k.Adapter, &k.Salt, &k.Name} {
			*to = r.text()
		}
		for range r.count(4) {
			k.Tokens = append(k.Tokens, le.Uint32(r.take(4)))
		}
		st, err := decodeManifest(bytes.Clone(b), namer{}.id(&k), nil, namer{}, usual.max)
		if err != nil {
			return
		}
		total := int64(0)
		st.each(func(c chunk) {
			require.True(t, c.Bytes > 0 && c.Bytes <= usual.max)
			total += int64(c.Bytes)
		})
		require.Equal(t, st.Bytes, total)
		again, err := st.encode(nil)
		require.NoError(t, err)
		other, err := decodeManifest(again, st.ID, nil, namer{}, usual.max)
		require.NoError(t, err)
		other.size = st.size // numbers may be written in more bytes than they need
		require.Equal(t, st, other)
	})
}

// Any bytes in the place of a chunk are refused, but those that are the chunk.
func FuzzChunk(f *testing.F) {
	plain := bytes.Repeat([]byte("what was said "), 20)
	sealer, err := seal.New(secret)
	require.NoError(f, err)
	coders := []*coder{{}, {compressor: zstd.Compressor{}}, {sealer: sealer}}
	for i, c := range coders {
		c.sum = namer{}.summer("")
		b, err := c.encode(c.sum(plain), plain)
		require.NoError(f, err)
		f.Add(uint8(i), bytes.Clone(b))
		f.Add(uint8(i), b[:len(b)/2])
	}
	f.Fuzz(func(t *testing.T, n uint8, file []byte) {
		c := coders[int(n)%len(coders)]
		want := chunk{c.sum(plain), len(plain)}
		room := make([]byte, len(plain)+8)
		if len(file) <= len(plain)+sealedBytes && c.decode(want, bytes.Clone(file), room[:len(plain):len(plain)], false) == "" {
			require.Equal(t, plain, room[:len(plain)])
		}
		require.Equal(t, make([]byte, 8), room[len(plain):])
	})
}

// Any bytes in the place of a pack's index are refused, or are chunks that lie in it one after the other.
func FuzzIndex(f *testing.F) {
	entries := []entry{{chunk: chunk{sum{1}, 60}, stored: 60}, {chunk: chunk{sum{2}, 40}, stored: 10}}
	b, err := encodeIndex(entries, "p", nil)
	require.NoError(f, err)
	f.Add(b[recordHead:len(b)-36], int64(70))
	f.Add(b[recordHead:len(b)-76], int64(60))
	f.Add(b, int64(-1))
	f.Fuzz(func(t *testing.T, body []byte, before int64) {
		out, err := decodeIndex(forged(packMagic, body), "p", before, nil, 100)
		if err != nil {
			return
		}
		for _, e := range out {
			require.True(t, e.Bytes > 0 && e.Bytes <= 100 && e.stored > 0 && e.stored <= e.Bytes)
			before -= int64(e.stored)
		}
		require.Zero(t, before)
		again, err := encodeIndex(out, "p", nil)
		require.NoError(t, err)
		require.Equal(t, forged(packMagic, body), again[:len(again)-4])
	})
}

// Any bytes in the place of a pack are refused, or a pack; nothing of them is read that is not a chunk's.
func FuzzPack(f *testing.F) {
	s := open(f, f.TempDir()+"/d", Options{})
	info := put(f, s, numbered(1), noise(1, 1000))
	var path string
	for p := range packsOf(s, info.ID) {
		path = p.path
	}
	b, err := os.ReadFile(path)
	require.NoError(f, err)
	f.Add(b)
	f.Add(b[4:])
	f.Add(append(b[:700:700], 0xff, 0xff, 0xff, 0x7f))
	f.Fuzz(func(t *testing.T, b []byte) {
		require.NoError(t, os.WriteFile(path, b, 0o600))
		file, entries, size, err := s.openPack(path)
		if err != nil {
			require.ErrorAs(t, err, new(errTorn))
		} else {
			require.NoError(t, file.Close())
			require.Equal(t, int64(len(b)), size)
			for _, e := range entries {
				size -= place{stored: e.stored}.cost()
			}
			require.GreaterOrEqual(t, size, int64(0))
		}
		parts, err := s.Get(ctx, info.ID, nil)
		if err == nil {
			require.Equal(t, noise(1, 1000), parts[0].Bytes)
			return
		}
		require.ErrorIs(t, err, ErrDamaged{})
		put(t, s, numbered(1), noise(1, 1000))
		for p := range packsOf(s, info.ID) {
			path = p.path
		}
	})
}

// Any bytes in the place of meta.json are refused, or say what a directory is.
func FuzzMeta(f *testing.F) {
	f.Add([]byte(`{"format":"ferrumkv states","version":2,"sealed":false}`))
	f.Add([]byte(`{"format":"ferrumkv states","version":3}{`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := readMeta(b)
		if err != nil {
			require.Zero(t, m)
			return
		}
		if m.differs(&Store{}) == nil {
			require.Equal(t, meta{Format: metaFormat, Version: schema, Check: m.Check}, m)
		}
	})
}
