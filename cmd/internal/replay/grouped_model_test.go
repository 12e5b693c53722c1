package replay

import (
	"container/list"
	"slices"
)

// groupModel is LRU of a cache of several parts in as few words as possible: of a block of the trace it knows whether
// the tree has it and which parts have a block with it, and what a request finds it sees by looking at these, token by
// token.
type groupModel struct {
	Parts
	trace *Trace
	next  int // request
	full  int
	free  int
	// Of the request: blocks that are full, that were found and that were known.
	ends, hits, branch int

	most int // blocks that may wait before entries go

	known map[uint32]*entry
	lru   *list.List // of uint32: entries that no request has
	old   *list.List // of mine: blocks of windows and states that no request has
}

// entry is what there is of a block of the trace.
type entry struct {
	place *list.Element // nil: a request has it
	with  map[int]*own  // by part, that of full attention aside
}

// own is a block of a window or a state.
type own struct{ place *list.Element } // nil: a request has it

// mine says where a block is.
type mine struct {
	b    uint32
	part int
}

func newGroupModel(t *Trace, p Parts, blocks int) *groupModel {
	return &groupModel{Parts: p, trace: t, free: blocks, most: blocks * p.Share / 100, known: map[uint32]*entry{}, lru: list.New(), old: list.New()}
}

// sees reports whether the first query after n blocks of a path, or one after it, sees a token of block i.
func (m *groupModel) sees(part, i, n int) bool {
	if part > m.Windows { // the state after block i
		return i == n-1
	}
	tokens := m.trace.BlockTokens
	for at := i * tokens; i < n && at < (i+1)*tokens; at++ {
		if at > n*tokens-m.Window {
			return true
		}
	}
	return false
}

// fits reports whether all that is read after n blocks is there.
func (m *groupModel) fits(path []uint32, n int) bool {
	for i, b := range path[:n] {
		for part := 1; part < m.count(); part++ {
			if m.sees(part, i, n) && m.known[b].with[part] == nil {
				return false
			}
		}
	}
	return true
}

func (m *groupModel) found(path []uint32) (hits, known int) {
	for known < len(path) && m.known[path[known]] != nil {
		known++
	}
	for hits = known; hits > 0 && !m.fits(path, hits); {
		hits--
	}
	return hits, known
}

// wants reports whether the retention is about requests that share no more than n blocks.
func (m *groupModel) wants(n int) bool {
	return n == m.ends || n == m.branch || m.Every > 0 && n%m.Every == 0
}

// kept reports whether block i of a path stays findable when it leaves a window: a request may come that shares no more
// than up to the prompt's end, or up to where it left what was known, or up to the next border after it that is wanted. What
// was found stays.
func (m *groupModel) kept(part, i int) bool {
	border := i + 1
	for m.Every > 0 && border%m.Every != 0 {
		border++
	}
	return i < m.hits || m.Every == 1 || m.sees(part, i, m.ends) || m.sees(part, i, m.branch) || m.Every > 0 && m.sees(part, i, border)
}

// drop takes a block away from its entry.
func (m *groupModel) drop(b uint32, part int) {
	delete(m.known[b].with, part)
	m.free++
}

// evict makes a block free; false: all are in use.
func (m *groupModel) evict() bool {
	first := m.lru.Front()
	if m.old.Len() > 0 && (m.old.Len() > m.most || first == nil) {
		o := m.old.Remove(m.old.Front()).(mine)
		m.drop(o.b, o.part)
		return true
	}
	if first == nil {
		return false
	}
	b := m.lru.Remove(first).(uint32)
	for part, o := range m.known[b].with {
		m.old.Remove(o.place)
		m.drop(b, part)
	}
	delete(m.known, b)
	m.free++
	return true
}

// take and give are of a block that is with an entry.
func (m *groupModel) take(o *own) {
	if o.place != nil {
		m.old.Remove(o.place)
		o.place = nil
	}
}

