package block

import "slices"

// model is the allocator as one would write it without regard to speed: the order
// of reuse is a slice, everything else a map.
type model struct {
	total  int
	order  []uint32
	gen    map[uint32]uint32
	refs   map[uint32]int
	cached map[uint32]bool
	claims map[*Claim]int
	peak   int
}

func newModel(total int) *model {
	m := &model{total: total, gen: map[uint32]uint32{}, refs: map[uint32]int{}, cached: map[uint32]bool{}, claims: map[*Claim]int{}}
	for id := range uint32(total) {
		m.order = append(m.order, id)
	}
	return m
}

// grow puts the new blocks after the free and before the cached ones.
func (m *model) grow(n int) {
	at := len(m.order) - len(m.cached)
	for range n {
		m.order = slices.Insert(m.order, at, uint32(m.total))
		at++
		m.total++
	}
}

func (m *model) held() int { return m.total - len(m.order) }

func (m *model) reserved() (n int) {
	for _, blocks := range m.claims {
		n += blocks
	}
	return n
}

func (m *model) available() int { return len(m.order) - m.reserved() }

func (m *model) allocate(c *Claim, n int) ([]Block, error) {
	available := m.available() + m.claims[c]
	if n > available {
		return nil, ErrOutOfBlocks{Need: n, Free: available}
	}
	m.claims[c] -= min(n, m.claims[c])
	var out []Block
	for _, id := range m.order[:n] {
		m.gen[id]++
		out = append(out, Block{id, m.gen[id]})
		m.own(id)
	}
	return out, nil
}

// own takes a block out of the order.
func (m *model) own(id uint32) {
	m.order = slices.DeleteFunc(slices.Clone(m.order), func(o uint32) bool { return o == id })
	m.refs[id] = 1
	delete(m.cached, id)
	m.peak = max(m.peak, m.held())
}

func (m *model) known(b Block) error {
	switch {
	case int(b.ID) >= m.total || b.Gen == 0:
		return ErrUnknown
	case m.gen[b.ID] != b.Gen:
		return ErrStale
	}
	return nil
}

func (m *model) retain(bs ...Block) error {
	for _, b := range bs {
		if err := m.known(b); err != nil {
			return err
		}
		if m.refs[b.ID] == 0 {
			return ErrNotHeld
		}
	}
	for _, b := range bs {
		m.refs[b.ID]++
	}
	return nil
}

func (m *model) release(bs []Block, filled int) error {
	given := map[Block]int{}
	for _, b := range bs {
		if err := m.known(b); err != nil {
			return err
		}
		if given[b]++; given[b] > m.refs[b.ID] {
			return ErrDoubleFree
		}
	}
	for b, n := range given {
		m.refs[b.ID] -= n
	}
	gone := func(b Block) bool { return m.refs[b.ID] == 0 && !slices.Contains(m.order, b.ID) }
	for _, b := range bs[filled:] {
		if gone(b) {
			m.order = append([]uint32{b.ID}, m.order...)
		}
	}
	for _, b := range slices.Backward(bs[:filled]) {
		if gone(b) {
			m.order = append(m.order, b.ID)
			m.cached[b.ID] = true
		}
	}
	return nil
}

func (m *model) take(b Block) error {
	switch err := m.known(b); {
	case err != nil:
		return err
	case !m.cached[b.ID]:
		return ErrNotCached
	case m.available() == 0:
		return ErrOutOfBlocks{Need: 1}
	}
	m.own(b.ID)
	return nil
}

func (m *model) discard(b Block) error {
	switch err := m.known(b); {
	case err != nil:
		return err
	case !m.cached[b.ID]:
		return ErrNotCached
	}
	rest := slices.DeleteFunc(m.order, func(o uint32) bool { return o == b.ID })
	m.order = append([]uint32{b.ID}, rest...)
	delete(m.cached, b.ID)
	return nil
}

func (m *model) reserve(rs []Reservation) error {
	want := map[*Claim]int{}
	for _, r := range rs {
		want[r.Claim] = max(want[r.Claim], r.Blocks)
	}
	need := 0
	for c, n := range want {
		need += max(0, n-m.claims[c])
	}
	if need > m.available() {
		return ErrOutOfBlocks{Need: need, Free: m.available()}
	}
	for c, n := range want {
		m.claims[c] = max(n, m.claims[c])
	}
	return nil
}
