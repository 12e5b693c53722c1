package states

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// damages are what may become of a file.
var damages = map[string]func(path string, b []byte) error{
	"missing": func(path string, _ []byte) error { return os.Remove(path) },
	"shorter": func(path string, b []byte) error { return os.WriteFile(path, b[:len(b)-1], 0o600) },
	"longer":  func(path string, b []byte) error { return os.WriteFile(path, append(b, 0), 0o600) },
	"empty":   func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o600) },
	"huge":    func(path string, _ []byte) error { return os.Truncate(path, 1<<40) },
	"another": func(path string, b []byte) error {
		return os.WriteFile(path, append(b[:len(b)/2:len(b)/2], make([]byte, len(b)-len(b)/2)...), 0o600)
	},
	"flipped": func(path string, b []byte) error { b[len(b)/3] ^= 4; return os.WriteFile(path, b, 0o600) },
	"tail":    func(path string, b []byte) error { b[len(b)-1] ^= 0x80; return os.WriteFile(path, b, 0o600) },
}

// Whatever becomes of a pack, wrong bytes are not read: states are given up, others go on, and a Put of the same bytes mends those that share
// them, in whichever order.
func TestDamagedPack(t *testing.T) {
	forVariants(t, func(t *testing.T, o Options) {
		content, other := noise(1, 1500), noise(2, 3000)
		for what, damage := range damages {
			s := open(t, t.TempDir()+"/d", o)
			a, b, c := put(t, s, numbered(1), content), put(t, s, numbered(2), content), put(t, s, numbered(3), other)
			for number := range 2 {
				path := s.chunks[s.states[a.ID].chunks[0][number].Sum].pack.path
				have, err := os.ReadFile(path)
				require.NoError(t, err)
				require.NoError(t, damage(path, have))
				harmless := what == "shorter" || what == "longer" || what == "tail" || what == "huge" // until the next Open: it is the index
				if number == 0 && !harmless {                                                         // who reads it finds out
					room := make([]byte, 1500)
					for i := range room {
						room[i] = 1
					}
					got, err := s.Get(ctx, a.ID, room)
					require.ErrorIs(t, err, ErrDamaged{}, what)
					require.Equal(t, a.ID, err.(ErrDamaged).ID)
					require.ErrorContains(t, err, "chunk ")
					require.Nil(t, got)
					require.Equal(t, make([]byte, 1500), room)
					_, err = s.Get(ctx, a.ID, nil)
					require.ErrorIs(t, err, ErrMiss{})
				}
				put(t, s, numbered(1), content) // nil is that it is there
				requireState(t, s, a.ID, content)
				requireState(t, s, b.ID, content)
				requireState(t, s, c.ID, other)
				if harmless {
					require.NoError(t, os.WriteFile(path, have, 0o600))
				}
			}
			require.NoError(t, s.Close())
		}
	})
}

// Each chunk that is damaged is found and mended by itself, and what is dead then goes.
func TestDamagedChunk(t *testing.T) {
	forVariants(t, func(t *testing.T, o Options) {
		content, other := noise(1, 3000), noise(2, 3000)
		s := open(t, t.TempDir()+"/d", o)
		a, b := put(t, s, numbered(1), content), put(t, s, numbered(2), content)
		c := put(t, s, numbered(3), other)
		for number, chunk := range s.states[a.ID].chunks[0] {
			flip(t, s, chunk.Sum)
			if number%2 == 0 {
				_, err := s.Get(ctx, a.ID, nil)
				require.ErrorIs(t, err, ErrDamaged{})
				require.ErrorContains(t, err, chunk.Sum.String())
			}
			before := s.Stats().Written
			put(t, s, numbered(1), content)
			require.Equal(t, int64(chunk.Bytes), s.Stats().Written-before)
			requireState(t, s, a.ID, content)
			requireState(t, s, b.ID, content)
			requireState(t, s, c.ID, other)
			requireTidy(t, s)
		}
		s = reopen(t, s, o)
		requireState(t, s, b.ID, content)
	})
}

// What a Put mends is mended when the directory is opened again, also where it was begun before what is damaged was put.
func TestMendedByAnEarlierPut(t *testing.T) {
	s := open(t, t.TempDir()+"/d", Options{})
	content, other := noise(1, 3000), noise(2, 40_000)
	var later Info
	rest := content
	_, err := s.Put(ctx, numbered(1), PutOptions{}, Source{names[0], bytes.NewReader(other)}, Source{names[1], readerFunc(func(b []byte) (int, error) {
		if later.Bytes == 0 {
			require.Eventually(t, func() bool { return s.Stats().Written > 0 }, time.Minute, time.Millisecond)
			later = put(t, s, numbered(2), content)
			s.mu.Lock()
			name := s.states[later.ID].chunks[0][0].Sum
			s.mu.Unlock()
			flip(t, s, name)
		}
		n := copy(b, rest)
		if rest = rest[n:]; n == 0 {
			return 0, io.EOF
		}
		return n, nil
	})})
	require.NoError(t, err)
	requireState(t, s, later.ID, content)
	s = reopen(t, s, Options{})
	requireState(t, s, later.ID, content)
}

