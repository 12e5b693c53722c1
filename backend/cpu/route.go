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
func (r *route) begin(a *attention, t *tile, it item) {
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
func (r *route) leg(i int) *leg { return &r.legs[(r.at+i)%len(r.legs)] }

// advance moves on to the next leg.
func (r *route) advance(a *attention, t *tile) {
	r.enter(a, t, r.leg(0))
	r.at++
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

// Keys from those that are read to those that are fetched meanwhile. The nearer come from the
// second-level cache, and the others from memory into it: of lines on their way to the first
// level a processor remembers too few to keep its memory busy.
const soonKeys, laterKeys = 32, 96

// ahead adds to rows, those of head h in run i of the first leg, where those are that are wanted
// soon, and later, and fetches the scales of the latter.
func (r *route) ahead(p *plane, t *tile, h, i int, rows *stored) {
	if soon, head := r.place(t, h, i, soonKeys); soon.n > 0 {
		rows.ahead = p.ahead(soon.block, head, soon.offset)
	}
	later, head := r.place(t, h, i, laterKeys)
	if later.n == 0 {
		return
	}
	rows.later = p.ahead(later.block, head, later.offset)
	if p.perRow > 0 {
		p.k.fetch(p.at(later.block, head, later.offset, later.n).scales)
	}
}

// place is the rest of a run that is walked so many keys after the first one of run i of head h in
// the first leg, and its head. It is empty behind the end.
func (r *route) place(t *tile, h, i, keys int) (rest run, head int) {
	for leg := 0; leg < len(r.legs) && r.leg(leg).n > 0; i = 0 {
		for runs := r.leg(leg).runs; i < len(runs); i++ {
			if in := &runs[i]; keys < in.n {
				return run{in.block, in.offset + keys, in.n - keys}, t.head + h
			}
			keys -= runs[i].n
		}
		if h++; h == t.heads {
			leg, h = leg+1, 0
		}
	}
	return run{}, 0
}
