package states

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// packsOf are the packs of a state.
func packsOf(s *Store, id ID) map[*pack]bool {
	out := map[*pack]bool{}
	s.states[id].each(func(c chunk) { out[s.chunks[c.Sum].pack] = true })
	return out
}

// While a pack is rewritten what is used of it can be read, at each step; and a step that fails leaves it as it was.
func TestReadWhileRewritten(t *testing.T) {
	kept, whole := noise(1, 10_000), noise(1, 60_000)
	for at := 1; ; at++ {
		var s *Store
		var info Info
		steps := []string{}
		f := &faults{on: quick, happen: fails}
		on := f.disk()
		read := func(step, path string) {
			if s != nil && filepath.Base(filepath.Dir(path)) == "packs" {
				steps = append(steps, step)
				requireState(t, s, info.ID, kept)
			}
		}
		create, write, rename, remove := on.create, on.write, on.rename, on.remove
		on.flush = func(f *os.File) error { read("flush", f.Name()); return nil }
		on.sync = func(dir string) error { read("sync", filepath.Join(dir, "it")); return nil }
		on.create = func(path string) (*os.File, error) { read("create", path); return create(path) }
		on.write = func(f *os.File, b []byte) error { read("write", f.Name()); return write(f, b) }
		on.rename = func(from, to string) error { read("rename", to); return rename(from, to) }
		on.remove = func(path string) error { read("remove", path); return remove(path) }
		made := open(t, t.TempDir()+"/d", Options{disk: on})
		first := put(t, made, numbered(1), whole)
		info = put(t, made, numbered(2), kept)
		before := made.Stats().Bytes
		s, f.done, f.at = made, 0, at+1 // after the manifest's
		require.NoError(t, s.Delete(first.ID))
		requireState(t, s, info.ID, kept)
		if f.done < f.at {
			require.Less(t, s.Stats().Bytes, before/3)
			require.Equal(t, []string{"create", "write"}, steps[:2])
			require.Equal(t, []string{"write", "flush", "rename", "sync", "remove"}, steps[len(steps)-5:], "on the medium before the old one goes")
			requireTidy(t, s)
			return
		}
		require.NoError(t, s.Pin(info.ID, true)) // what failed is done by a later call, or when the directory is opened
		s = reopen(t, s, Options{})
		require.Less(t, s.Stats().Bytes, before/3)
		requireState(t, s, info.ID, kept)
		requireTidy(t, s)
	}
}

// Where what is pinned leaves no room but what is dead, that is got back, and no more is refused than would not fit.
func TestRoomOfTheDead(t *testing.T) {
	o := Options{Bytes: 64 * blockBytes}
	s := open(t, t.TempDir()+"/d", o)
	whole := noise(1, 40*blockBytes)
	all := put(t, s, numbered(1), whole)
	require.Greater(t, len(packsOf(s, all.ID)), 10, "packs are small where the budget is")
	pinned := []byte{}
	for at := 0; at+3000 < len(whole); at += 2 * blockBytes { // a part of each pack
		pinned = append(pinned, whole[at:at+3000]...)
	}
	info, err := s.Put(ctx, numbered(2), PutOptions{Pin: true}, sources([][]byte{pinned})...)
	require.NoError(t, err)
	for n := 3; n < 20; n++ {
		content := noise(uint64(n), 20*blockBytes)
		requireState(t, s, put(t, s, numbered(n), content).ID, content)
		require.LessOrEqual(t, s.Stats().Bytes, o.Bytes)
		requireState(t, s, info.ID, pinned)
		requireTidy(t, s)
	}
	require.False(t, has(t, s, 1))
	s = reopen(t, s, o)
	requireState(t, s, info.ID, pinned)
	requireTidy(t, s)
}