// Likewise where it mends what is copied meanwhile, as it was, into a pack that is finished later.
func TestMendedWhileRewritten(t *testing.T) {
	on, meanwhile := quick, func() {}
	on.write = func(f *os.File, b []byte) error { meanwhile(); return quick.write(f, b) }
	s := open(t, t.TempDir()+"/d", Options{disk: &on})
	whole := noise(1, 60_000)
	all, part := put(t, s, numbered(1), whole), put(t, s, numbered(2), whole[:8000])
	flip(t, s, s.states[part.ID].chunks[0][0].Sum)
	writes := 0
	meanwhile = func() {
		if writes++; writes == 5 { // the first chunk was copied
			meanwhile = func() {}
			put(t, s, numbered(2), whole[:8000])
		}
	}
	require.NoError(t, s.Delete(all.ID))
	require.Equal(t, 5, writes)
	requireState(t, s, part.ID, whole[:8000])
	s = reopen(t, s, Options{})
	requireState(t, s, part.ID, whole[:8000])
}

// A state whose pack is lost while nobody has the directory open is whole, or a miss, or given up when it is read.
func TestDamagedBetween(t *testing.T) {
	for what, damage := range damages {
		s := open(t, t.TempDir()+"/d", Options{})
		a, b := put(t, s, numbered(1), noise(1, 3000)), put(t, s, numbered(2), noise(2, 3000))
		path := s.chunks[s.states[a.ID].chunks[0][1].Sum].pack.path
		have, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, damage(path, have))
		s = reopen(t, s, Options{Bytes: 1 << 20})
		_, err = s.Get(ctx, a.ID, nil)
		if what == "flipped" {
			require.ErrorIs(t, err, ErrDamaged{}, what)
		} else {
			require.ErrorIs(t, err, ErrMiss{}, what)
		}
		require.Equal(t, uint64(1), s.Stats().Damaged)
		requireState(t, s, b.ID, noise(2, 3000))
		requireTidy(t, s)
	}
}

// A manifest that is torn or changed anywhere is its state's alone.
func TestDamagedManifest(t *testing.T) {
	forVariants(t, func(t *testing.T, o Options) {
		for what, damage := range damages {
			s := open(t, t.TempDir()+"/d", o)
			a, b := put(t, s, numbered(1), noise(1, 3000)), put(t, s, numbered(2), noise(2, 3000))
			path := s.manifestPath(a.ID)
			have, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, damage(path, have))
			s = reopen(t, s, o)
			_, err = s.Get(ctx, a.ID, nil)
			require.ErrorIs(t, err, ErrMiss{}, what)
			requireState(t, s, b.ID, noise(2, 3000))
			requireTidy(t, s)
			require.NoError(t, s.Close())
		}
	})
}

// The manifest of one state is not that of another, whose file it is in; nor is a pack.
func TestInAnothersPlace(t *testing.T) {
	forVariants(t, func(t *testing.T, o Options) {
		s := open(t, t.TempDir()+"/d", o)
		a, b := put(t, s, numbered(1), noise(1, 3000)), put(t, s, numbered(2), noise(2, 3000))
		require.NoError(t, os.Rename(s.manifestPath(a.ID), s.manifestPath(b.ID)))
		s = reopen(t, s, o)
		require.Zero(t, s.Stats().States)
		requireTidy(t, s)
		a, b = put(t, s, numbered(1), noise(1, 200)), put(t, s, numbered(2), noise(2, 200))
		path := func(id ID) string { return s.chunks[s.states[id].chunks[0][0].Sum].pack.path }
		require.NoError(t, os.Rename(path(a.ID), path(b.ID)))
		_, err := s.Get(ctx, b.ID, nil)
		require.ErrorIs(t, err, ErrDamaged{})
	})
}

// What is not the store's stays, wherever it lies and however it is named, and Open says nothing about it.
func TestForeignFiles(t *testing.T) {
	s := open(t, t.TempDir()+"/d", Options{})
	a := put(t, s, numbered(1), noise(1, 3000))
	digits := strings.Repeat("ab", 32)
	foreign := []string{
		"notes.txt", "packs/notes.txt", "packs/a/notes", "packs/0123456789abcdef", "packs/.0123456789abcdef.pack", "packs/0123456789ABCDEF.pack", "packs/123.pack", "packs/ffffffffffffffff.pack",
		"packs/0123456789abcdef.pack.old", "packs/" + digits, "states/notes", "states/" + digits + ".bak", "states/x.1.new", "packs/0123456789abcdef.pack.x.new",
		"meta.json.old", "packs/fedcba9876543210.pack/inside", "chunks/a/" + digits,
		"packs/fedcba9876543210.pack.1.new/inside", "states/" + strings.Repeat("cd", 32) + "/inside", "states/" + digits + ".1.new/inside",
	}
	for _, name := range foreign {
		path := filepath.Join(s.dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	}
	leftover := []string{"states/" + digits + ".17.new", "packs/0123456789abcdef.pack.18.new", "packs/0123456789abcdef.pack"}
	for _, name := range leftover {
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, filepath.FromSlash(name)), []byte("theirs"), 0o600))
	}
	s = reopen(t, s, Options{})
	requireState(t, s, a.ID, noise(1, 3000))
	require.NoError(t, s.Delete(a.ID))
	for _, name := range foreign {
		b, err := os.ReadFile(filepath.Join(s.dir, filepath.FromSlash(name)))
		require.NoError(t, err, name)
		require.Equal(t, "mine", string(b))
	}
	for _, name := range leftover {
		require.NoFileExists(t, filepath.Join(s.dir, filepath.FromSlash(name)))
	}
}
