package cpu

// route is the way of a walk through the keys of an item: the chunk that it is at, and those
// ahead, of which rows are fetched from memory meanwhile. Heads that walk together take a
// chunk one after another; one head at one chunk is a step.
type route struct {
	legs     [3]leg // a ring
	at       int    // the one that the walk is at
	key, end int    // of the keys that no leg has yet
}

// leg is a chunk's keys, none behind the last one: n from position key on.
type leg struct {
	key, n int
	runs   []run
	room   [chunk]run
}

// run is keys that lie in one block.
type run struct{ block, offset, n int }

// begin enters the keys of an item.
func (r *route) begin(a *attention, t *tile, it *item) {
	r.at, r.key, r.end = 0, t.keys.From(it.k0), it.k1
	for i := range r.legs {
		r.enter(a, t, &r.legs[i])
	}
}

// only makes a route of one run, which begins at position key.
func (r *route) only(key int, keys run) *leg {
	for i := range r.legs {
		r.legs[i].n, r.legs[i].runs = 0, nil
	}
	l := r.leg(0)
	l.room[0] = keys
	l.key, l.n, l.runs = key, keys.n, l.room[:1]
	return l
}

// leg is the i-th from where the walk is.
func (r *route) leg(i int) *leg {
	if i += r.at; i >= len(r.legs) {
		i -= len(r.legs)
	}
	return &r.legs[i]
}

// advance moves on to the next leg.
func (r *route) advance(a *attention, t *tile) {
	r.enter(a, t, r.leg(0))
	if r.at++; r.at == len(r.legs) {
		r.at = 0
	}
}

// enter makes a leg the last one.
func (r *route) enter(a *attention, t *tile, l *leg) {
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

// rows sets w.keys and w.values to those of head h in the first leg, a run each, and to what is
// known of those that come after.
func (r *route) rows(a *attention, t *tile, h int, w *scratch) {
	l := r.leg(0)
	f := r.foresee(a, t, h)
	keys, values := w.runs(len(l.runs))
	for i, run := range l.runs {
		a.keys.find(&keys[i], run.block, t.head+h, run.offset, run.n)
		a.values.find(&values[i], run.block, t.head+h, run.offset, run.n)
		f.tell(r, a, t, &keys[i], &values[i])
	}
	a.k.fetchScales(keys, a.keys.perRow)
	a.k.fetchScales(values, a.values.perRow)
}

// fetchScales fetches the scales that runs want, if rows have any.
func (k *kernels) fetchScales(runs []stored, words int) {
	if words > 0 && k.fetch != nil {
		k.fetch(runs, words)
	}
}

// Keys from those that are read to those that are fetched meanwhile. The nearer come from the
// second-level cache, and the others from memory into it: of lines on their way to the first
// level a processor remembers too few to keep its memory busy.
const soonKeys, laterKeys = 32, 96

// fewKeys is the fewest keys that a kernel fetches others for: so many it scores at once.
const fewKeys = 4

// wideRow is how many bytes a row has from which on half of soonKeys are fetched: the first level
// holds no more of them, of keys and of values, and what is in work.
const wideRow = 512

// foresight is where the rows are that are wanted soon, and later, than those of a run.
type foresight struct{ soon, later place }

// foresee begins with the first rows of head h in the first leg.
func (r *route) foresee(a *attention, t *tile, h int) (f foresight) {
	f.soon.head, f.later.head = h, h
	soon := soonKeys
	if max(a.keys.row, a.values.row) >= wideRow {
		soon /= 2
	}
	if left := r.leg(0).n * (t.heads - h); left <= soon && r.leg(1).n == 0 { // of a short walk nothing is that far off
		f.soon.leg, f.later.leg = len(r.legs), len(r.legs)
		return f
	}
	f.soon.move(r, t.heads, soon)
	f.later.move(r, t.heads, laterKeys)
	return f
}

// tell adds to a run where the keys and values are that are wanted soon, and later. From there it
// moves on by as many keys.
func (f *foresight) tell(r *route, a *attention, t *tile, keys, values *stored) {
	if f.soon.leg == len(r.legs) {
		return
	}
	n := max(keys.n, fewKeys)
	if i, ok := f.soon.rows(r, a, t, n); ok {
		a.keys.expect(keys, i)
		a.values.expect(values, i)
	}
	if i, ok := f.later.rows(r, a, t, n); ok {
		a.keys.expectLater(keys, i)
		a.values.expectLater(values, i)
	}
	f.soon.move(r, t.heads, keys.n)
	f.later.move(r, t.heads, keys.n)
}

// place is a key of a run of a leg, for one of the heads that walk together.
type place struct{ leg, head, at, key int }

// move goes on by so many keys.
func (p *place) move(r *route, heads, keys int) {
	p.key += keys
	for p.leg < len(r.legs) {
		runs := r.leg(p.leg).runs
		for ; p.at < len(runs); p.at++ {
			if n := runs[p.at].n; p.key >= n {
				p.key -= n
			} else {
				return
			}
		}
		p.at, p.head = 0, p.head+1
		if p.head == heads || len(runs) == 0 {
			p.leg, p.head = p.leg+1, 0
		}
	}
}

// rows is the number of the first of n rows that lie back to back: those of the walk from a place
// on, or, where there are fewer, the last ones. It is false where there are none. What lies after
// the last row of a walk is never fetched: memory that nobody has written yet has no page, and some
// processors look for that each time they are asked for a line of it.
func (p *place) rows(r *route, a *attention, t *tile, n int) (number int, ok bool) {
	if p.leg == len(r.legs) {
		return 0, false
	}
	number = p.number(r, a, t)
	have := p.left(r)
	for next := *p; have < n; have += next.left(r) { // the next leg's may follow, or the next head's
		next.move(r, t.heads, next.left(r))
		if next.leg == len(r.legs) || next.number(r, a, t) != number+have {
			break
		}
	}
	missing := max(n-have, 0)
	return number - missing, missing <= p.key
}

// left is how many rows of its run a place has before it.
func (p *place) left(r *route) int { return r.leg(p.leg).runs[p.at].n - p.key }

// number is that of a place's row, as planes count them.
func (p *place) number(r *route, a *attention, t *tile) int {
	in := &r.leg(p.leg).runs[p.at]
	return a.keys.number(in.block, t.head+p.head, in.offset+p.key)
}
