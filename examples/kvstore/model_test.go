package kvstore

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var errDisk = errors.New("the disk fails")

// history is a directory, and what it should have.
type history struct {
	path   string
	dir    *Dir
	faults *faults
	stores map[string]*Store
	disk   map[string][]byte // what is committed, by name
	seen   map[string][]byte // what an open store shows
	ready  map[string][]byte // what it has prepared; nil: nothing
}

func (h *history) reopen(t *rapid.T) {
	for name, s := range h.stores {
		require.NoError(t, s.Close())
		delete(h.stores, name)
	}
	if h.dir != nil {
		require.NoError(t, h.dir.Close())
	}
	h.dir = openDir(t, h.path, h.faults.disk())
	h.check(t)
}

func (h *history) check(t *rapid.T) {
	for name, s := range h.stores {
		requireContent(t, s, h.seen[name])
	}
	names := []string{}
	for name, b := range h.disk {
		if len(b) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	require.Equal(t, names, append([]string{}, h.dir.Names()...))
	require.Equal(t, len(names), h.dir.Stats().Names)
}

// content is like what is there already, or not: longer, shorter, changed somewhere.
func (h *history) content(t *rapid.T) []byte {
	names := []string{"a", "b", "c"}
	b := append([]byte{}, h.disk[rapid.SampledFrom(names).Draw(t, "like")]...)
	at := rapid.IntRange(0, len(b)).Draw(t, "at")
	b = slices.Insert(b, at, noise(rapid.Uint64Range(0, 3).Draw(t, "seed"), rapid.IntRange(0, 3000).Draw(t, "more"))...)
	return b[:len(b)-rapid.IntRange(0, len(b)/2).Draw(t, "less")]
}

// Random histories of three names, whose disk fails now and then, against a map.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root, err := os.MkdirTemp("", "kvstore")
		require.NoError(t, err)
		defer os.RemoveAll(root)
		h := &history{
			path: root, faults: &faults{on: quick, happen: func(path string, b []byte) error {
				if b == nil {
					return errDisk
				}
				return half(path, b, func() error { return errDisk })
			}},
			stores: map[string]*Store{}, disk: map[string][]byte{}, seen: map[string][]byte{}, ready: map[string][]byte{},
		}
		h.reopen(t)
		defer func() { h.faults.at = 0; h.reopen(t); requireTidy(t, h.dir); require.NoError(t, h.dir.Close()) }()
		with := func(do func(t *rapid.T, name string, s *Store)) func(*rapid.T) {
			return func(t *rapid.T) {
				name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
				if h.stores[name] == nil {
					h.stores[name], h.seen[name], h.ready[name] = openStore(t, h.dir, name), h.disk[name], nil
				}
				do(t, name, h.stores[name])
			}
		}
		// failing has a change of a file fail, if there are so many.
		failing := func(t *rapid.T) {
			h.faults.at = h.faults.done + rapid.IntRange(0, 12).Draw(t, "fails")
		}
		t.Repeat(map[string]func(*rapid.T){
			"": h.check,
			"Reopen": func(t *rapid.T) {
				h.faults.at = 0
				h.reopen(t)
			},
			"Close": with(func(t *rapid.T, name string, s *Store) {
				require.NoError(t, s.Close())
				delete(h.stores, name)
			}),
			"Prepare": with(func(t *rapid.T, name string, s *Store) {
				b := h.content(t)
				prepare(t, s, b)
				h.seen[name], h.ready[name] = nil, b
			}),
			"Commit": with(func(t *rapid.T, name string, s *Store) {
				b := h.ready[name]
				failing(t)
				err := s.Commit(ctx, len(b))
				switch {
				case b == nil:
					require.Error(t, err)
				case err == nil:
					h.disk[name], h.seen[name], h.ready[name] = b, b, nil
				default:
					require.ErrorIs(t, err, errDisk)
				}
			}),
			"Reset": with(func(t *rapid.T, name string, s *Store) {
				failing(t)
				err := s.Reset(ctx)
				if err == nil {
					h.disk[name] = nil
				} else {
					require.ErrorIs(t, err, errDisk)
				}
				h.seen[name], h.ready[name] = nil, nil
			}),
			"Cancelled": with(func(t *rapid.T, name string, s *Store) {
				gone, cancel := context.WithCancel(ctx)
				cancel()
				_, err := s.Bytes(gone)
				require.ErrorIs(t, err, context.Canceled)
				_, err = s.Prepare(gone, 5)
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, s.Commit(gone, 0), context.Canceled)
				require.ErrorIs(t, s.Reset(gone), context.Canceled)
				_, err = h.dir.Open(gone, "d")
				require.ErrorIs(t, err, context.Canceled)
			}),
		})
	})
}