func (m *groupModel) give(b uint32, part int) {
	m.known[b].with[part].place = m.old.PushBack(mine{b, part})
}

// request does what grouped does.
func (m *groupModel) request(path []uint32) (hits int, err error) {
	m.ends = m.trace.Full(m.next)
	m.next++
	hits, known := m.found(path)
	m.hits, m.branch = hits, known
	m.full += known
	for i, b := range path[:hits] {
		m.hold(b)
		for part := 1; part < m.count(); part++ {
			if m.sees(part, i, hits) {
				m.take(m.known[b].with[part])
			}
		}
	}
	shared := map[int]bool{} // parts whose state is with an entry, or that have none
	for part := m.Windows + 1; part < m.count(); part++ {
		shared[part] = true
	}
	n := hits
	for n < len(path) {
		next, each := n+1, 1+m.Windows
		for next < min(n+piece, len(path)) && (m.States == 0 || !m.wants(next)) {
			next++
		}
		room := m.free + m.lru.Len() + m.old.Len() - len(shared)
		if room < each {
			break
		}
		next = min(next, n+room/each)
		for m.free < (next-n)*each+len(shared) {
			m.evict()
		}
		m.free -= (next-n)*each + len(shared)
		if n > 0 {
			m.giveStates(path[n-1])
		}
		clear(shared)
		if n = m.insert(path, n, next); n < next {
			break
		}
		for part := m.Windows + 1; part < m.count(); part++ {
			if with := m.known[path[n-1]].with; with[part] == nil && (n == len(path) || m.wants(n)) {
				with[part], shared[part] = &own{}, true
			}
		}
		m.leave(path, n, func(part, i int) bool { return m.sees(part, i, n) }, false)
	}
	m.leave(path, n, func(int, int) bool { return false }, true)
	if n > 0 {
		m.giveStates(path[n-1])
	}
	m.free += m.States - len(shared)
	for _, b := range slices.Backward(path[:n]) {
		m.known[b].place = m.lru.PushBack(b)
	}
	return hits, nil
}

// insert puts blocks n to next into the tree, and returns how far it got: not on where the tree has other blocks and
// there are too few to take (group.Cache.Insert).
func (m *groupModel) insert(path []uint32, n, next int) int {
	room := m.free + m.lru.Len() + m.old.Len()
	for i, b := range path[n:next] {
		e := m.known[b]
		if e == nil {
			e = &entry{with: map[int]*own{}}
			m.known[b] = e
		} else {
			if room < m.count() {
				m.free += (1 + m.Windows) * (next - n - i)
				for _, b := range slices.Backward(path[n+i : next]) {
					if e := m.known[b]; e != nil { // it was looked at
						m.lru.MoveToBack(e.place)
					}
				}
				return n + i
			}
			m.hold(b)
			m.free++
			room--
		}
		for part := 1; part <= m.Windows; part++ {
			if e.with[part] == nil {
				e.with[part] = &own{}
				continue
			}
			m.take(e.with[part])
			m.free++
			room--
		}
	}
	return next
}

// leave gives up the blocks of windows that the request has no more use for. Some stay findable; all, when the request
// is over.
func (m *groupModel) leave(path []uint32, n int, stays func(part, i int) bool, over bool) {
	for part := 1; part <= m.Windows; part++ {
		for i := n - 1; i >= 0; i-- {
			o := m.known[path[i]].with[part]
			switch {
			case o == nil || o.place != nil || stays(part, i):
			case over || m.kept(part, i):
				m.give(path[i], part)
			default:
				m.drop(path[i], part)
			}
		}
	}
}

// hold takes an entry out of the way of evictions.
func (m *groupModel) hold(b uint32) {
	m.lru.Remove(m.known[b].place)
	m.known[b].place = nil
}

func (m *groupModel) giveStates(b uint32) {
	for part := m.Windows + 1; part < m.count(); part++ {
		if o := m.known[b].with[part]; o != nil && o.place == nil {
			m.give(b, part)
		}
	}
}
