package group

import (
	"slices"
	"strings"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/stretchr/testify/require"
)

// cached counts the blocks that have no owner and can be found.
func (w *world) cached() (n int) {
	for b := range w.at {
		if w.refs[b] == 0 {
			n++
		}
	}
	return n
}

// check is what holds after every operation.
func (w *world) check() {
	w.listen()
	t := w.t
	require.Empty(t, w.left)
	require.Empty(t, w.announced)
	require.NoError(t, w.c.Check())
	require.Equal(t, len(w.known), w.c.Tree().Stats().Blocks)
	for _, e := range w.known {
		known, _ := w.c.Tree().Has(e.id)
		require.True(t, known, "%q", e.text)
		for part, p := range w.parts {
			require.Equal(t, e.with[part], w.c.row(e.id, part), "%q", e.text)
			for i := range (len(e.text) - 1 - max(0, (len(e.text)-2)/w.size*w.size) + p.Block - 1) / p.Block {
				require.True(t, p.Kind != Full || e.with[part][i] != block.Block{}, "%q lacks block %d of part %d", e.text, i, part)
			}
		}
	}
	w.checkOwners()
	for b, at := range w.at {
		known, end := w.c.Has(b)
		require.True(t, known)
		require.Equal(t, !w.owned(at.e) && w.leaf(at.e), end)
		have, err := w.pages.Refs(b)
		require.NoError(t, err)
		require.Equal(t, w.refs[b], have)
	}
	require.Equal(t, w.cached(), w.pages.Cached())
	require.Equal(t, w.pages.Total(), w.pages.Free()+w.pages.Cached()+w.pages.Held())
	require.Equal(t, w.cached(), w.c.Evictable(root("a")), "all that is cached can go")
	for place, b := range w.old {
		if place == 0 {
			require.Equal(t, b.ID+1, w.c.old.first)
		}
		next := uint32(0)
		if place+1 < len(w.old) {
			next = w.old[place+1].ID + 1
		}
		require.Equal(t, next, w.c.places[b.ID].next, "the order of eviction")
	}
	require.Equal(t, len(w.old), w.c.old.n)
}

// checkOwners compares the owners of blocks and entries with those that the model knows.
func (w *world) checkOwners() {
	refs, entries := map[block.Block]int{}, map[block.Block]int{}
	for _, u := range w.users {
		for _, bs := range u.all() {
			for _, b := range bs {
				refs[b]++
			}
		}
		for _, e := range u.path {
			entries[e]++
		}
	}
	visited := map[block.Block]int{}
	w.c.Leased(func(b block.Block) { visited[b]++ })
	for _, l := range w.leases {
		for _, b := range l.blocks {
			refs[b]++
			visited[b]--
		}
		for _, e := range l.path {
			if !l.Ended() {
				entries[e.id]++
			}
		}
	}
	for _, left := range visited {
		require.Zero(w.t, left)
	}
	require.Equal(w.t, refs, w.refs)
	require.Equal(w.t, len(refs), w.pages.Held())
	for b, n := range refs {
		have, err := w.pages.Refs(b)
		require.NoError(w.t, err)
		require.Equal(w.t, n, have)
	}
	require.Equal(w.t, len(entries), w.c.Entries().Held())
	for e, n := range entries {
		have, err := w.c.Entries().Refs(e)
		require.NoError(w.t, err)
		require.Equal(w.t, n, have)
	}
}

// owned reports whether a user or a lease owns an entry.
func (w *world) owned(e *known) bool {
	for _, u := range w.users {
		if slices.Contains(u.path, e.id) {
			return true
		}
	}
	return slices.ContainsFunc(w.leases, func(l *leased) bool { return !l.Ended() && slices.Contains(l.path, e) })
}

func (w *world) leaf(e *known) bool {
	for text := range w.known {
		if len(text) > len(e.text) && strings.HasPrefix(text, e.text) {
			return false
		}
	}
	return true
}

// end gives everything back.
func (w *world) end() {
	w.pages.Cancel(&w.claim)
	for len(w.users) > 0 {
		w.give(w.users[0])
	}
	for _, l := range slices.Clone(w.leases) {
		w.unpin(l)
	}
	w.wait(time.Hour)
	w.check()
	require.Zero(w.t, w.pages.Held())
	require.NoError(w.t, w.c.Tree().Clear(false))
	require.Equal(w.t, w.pages.Total(), w.pages.Free())
	require.Equal(w.t, w.c.Entries().Total(), w.c.Entries().Free())
	require.Empty(w.t, w.c.short)
	w.c.Close()
}