// Two Puts that store the same at the same time have it each, and what is there twice goes with the first that goes; so does what a Put has that fails.
func TestSameContentAtOnce(t *testing.T) {
	content, other := noise(1, 20_000), errors.New("its end")
	for _, end := range []error{nil, other} {
		s := open(t, t.TempDir()+"/d", Options{})
		inner := Info{}
		rest := slices.Clone(content)
		_, err := s.Put(ctx, numbered(1), PutOptions{}, Source{"target", readerFunc(func(b []byte) (int, error) {
			n := copy(b, rest)
			if rest = rest[n:]; n == 0 {
				if inner.Bytes == 0 {
					inner = put(t, s, numbered(2), content)
				}
				if end != nil {
					return 0, end
				}
				return 0, io.EOF
			}
			return n, nil
		})})
		require.ErrorIs(t, err, end)
		requireState(t, s, inner.ID, content)
		requireTidy(t, s)
		if end == nil {
			require.NoError(t, s.Delete(inner.ID))
			info, err := s.Find(numbered(1))
			require.NoError(t, err)
			requireState(t, s, info.ID, content)
			requireTidy(t, s)
		}
	}
}

// Of a chunk that is in two packs, as a process leaves it that is killed while it rewrites one, either serves, and the other one goes.
func TestTwice(t *testing.T) {
	s := open(t, t.TempDir()+"/d", Options{})
	info := put(t, s, numbered(1), noise(1, 3000))
	var was *pack
	for was = range packsOf(s, info.ID) {
		b, err := os.ReadFile(was.path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(s.packPath(was.number+1), b, 0o600))
	}
	s = reopen(t, s, Options{})
	requireState(t, s, info.ID, noise(1, 3000))
	requireTidy(t, s)
	require.Len(t, s.packs, 1)
	for p := range packsOf(s, put(t, s, numbered(2), noise(2, 100)).ID) {
		require.Equal(t, was.number+2, p.number, "no name is used twice")
	}
}

// Where packs cannot be rewritten, as on a file system that syncs no files, a Put that needs room has states go instead, and ends.
func TestRoomWithoutRewriting(t *testing.T) {
	on, fails := quick, false
	on.flush = func(*os.File) error {
		if fails {
			return errDisk
		}
		return nil
	}
	s := open(t, t.TempDir()+"/d", Options{Bytes: 64 * blockBytes, disk: &on})
	whole, other := noise(1, 20*blockBytes), noise(3, 40*blockBytes)
	put(t, s, numbered(1), whole)
	put(t, s, numbered(2), whole[:13*blockBytes])
	fails = true
	require.NoError(t, s.Delete(namer{}.id(ptr(numbered(1)))))
	done := make(chan error, 1)
	go func() {
		_, err := s.Put(ctx, numbered(3), PutOptions{}, sources([][]byte{other})...)
		done <- err
	}()
	select {
	case err := <-done:
		require.NoError(t, err)
		requireState(t, s, namer{}.id(ptr(numbered(3))), other)
		require.False(t, has(t, s, 2))
		requireTidy(t, s)
	case <-time.After(20 * time.Second):
		t.Fatal("it rewrites without end")
	}
}

// A chunk that is put again while a pack is rewritten is the one that was put, and not the one that was copied there, which nobody has verified.
func TestPutWhileRewritten(t *testing.T) {
	on, meanwhile := quick, func() {}
	on.flush = func(*os.File) error { meanwhile(); return nil }
	s := open(t, t.TempDir()+"/d", Options{disk: &on})
	whole := noise(1, 60_000)
	all, part := put(t, s, numbered(1), whole), put(t, s, numbered(2), whole[:8000])
	first := s.states[part.ID].chunks[0][0]
	flip(t, s, first.Sum)
	goes, done := make(chan struct{}), make(chan error, 1)
	meanwhile = func() {
		meanwhile = func() {}
		require.NoError(t, s.Delete(part.ID))
		written := s.Stats().Written
		go func() {
			ends := readerFunc(func([]byte) (int, error) { <-goes; return 0, io.EOF })
			_, err := s.Put(ctx, numbered(2), PutOptions{}, Source{names[0], bytes.NewReader(whole[:first.Bytes])}, Source{names[1], ends})
			done <- err
		}()
		require.Eventually(t, func() bool { return s.Stats().Written > written }, time.Minute, time.Millisecond)
	}
	require.NoError(t, s.Delete(all.ID))
	close(goes)
	require.NoError(t, <-done)
	requireState(t, s, part.ID, whole[:first.Bytes], nil)
	requireTidy(t, s)
}
