package group

import (
	"slices"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// user is a sequence.
type user struct {
	text  string
	path  []block.Block // entries
	lists []list        // of each part; of a state, the block that it is in
	marks RestorePoints

	reads bool // and no more: it has what it was given
}

// list is a part's blocks: those of the sinks, and those behind the gone ones.
type list struct {
	gone, sinks int
	blocks      []block.Block
}

// at is where block i is, nil if it is gone or yet to come.
func (l *list) at(i int) *block.Block {
	if i >= l.sinks && i < l.sinks+l.gone {
		return nil
	}
	if i >= l.sinks {
		i -= l.gone
	}
	if i >= len(l.blocks) {
		return nil
	}
	return &l.blocks[i]
}

func (u *user) tokens() int { return len(u.text) - 1 }

func (u *user) all() (out [][]block.Block) {
	for _, l := range u.lists {
		out = append(out, l.blocks)
	}
	return out
}

// evict makes n blocks free and compares what went with the model. It reports whether that can be.
func (w *world) evict(n int) bool {
	free, can := w.pages.Free(), w.cached() >= n
	old := slices.Clone(w.old)
	where := map[block.Block]*known{}
	for b, at := range w.at {
		if w.refs[b] == 0 {
			where[b] = at.e
		}
	}
	did := w.c.Evict(n, root("a"))
	w.listen()
	w.seen["entry evicted"] += len(w.left)
	require.Equal(w.t, can, did, "%d entries went", len(w.left))
	if !can {
		require.Equal(w.t, free, w.pages.Free())
		require.Empty(w.t, w.left)
		return false
	}
	require.GreaterOrEqual(w.t, w.pages.Free(), free+n)
	for left := w.left; n > 0; {
		var gone []block.Block
		if len(old) <= w.most && len(left) > 0 { // an entry with what is with it
			for b, e := range where {
				if e == left[0] {
					gone = append(gone, b)
				}
			}
			left = left[1:]
		} else {
			require.NotEmpty(w.t, old)
			w.seen["block evicted alone"]++
			gone = old[:1]
		}
		n -= len(gone)
		for _, b := range gone {
			if _, there := w.at[b]; there {
				w.detach(b)
			}
			delete(where, b)
			old = slices.DeleteFunc(slices.Clone(old), func(o block.Block) bool { return o == b })
		}
		require.True(w.t, n > 0 || len(left) == 0, "more went than had to")
	}
	return true
}

// alloc gets n blocks, for which cached ones may have to go; nil: there are not so many.
func (w *world) alloc(n int) []block.Block {
	if n > w.pages.Available() || n > w.pages.Free() && !w.evict(n-w.pages.Free()) {
		return nil
	}
	blocks, err := w.pages.AllocateN([]block.Block{}, n)
	require.NoError(w.t, err)
	for _, b := range blocks {
		require.NotContains(w.t, w.at, b)
		require.NotContains(w.t, w.refs, b)
		w.refs[b] = 1
		w.cells[b.ID] = make([]cell, w.size)
	}
	return blocks
}

// open begins a sequence with what there is of a text; nil: there are no blocks for what it would write.
func (w *world) open(text string) *user { return w.openCopying(text, true, prefix.RetentionHint{}) }

// openCopying is open; with whole everything in an entry that is not all the text's is copied, else only what will be
// written.
func (w *world) openCopying(text string, whole bool, keep prefix.RetentionHint) *user {
	w.match(text)
	f := w.take(text, keep)
	u := &user{text: text[:1+f.Tokens], path: f.Path[:f.Blocks:f.Blocks], marks: RestorePoints{f.Tokens, f.Known, len(query(text).Tokens)}}
	var copied []*block.Block
	for part := range w.parts {
		p := &w.parts[part]
		u.lists = append(u.lists, list{f.Runs[part].Gone, p.sinks(), slices.Clone(f.Runs[part].Blocks)})
		l := &u.lists[part]
		for i := f.Blocks * p.Each; f.Tail > 0 && p.Kind < State && i*p.Block < f.Tokens; i++ {
			if b := l.at(i); b != nil && (whole || (i+1)*p.Block > f.Tokens) {
				copied = append(copied, b)
			}
		}
		if p.Kind == State && f.Tokens > 0 {
			copied = append(copied, &l.blocks[0])
		}
	}
	require.NoError(w.t, w.c.Tree().Release(f.Path[f.Blocks:])) // its blocks are owned
	fresh := w.alloc(len(copied))
	w.users = append(w.users, u)
	if fresh == nil {
		w.give(u)
		return nil
	}
	for i, b := range copied {
		w.swap(b, fresh[i])
	}
	return u
}

// read takes what there is of a text, and leaves it as it is. It owns the entry that is not all the text's as well, which
// is not for caches with Full parts that have several blocks in an entry: those that it does not own could not go.
func (w *world) read(text string) {
	f := w.take(text, prefix.RetentionHint{})
	u := &user{text: text[:1+f.Tokens], path: f.Path, reads: true}
	for part, run := range f.Runs {
		u.lists = append(u.lists, list{run.Gone, w.parts[part].sinks(), run.Blocks})
	}
	w.users = append(w.users, u)
}

// swap puts a copy in the place of a block.
func (w *world) swap(b *block.Block, by block.Block) {
	w.cells[by.ID] = slices.Clone(w.cells[b.ID])
	w.release([]block.Block{*b})
	*b = by
}

// grow computes more tokens. With forget a block that nobody else has is written where it is, though it can be found. It
// reports whether there were blocks enough.
func (w *world) grow(u *user, more string, forget bool) bool {
	if more == "" {
		return true
	}
	n, all := u.tokens(), u.tokens()+len(more)
	need, shared := 0, make([]bool, len(w.parts))
	for part := range w.parts {
		p, l := &w.parts[part], &u.lists[part]
		if p.Kind == State && n == 0 {
			need++
		}
		if p.Kind >= State {
			continue
		}
		need += (all+p.Block-1)/p.Block - (n+p.Block-1)/p.Block
		if n%p.Block != 0 {
			b := *l.at(n / p.Block)
			if _, there := w.at[b]; w.refs[b] > 1 || there && !forget {
				shared[part] = true
				need++
			}
		}
	}
	fresh := w.alloc(need)
	if fresh == nil {
		return false
	}
	next := func() (b block.Block) {
		b, fresh = fresh[0], fresh[1:]
		return b
	}
	for part := range w.parts {
		p, l := &w.parts[part], &u.lists[part]
		switch {
		case p.Kind == State && n == 0:
			l.blocks = append(l.blocks, next())
		case p.Kind < State && shared[part]:
			w.swap(l.at(n/p.Block), next())
		case p.Kind < State && n%p.Block != 0:
			w.forget(*l.at(n / p.Block))
		}
		for at := n; at < all; at++ {
			text := (u.text + more)[:2+at]
			switch {
			case p.Kind == State:
				w.write(l.blocks[0], 0, part, text)
			case p.Kind < State:
				if l.at(at/p.Block) == nil {
					l.blocks = append(l.blocks, next())
				}
				w.write(*l.at(at / p.Block), at%p.Block, part, text)
			}
		}
	}
	require.Empty(w.t, fresh)
	u.text += more
	w.drop(u)
	return true
}

// drop gives back what no query of a sequence will read.
func (w *world) drop(u *user) {
	for part := range w.parts {
		p, l := &w.parts[part], &u.lists[part]
		var gone []block.Block
		for i := p.sinks() + l.gone; i < p.sinks()+p.gone(u.tokens()); i++ {
			b := *l.at(i)
			w.c.Drop(part, i, b, u.marks)
			if _, there := w.at[b]; there && w.refs[b] == 1 && !w.keeps(p, i) && !w.marked(p, i, u.marks) {
				w.detach(b)
				w.seen["dropped"]++
			} else if there {
				w.seen["left for others"]++
			}
			gone = append(gone, b)
		}
		l.blocks = slices.Delete(l.blocks, min(p.sinks(), len(l.blocks)), min(p.sinks(), len(l.blocks))+len(gone))
		l.gone += len(gone)
		w.release(gone)
	}
}

// keeps reports whether somebody can come who reads block i at the border of an entry for which it is to stay.
func (w *world) keeps(p *Part, i int) bool {
	every := w.every * p.Each
	if every <= 1 {
		return every == 1
	}
	border := (i/every + 1) * every
	return p.needs(border * p.Block)[i]
}

// marked reports whether what block i holds was found, or is read behind the entries that a mark is behind.
func (w *world) marked(p *Part, i int, m RestorePoints) bool {
	for _, n := range []int{m.Branch / w.size * w.size, m.End / w.size * w.size} {
		if reads := p.needs(n); i < len(reads) && reads[i] {
			w.seen["left at a mark"]++
			return true
		}
	}
	return i*p.Block < m.Found
}

// forget is called for what will be written.
func (w *world) forget(b block.Block) {
	at, there := w.at[b]
	whole := there && (w.parts[at.part].Kind == Full || w.leaf(at.e) && !w.owned(at.e))
	require.Equal(w.t, there, w.c.Forget(b))
	w.listen()
	if there {
		w.seen["forgotten"]++
	}
	if there && !whole {
		require.Empty(w.t, w.left)
		w.detach(b)
	} else if there {
		require.Contains(w.t, w.left, at.e)
		require.True(w.t, w.leaf(at.e), "with all behind it")
	}
}

// give ends a sequence.
func (w *world) give(u *user) {
	for _, l := range u.lists {
		w.release(l.blocks)
	}
	require.NoError(w.t, w.c.Tree().Release(u.path))
	w.users = slices.DeleteFunc(w.users, func(v *user) bool { return v == u })
	w.listen()
}

// ending has leases end whose time is over, but for their blocks.
func (w *world) ending() { w.c.Tree().Expire() }

// ended is what Cache does when it learns that leases have ended.
func (w *world) ended() {
	kept := w.leases[:0]
	for _, l := range w.leases {
		if !l.Ended() {
			kept = append(kept, l)
			continue
		}
		w.disown(l.blocks)
	}
	w.leases = kept
}

func (w *world) unpin(l *leased) {
	if err := w.c.Unpin(l.Lease); err != nil {
		require.ErrorIs(w.t, err, prefix.ErrLeaseEnded)
	}
	w.ended()
}

// wait lets time go by, and what has had its time go.
func (w *world) wait(d time.Duration) {
	w.now = w.now.Add(d)
	w.c.Expire()
	w.listen()
	w.ended()
}
