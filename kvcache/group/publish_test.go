package group

import (
	"errors"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// alive is how many of a sequence's entries the tree still has.
func (w *world) alive(u *user) (n int) {
	for n < len(u.path) && w.known[u.text[:1+(n+1)*w.size]] != nil && w.known[u.text[:1+(n+1)*w.size]].id == u.path[n] {
		n++
	}
	return n
}

// publish puts what a sequence has into the tree: its whole entries or, with end, all, and then with state what it is
// in as well.
func (w *world) publish(u *user, end, state bool, keep prefix.RetentionHint) {
	until := u.tokens() / w.size * w.size
	if end {
		until = u.tokens()
	}
	from := len(u.path) * w.size
	if until <= from {
		return
	}
	p := prefix.Path{Root: root(u.text), RetentionHint: keep}
	if from > 0 {
		p.Parent = u.path[len(u.path)-1]
	}
	entries := (until - from + w.size - 1) / w.size
	held := func(part, i int) *block.Block {
		if w.parts[part].Kind == State {
			if state && until == u.tokens() && i == entries-1 {
				return &u.lists[part].blocks[0]
			}
			return nil
		}
		return u.lists[part].at(len(u.path)*w.parts[part].Each + i)
	}
	room, available := w.c.Entries().Free(), w.pages.Available()
	before := w.published(u)
	_, path, old, err := rows{w.c}.insert(slices.Clone(u.path), nil, p, query(u.text[:1+until]).Tokens[from:], held)
	w.listen()
	if w.alive(u) < len(u.path) { // somebody forgot what is before it
		require.True(w.t, errors.Is(err, prefix.ErrDetached) || err == nil && w.c.Entries().Free() == 0, err)
		require.Equal(w.t, u.path, path)
		require.Equal(w.t, before, w.published(u))
		alive := w.alive(u)
		require.NoError(w.t, w.c.Tree().Release(u.path[alive:]))
		u.path = u.path[:alive]
		return
	}
	require.NoError(w.t, err)
	n := w.inserted(u, before, path[len(u.path):], until, available, held, old)
	require.True(w.t, n == entries || room < entries || n >= room, "%d of %d", n, entries)
	u.path = path
	require.NoError(w.t, w.c.Release(old))
	w.disown(old)
}

// published are the blocks that a sequence has, before an insertion replaces some.
func (w *world) published(u *user) (out [][]block.Block) {
	for _, l := range u.lists {
		out = append(out, slices.Clone(l.blocks))
	}
	return out
}

// inserted compares the entries that an insertion returned with the model, and has that follow. It returns how many
// there are, or would be if there was room.
func (w *world) inserted(u *user, before [][]block.Block, got []block.Block, until, available int, held func(part, i int) *block.Block, old []block.Block) int {
	own := func(part, i int) block.Block { // before the insertion
		b := held(part, i)
		if b == nil {
			return block.Block{}
		}
		place := slices.Index(u.lists[part].blocks, *b)
		return before[part][place]
	}
	var replaced []block.Block
	from := len(u.path) * w.size
	for n := 0; ; n++ {
		at, end := 1+from+n*w.size, 1+min(from+(n+1)*w.size, until)
		if at >= end {
			require.Len(w.t, got, n)
			require.Equal(w.t, replaced, old)
			return n
		}
		e, label := w.next(u.text[:at], u.text[at:end]), u.text[:end]
		if !w.insertable(e, label, n, available, own) {
			require.Len(w.t, got, n)
			require.Equal(w.t, replaced, old)
			return (until - from + w.size - 1) / w.size
		}
		if n == len(got) { // there is no room
			require.Equal(w.t, replaced, old)
			return n
		}
		fresh := e == nil
		if fresh {
			e = w.enter(got[n], label)
		}
		require.Equal(w.t, e.id, got[n])
		for part, p := range w.parts {
			for j := range p.Each {
				mine, have := own(part, n*p.Each+j), e.with[part][j]
				if mine == (block.Block{}) {
					continue
				}
				after := mine
				switch _, there := w.at[mine]; {
				case have == block.Block{} && !there:
					w.attach(e, part, j, mine)
					if !fresh {
						w.seen["attached later"]++
					}
				case have != block.Block{} && have != mine:
					after = have
					w.seen["taken over"]++
					if w.refs[have] == 0 {
						available--
					}
					w.own(have)
					replaced = append(replaced, mine)
				}
				require.Equal(w.t, after, *held(part, n*p.Each+j))
			}
		}
	}
}

// insertable reports whether a sequence can own the entry that has its tokens, nil: it is yet to be made. It needs blocks
// of all that have to be with it, claims must leave what it takes to own those that are, and one that is longer has
// other content.
func (w *world) insertable(e *known, label string, n, available int, own func(part, i int) block.Block) bool {
	if e != nil && e.text != label {
		w.seen["of a longer entry"]++
		return false
	}
	same := true
	for part, p := range w.parts {
		for j := range p.Each {
			mine := own(part, n*p.Each+j)
			if _, there := w.at[mine]; e == nil && p.Kind == Full && there {
				w.seen["with another entry"]++
				return false
			}
			if e != nil && e.with[part][j] != (block.Block{}) && mine != (block.Block{}) && e.with[part][j] != mine {
				same = false
			}
		}
	}
	if !same && available < w.c.width {
		w.seen["claims left too little to share"]++
	}
	return same || available >= w.c.width
}

// next is the entry behind a text that has a label, or begins with it.
func (w *world) next(at, label string) (best *known) {
	if e := w.known[at+label]; e != nil || len(label) == w.size {
		return e
	}
	for text, e := range w.known {
		if len(text) <= len(at)+w.size && strings.HasPrefix(text, at+label) && (best == nil || text < best.text) {
			best = e
		}
	}
	return best
}

// checkpoint puts the state that a sequence is in with its last entry, if that ends there.
func (w *world) checkpoint(u *user) {
	if len(u.path) == 0 || len(u.path) != (u.tokens()+w.size-1)/w.size {
		return
	}
	for part := range w.parts {
		if w.parts[part].Kind != State {
			continue
		}
		copied := w.alloc(1)
		if copied == nil {
			return
		}
		w.write(copied[0], 0, part, u.text)
		last := u.path[len(u.path)-1]
		e := w.known[u.text]
		lacks := e != nil && e.id == last && e.with[part][0] == block.Block{}
		require.Equal(w.t, lacks, w.c.Checkpoint(last, part, copied[0]))
		if lacks {
			w.attach(e, part, 0, copied[0])
		}
		w.release(copied)
	}
}

// finish publishes a sequence and ends it.
func (w *world) finish(u *user, state bool) {
	w.publish(u, true, state, prefix.RetentionHint{})
	if !state {
		w.checkpoint(u)
	}
	w.give(u)
}

// serve is a prompt from its beginning to its end. Entries are published, and states kept at borders of entries that are
// a multiple of every.
func (w *world) serve(text string, every int) *user {
	u := w.open(text)
	for u != nil && u.tokens() < len(text)-1 {
		border := (u.tokens()/(every*w.size) + 1) * every * w.size
		if !w.grow(u, text[len(u.text):min(1+border, len(text))], false) {
			w.give(u)
			return nil
		}
		w.publish(u, false, false, prefix.RetentionHint{})
		if u.tokens()%w.size == 0 {
			w.checkpoint(u)
		}
	}
	return u
}

// fork begins a sequence that is as far as another one.
func (w *world) fork(u *user) {
	states := 0
	for part := range w.parts {
		if w.parts[part].Kind == State && u.tokens() > 0 {
			states++
		}
	}
	fresh := w.alloc(states)
	if fresh == nil {
		return
	}
	require.NoError(w.t, w.c.Entries().RetainN(u.path))
	v := &user{text: u.text, path: slices.Clone(u.path)}
	for part, l := range u.lists {
		l.blocks = slices.Clone(l.blocks)
		require.NoError(w.t, w.pages.RetainN(l.blocks))
		w.own(l.blocks...)
		v.lists = append(v.lists, l)
		if w.parts[part].Kind == State && u.tokens() > 0 {
			w.swap(&v.lists[part].blocks[0], fresh[0])
			fresh = fresh[1:]
		}
	}
	w.users = append(w.users, v)
}

// truncate leaves the first n tokens of a sequence, or fewer where what it would go on with is gone.
func (w *world) truncate(u *user, n int) {
	for part := range w.parts {
		p := &w.parts[part]
		if p.Kind == State && n < u.tokens() {
			n = 0
		}
		n = p.Resumable(u.lists[part].gone, n)
	}
	require.NoError(w.t, w.c.Tree().Release(u.path[min(n/w.size, len(u.path)):]))
	u.path, u.text = u.path[:min(n/w.size, len(u.path))], u.text[:1+n]
	for part := range w.parts {
		p, l := &w.parts[part], &u.lists[part]
		if n == 0 {
			l.gone = 0
		}
		keep := p.Need(n)
		if p.Kind < State {
			keep = min((n+p.Block-1)/p.Block, p.sinks())
			if all := (n + p.Block - 1) / p.Block; all > p.sinks() {
				keep = all - l.gone
			}
		}
		w.release(l.blocks[keep:])
		l.blocks = slices.Clone(l.blocks[:keep])
	}
}
