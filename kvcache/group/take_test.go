package group

import (
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// takeable reports whether claims leave what it takes to own some blocks.
func (w *world) takeable(runs []Run) bool {
	waiting := 0
	for _, run := range runs {
		for _, b := range run.Blocks {
			if w.refs[b] == 0 {
				waiting++
			}
		}
	}
	return waiting <= w.pages.Available()
}

// match compares an answer with the model's.
func (w *world) match(text string) int {
	_, n, missing := w.answer(text)
	m, lost := w.c.Match(root(text), query(text))
	require.Equal(w.t, [2]int{n, missing}, [2]int{m.Tokens, lost}, "%q", text)
	require.Equal(w.t, [2]int{n / w.size, n % w.size}, [2]int{m.Blocks, m.Tail})
	return n
}

// take compares what is taken with the model, and looks at what is in it.
func (w *world) take(text string, keep prefix.RetentionHint) Found {
	path, n, missing := w.answer(text)
	_, known := w.find(text)
	if known < w.minPrefix {
		known = 0
	}
	runs := w.runs(path, n)
	can := w.takeable(runs)
	if !can {
		path, n, runs = nil, 0, w.runs(nil, 0)
	}
	old := len(w.c.old.list(w.c.places))
	f, err := rows{w.c}.take(root(text), query(text), keep, prefix.Match{})
	require.NoError(w.t, err)
	require.Equal(w.t, n, f.Tokens, "%q", text)
	require.Equal(w.t, known, f.Known, "%q", text)
	require.Equal(w.t, [2]int{n / w.size, n % w.size}, [2]int{f.Blocks, f.Tail})
	require.Len(w.t, f.Path, len(path))
	for i, e := range path {
		require.Equal(w.t, e.id, f.Path[i])
	}
	require.Equal(w.t, runs, f.Runs)
	w.verify(text, n, runs)
	for _, run := range runs {
		w.own(run.Blocks...)
	}
	switch {
	case f.Tail > 0:
		w.seen["hit inside of an entry"]++
	case f.Tokens > 0:
		w.seen["hit"]++
	}
	if missing > 0 {
		w.seen["hit shortened"]++
	}
	if f.Tokens > 0 && f.Tokens%w.size == 0 && runs[0].Gone > 0 {
		w.seen["hit behind gone blocks"]++
	}
	for _, p := range w.parts {
		if p.Kind == State && f.Tokens > 0 {
			w.seen["hit of a state"]++
			if f.Tail > 0 {
				w.seen["hit of a state inside of an entry"]++
			}
		}
	}
	if !can { // as many as before, but those that were tried are the last now
		w.seen["claims left too little"]++
		require.Len(w.t, w.old, old)
		w.reorder()
	}
	return f
}

// reorder takes over the order of cached blocks.
func (w *world) reorder() {
	order := w.c.old.list(w.c.places)
	ids := map[uint32]block.Block{}
	for _, b := range w.old {
		ids[b.ID] = b
	}
	require.Len(w.t, order, len(w.old))
	for i, id := range order {
		require.Contains(w.t, ids, id)
		w.old[i] = ids[id]
	}
}

// list is the queue from its front to its back.
func (l *links) list(of []place) (ids []uint32) {
	for at := l.first; at != 0; at = of[at-1].next {
		ids = append(ids, at-1)
	}
	return ids
}

// verify looks whether runs are what is read of a text after n tokens.
func (w *world) verify(text string, n int, runs []Run) {
	for part, run := range runs {
		p := &w.parts[part]
		if p.Kind == State && n > 0 {
			require.Equal(w.t, cell{part, text[:1+n]}, w.cells[run.Blocks[0].ID][0])
		}
		for at := range n {
			seen := false
			for q := max(n-p.Back, 0); q <= n; q++ {
				seen = seen || p.sees(q, at)
			}
			if !seen {
				continue
			}
			i := at / p.Block
			if i >= p.sinks() {
				require.GreaterOrEqual(w.t, i, p.sinks()+run.Gone)
				i -= run.Gone
			}
			require.Equal(w.t, cell{part, text[:2+at]}, w.cells[run.Blocks[i].ID][at%p.Block], "%q: token %d", text, at)
		}
	}
}

// ownPart has somebody own for a while what one part has of a text, whatever the others have.
func (w *world) ownPart(part int, text string) {
	path, all := w.find(text)
	n := all
	for n > 0 && !w.fits(part, path, n) {
		n = (n - 1) / w.size * w.size
	}
	var ids []block.Block
	for _, e := range path {
		ids = append(ids, e.id)
	}
	require.Equal(w.t, n, w.c.Fits(part, ids, all), "%q", text)
	if n == 0 {
		return
	}
	want := w.runs(path[:(n+w.size-1)/w.size], n)[part]
	can := w.takeable([]Run{want})
	run, err := w.c.Own(part, ids, n)
	if !can {
		require.ErrorIs(w.t, err, block.ErrOutOfBlocks{})
		w.reorder()
		return
	}
	require.NoError(w.t, err)
	require.Equal(w.t, want, run)
	w.seen["of one part"]++
	w.own(run.Blocks...)
	w.release(run.Blocks)
}

// pin compares a lease with what the model says of it.
func (w *world) pin(text string, d time.Duration) *leased {
	path, all := w.find(text)
	if all < w.minPrefix {
		all = 0
	}
	n := w.longest(path, all) / w.size * w.size
	if n = w.longest(path, n); n < w.minPrefix {
		n = 0
	}
	path = path[:n/w.size]
	runs := w.runs(path, n)
	w.ending()
	pinned := len(path)
	for _, l := range w.leases {
		if !l.Ended() {
			pinned += len(l.path)
		}
	}
	can := w.takeable(runs)
	l, err := w.c.Pin(root(text), query(text), d)
	switch {
	case pinned > w.c.Entries().Total()/2:
		require.ErrorIs(w.t, err, prefix.ErrPinned{})
		return nil
	case !can:
		w.seen["claims left too little"]++
		require.ErrorIs(w.t, err, block.ErrOutOfBlocks{})
		w.reorder()
		return nil
	}
	require.NoError(w.t, err)
	require.Equal(w.t, n, l.Match.Tokens)
	if n == 0 {
		return nil
	}
	w.seen["pinned"]++
	w.verify(text, n, runs)
	with := &leased{Lease: l, path: path}
	for _, run := range runs {
		w.own(run.Blocks...)
		with.blocks = append(with.blocks, run.Blocks...)
	}
	w.leases = append(w.leases, with)
	return with
}
