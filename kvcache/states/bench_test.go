package states

import (
	"bytes"
	"crypto/sha256"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkStates saves a state of 64 MiB, saves it again when it has grown by a sixteenth, and restores it, beside a copy of a file of these bytes
// and their SHA-256.
func BenchmarkStates(b *testing.B) {
	const size = 64 << 20
	content := noise(1, size)
	s, err := Open(b.TempDir()+"/d", Options{Bytes: 1 << 30, Floor: 1, Network: true})
	require.NoError(b, err)
	defer s.Close()
	put := func(n int, content []byte) Info {
		info, err := s.Put(ctx, numbered(n), PutOptions{}, Source{"target", bytes.NewReader(content)})
		require.NoError(b, err)
		return info
	}
	b.Run("copy", func(b *testing.B) {
		from, to := b.TempDir()+"/from", b.TempDir()+"/to"
		require.NoError(b, os.WriteFile(from, content, 0o600))
		b.SetBytes(size)
		for b.Loop() {
			in, err := os.Open(from)
			require.NoError(b, err)
			out, err := os.Create(to)
			require.NoError(b, err)
			_, err = io.Copy(struct{ io.Writer }{out}, struct{ io.Reader }{in}) // through memory, as a state goes
			require.NoError(b, err)
			require.NoError(b, in.Close())
			require.NoError(b, out.Close())
		}
	})
	b.Run("sum", func(b *testing.B) { // which is a part of save and of restore
		b.SetBytes(size)
		for b.Loop() {
			sha256.Sum256(content)
		}
	})
	b.Run("save", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			b.StopTimer()
			_, err := s.Clear(llama.Salt)
			require.NoError(b, err)
			b.StartTimer()
			put(1, content)
		}
	})
	b.Run("grown", func(b *testing.B) {
		b.SetBytes(size)
		put(1, content)
		seed := uint64(1)
		for b.Loop() {
			b.StopTimer()
			seed++
			grown := append(content[:size*15/16:size*15/16], noise(seed, size/16)...)
			b.StartTimer()
			put(2, grown)
		}
	})
	b.Run("restore", func(b *testing.B) {
		info, room := put(1, content), make([]byte, size)
		b.SetBytes(size)
		b.ReportAllocs()
		for b.Loop() {
			_, err := s.Get(ctx, info.ID, room)
			require.NoError(b, err)
		}
	})
	b.Run("nearest", func(b *testing.B) {
		for n := range 50 {
			s.mu.Lock()
			s.index.add(&state{Info: Info{Key: Key{Identity: llama, Name: "n", Tokens: append(tokens(1, 30_000), uint32(n))}}})
			s.mu.Unlock()
		}
		prompt := append(tokens(1, 30_000), 7, 8, 9)
		b.ReportAllocs()
		for b.Loop() {
			_, _, err := s.Nearest(llama, prompt)
			require.NoError(b, err)
		}
	})
}
