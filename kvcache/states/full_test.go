package states

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var errDisk = errors.New("the disk fails")

// faults is a disk on which something else happens at one change of a file. Changes are counted from 1.
type faults struct {
	on     disk
	mu     sync.Mutex
	done   int
	at     int
	seen   []string // what they were, of which files
	happen func(c change) error
}

// change is one of a file.
type change struct {
	what string
	path string       // of the file
	half func() error // does half of it
	all  func() error
}

func (f *faults) step(c change) error {
	f.mu.Lock()
	f.done++
	due := f.done == f.at
	f.seen = append(f.seen, c.what+" "+filepath.Base(filepath.Dir(c.path)))
	f.mu.Unlock()
	if due {
		return f.happen(c)
	}
	return c.all()
}

func (f *faults) disk() *disk {
	d, none := f.on, func() error { return nil }
	d.create = func(path string) (out *os.File, err error) {
		err = f.step(change{"create", path, none, func() (err error) { out, err = f.on.create(path); return err }})
		return out, err
	}
	d.write = func(file *os.File, b []byte) error {
		half := func() error { return f.on.write(file, b[:len(b)/2]) }
		return f.step(change{"write", file.Name(), half, func() error { return f.on.write(file, b) }})
	}
	d.rename = func(from, to string) error {
		return f.step(change{"rename", to, none, func() error { return f.on.rename(from, to) }})
	}
	d.remove = func(path string) error {
		return f.step(change{"remove", path, none, func() error { return f.on.remove(path) }})
	}
	return &d
}

// fails is a change that is done by half and fails.
func fails(c change) error { return errors.Join(errDisk, c.half()) }

// Wherever in a Put the disk is full, or fails, the state of before is there, no more is stored than that, and the call works when there is room
// again; and a process that ends there leaves the same.
func TestFullDisk(t *testing.T) {
	before, after := noise(1, 3000), append(noise(1, 2500), noise(2, 3000)...)
	for at := 1; ; at++ {
		f := &faults{on: quick, happen: fails}
		s := open(t, t.TempDir()+"/d", Options{disk: f.disk()})
		info := put(t, s, numbered(1), before)
		was := s.Stats()
		f.done, f.at = 0, at
		_, err := s.Put(ctx, numbered(1), PutOptions{}, sources([][]byte{after})...)
		if err == nil {
			require.Greater(t, at, 10)
			if f.done < at {
				return
			}
			requireState(t, s, info.ID, after)
			before = after
		} else {
			require.ErrorIs(t, err, errDisk)
			requireState(t, s, info.ID, before)
			require.Equal(t, was.Bytes, s.Stats().Bytes)
			if at%3 == 0 {
				require.NoError(t, s.Pin(info.ID, true)) // any call goes on with what could not be removed
				requireTidy(t, s)
			}
			if at%2 == 0 {
				put(t, s, numbered(1), after)
				requireState(t, s, info.ID, after)
				before = after
			}
		}
		s = reopen(t, s, Options{})
		requireState(t, s, info.ID, before)
		requireTidy(t, s)
		before = noise(1, 3000)
	}
}

// A pack of which a chunk was written by half, or that could not be finished, is never finished, whoever goes on with it: places in it are not where
// they would be said to be. All are told the same reason.
func TestFailedPack(t *testing.T) {
	for at := 2; ; at++ {
		f := &faults{on: quick, happen: fails}
		s := open(t, t.TempDir()+"/d", Options{disk: f.disk(), Bytes: 64 * blockBytes})
		to, w := &packer{s: s, reserve: s.reserve}, s.work("a")
		f.done, f.at = 0, at
		failed := false
		for n := range uint64(12) { // of which two packs are made
			_, err := s.keep(w, to, noise(n, 1000), make([]byte, 1000))
			if failed = failed || err != nil; failed {
				require.ErrorIs(t, err, errDisk)
			}
		}
		s.release(w)
		if !failed {
			require.Greater(t, at, 12)
			return
		}
		packs := len(s.packs)
		require.ErrorIs(t, to.close(), errDisk)
		to.abandon()
		require.Len(t, s.packs, packs)
	}
}

