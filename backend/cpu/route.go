package cpu

// keyWalk walks through the keys of an item: the chunk that it is at, and those
// ahead, of which rows are fetched from memory meanwhile. Heads that walk together take a
// chunk one after another; one head at one chunk is a step.
type keyWalk struct {
	chunks   [3]walkChunk // a ring
	at       int          // the one that the walk is at
	key, end int          // of the keys that no chunk has yet
}

// walkChunk is a chunk's keys, none after the last one: n from position key on.
type walkChunk struct {
	key, n int
	runs   []run
	room   [chunk]run
}

// run is keys that lie in one block.
type run struct{ block, offset, n int }

// begin enters the keys of an item.
func (r *keyWalk) begin(a *attention, t *tile, it *item) {
	r.at, r.key, r.end = 0, t.keys.From(it.k0), it.k1
	for i := range r.chunks {
		r.enter(a, t, &r.chunks[i])
	}
}

// only makes a walk of one run, which begins at position key.
func (r *keyWalk) only(key int, keys run) *walkChunk {
	for i := range r.chunks {
		r.chunks[i].n, r.chunks[i].runs = 0, nil
	}
	l := r.chunk(0)
	l.room[0] = keys
	l.key, l.n, l.runs = key, keys.n, l.room[:1]
	return l
}

// walkChunk is the i-th from where the walk is.
func (r *keyWalk) chunk(i int) *walkChunk {
	if i += r.at; i >= len(r.chunks) {
		i -= len(r.chunks)
	}
	return &r.chunks[i]
}

// advance moves on to the next chunk.
func (r *keyWalk) advance(a *attention, t *tile) {
	r.enter(a, t, r.chunk(0))
	if r.at++; r.at == len(r.chunks) {
		r.at = 0
	}
}

// enter makes a chunk the last one.
func (r *keyWalk) enter(a *attention, t *tile, l *walkChunk) {
	l.key, l.n, l.runs = r.key, 0, l.room[:0]
	if r.key >= r.end {
		return
	}
	for n := a.cut(r.key, r.end, chunk); l.n < n; {
		block, offset, length := a.run(t, l.key+l.n, n-l.n)
		l.runs = append(l.runs, run{block, offset, length})
		l.n += length
	}
	r.key = t.keys.From(l.key + l.n)
}

// rows sets w.keys and w.values to those of head h in the first chunk, a run each, and to what is
// known of those that come after.
func (r *keyWalk) rows(a *attention, t *tile, h int, w *scratch) {
	l := r.chunk(0)
	f := r.prefetch(a, t, h)
	keys, values := w.runs(len(l.runs))
	for i, run := range l.runs {
		a.keys.find(&keys[i], run.block, t.head+h, run.offset, run.n)
		a.values.find(&values[i], run.block, t.head+h, run.offset, run.n)
		f.tell(r, a, t, &keys[i], &values[i])
	}
	a.k.fetchScales(keys, a.keys.perRow)
	if !a.latent {
		a.k.fetchScales(values, a.values.perRow)
	}
}

// fetchScales fetches the scales that runs want, if rows have any.
func (k *kernels) fetchScales(runs []stored, words int) {
	if words > 0 && k.fetch != nil {
		k.fetch(runs, words)
	}
}

// distances is how many keys ahead of those that are read rows are fetched. The nearer come from the
// second-level cache, and the others from memory into it: of lines on their way to the first
// level many processors remember too few to keep their memory busy. Where both are the same, all come into the first level.
type distances struct{ soon, later int }

// usual is the distances that no processor is known to lose much by.
var usual = distances{32, 96}

// fewKeys is the fewest keys that a kernel fetches others for: that many it scores at once.
const fewKeys = 4

// wideRow is how many bytes a row has from which on the nearer are at half their distance: the first level
// holds no more of them, of keys and of values, and what is in work.
const wideRow = 512

// prefetch is where the rows are that are wanted soon, and later, than those of a run.
type prefetch struct{ soon, later place }

// prefetch begins with the first rows of head h in the first chunk.
func (r *keyWalk) prefetch(a *attention, t *tile, h int) (f prefetch) {
	f.soon.head, f.later.head = h, h
	soon := a.k.ahead.soon
	if max(a.keys.row, a.values.row) >= wideRow {
		soon /= 2
	}
	if left := r.chunk(0).n * (t.heads - h); left <= soon && r.chunk(1).n == 0 { // of a short walk nothing is that far off
		f.soon.chunk, f.later.chunk = len(r.chunks), len(r.chunks)
		return f
	}
	f.soon.move(r, t.heads, soon)
	f.later.move(r, t.heads, a.k.ahead.later)
	return f
}

// tell adds to a run where the keys and values are that are wanted soon, and later. From there it
// moves on by as many keys.
func (f *prefetch) tell(r *keyWalk, a *attention, t *tile, keys, values *stored) {
	if f.soon.chunk == len(r.chunks) {
		return
	}
	n := max(keys.n, fewKeys)
	if i, ok := f.soon.rows(r, a, t, n); ok {
		a.keys.expect(keys, i)
		if !a.latent {
			a.values.expect(values, i)
		}
	}
	if i, ok := f.later.rows(r, a, t, n); ok {
		a.keys.expectLater(keys, i)
		if !a.latent {
			a.values.expectLater(values, i)
		}
	}
	f.soon.move(r, t.heads, keys.n)
	f.later.move(r, t.heads, keys.n)
}

// place is a key of a run of a chunk, for one of the heads that walk together.
type place struct{ chunk, head, at, key int }

// move goes on by that many keys.
func (p *place) move(r *keyWalk, heads, keys int) {
	p.key += keys
	for p.chunk < len(r.chunks) {
		runs := r.chunk(p.chunk).runs
		for ; p.at < len(runs); p.at++ {
			if n := runs[p.at].n; p.key >= n {
				p.key -= n
			} else {
				return
			}
		}
		p.at, p.head = 0, p.head+1
		if p.head == heads || len(runs) == 0 {
			p.chunk, p.head = p.chunk+1, 0
		}
	}
}

// rows is the number of the first of n rows that lie back to back: those of the walk from a place
// on, or, where there are fewer, the last ones. It is false where there are none. What lies after
// the last row of a walk is never fetched: memory that nobody has written yet has no page, and some
// processors look for that each time they are asked for a line of it.
func (p *place) rows(r *keyWalk, a *attention, t *tile, n int) (number int, ok bool) {
	if p.chunk == len(r.chunks) {
		return 0, false
	}
	number = p.number(r, a, t)
	have := p.left(r)
	for next := *p; have < n; have += next.left(r) { // the next chunk may follow, or the next head's
		next.move(r, t.heads, next.left(r))
		if next.chunk == len(r.chunks) || next.number(r, a, t) != number+have {
			break
		}
	}
	missing := max(n-have, 0)
	return number - missing, missing <= p.key
}

// left is how many rows of its run a place has before it.
func (p *place) left(r *keyWalk) int { return r.chunk(p.chunk).runs[p.at].n - p.key }

// number is that of a place's row, as planes count them.
func (p *place) number(r *keyWalk, a *attention, t *tile) int {
	in := &r.chunk(p.chunk).runs[p.at]
	return a.keys.number(in.block, t.head+p.head, in.offset+p.key)
}