// A Delete that fails leaves the state, and can be called again; likewise Pin.
func TestFailures(t *testing.T) {
	f := &faults{on: quick, happen: func(change) error { return errDisk }}
	s := open(t, t.TempDir()+"/d", Options{disk: f.disk()})
	info := put(t, s, numbered(1), noise(1, 1000))
	for _, call := range []func() error{
		func() error { return s.Delete(info.ID) },
		func() error { _, err := s.Clear(llama.Salt); return err },
		func() error { return s.Pin(info.ID, true) },
	} {
		f.at = f.done + 1
		require.ErrorIs(t, call(), errDisk)
		requireState(t, s, info.ID, noise(1, 1000))
		require.Zero(t, s.Stats().Pinned)
		requireTidy(t, s)
	}
	require.NoError(t, s.Delete(info.ID))
	requireTidy(t, s)
}

// A pack that cannot be removed goes with a later call, whichever it is.
func TestRemovedLater(t *testing.T) {
	f := &faults{on: quick, happen: func(change) error { return errDisk }}
	s := open(t, t.TempDir()+"/d", Options{disk: f.disk()})
	info := put(t, s, numbered(1), noise(1, 1000))
	f.at = f.done + 2 // after the manifest
	require.NoError(t, s.Delete(info.ID))
	require.Len(t, s.dead, 1)
	require.False(t, has(t, s, 1))
	requireTidy(t, s)
	require.Zero(t, s.Stats().Bytes)
}

// A context that ends between two chunks ends a call there, as any other failure does.
func TestCancelled(t *testing.T) {
	f := &faults{on: quick}
	s := open(t, t.TempDir()+"/d", Options{disk: f.disk()})
	content := noise(1, 5000)
	for at := 1; at <= len(small.cuts(content)); at++ {
		going, cancel := context.WithCancel(ctx)
		f.done, f.at = 0, at
		f.happen = func(c change) error { cancel(); return c.all() }
		_, err := s.Put(going, numbered(1), PutOptions{}, sources([][]byte{content, content})...)
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, s.Stats().States)
		requireTidy(t, s)
	}
	f.at = 0
	info := put(t, s, numbered(1), content)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, err := s.Get(gone, info.ID, nil)
	require.ErrorIs(t, err, context.Canceled)
	requireState(t, s, info.ID, content)
}

// A file that cannot be read, for whatever passes, gives up nothing.
func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads all")
	}
	s := open(t, t.TempDir()+"/d", Options{})
	info := put(t, s, numbered(1), noise(1, 100))
	path := s.chunks[s.states[info.ID].chunks[0][0].Sum].pack.path
	require.NoError(t, os.Chmod(path, 0o200))
	_, err := s.Get(ctx, info.ID, nil)
	require.ErrorIs(t, err, os.ErrPermission)
	require.NoError(t, os.Chmod(path, 0o600))
	requireState(t, s, info.ID, noise(1, 100))
}

// What a Durable store has said that it has is on the medium: each file before it has its name, and the names of packs before that of the manifest.
func TestDurable(t *testing.T) {
	for _, durable := range []bool{true, false} {
		steps := []string{}
		step := func(what, path string) {
			if in := filepath.Base(filepath.Dir(path)); in == "packs" || in == "states" {
				steps = append(steps, what+" "+in)
			}
		}
		on := quick
		on.flush = func(f *os.File) error { step("flush", f.Name()); return nil }
		on.rename = func(from, to string) error { step("rename", to); return quick.rename(from, to) }
		on.sync = func(dir string) error { step("sync", filepath.Join(dir, "it")); return nil }
		s := open(t, t.TempDir()+"/d", Options{disk: &on, Durable: durable})
		put(t, s, numbered(1), noise(1, 3000))
		want := []string{"flush packs", "rename packs", "sync packs", "flush states", "rename states", "sync states"}
		if !durable {
			want = []string{"rename packs", "rename states"}
		}
		require.Equal(t, want, steps)
		steps = steps[:0]
		require.NoError(t, s.Delete(namer{}.id(ptr(numbered(1)))))
		require.Equal(t, []string{"sync states"}, steps)
	}
}
