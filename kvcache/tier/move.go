package tier

import (
	"context"
	"errors"
	"slices"
	"time"
)

// storing is a store in progress, into all tiers at once: one that hangs delays no other. The mover's lock guards it.
type storing struct {
	by     []int
	errs   []error // of each tier
	due    int     // tiers without a result
	inside int     // calls that have the blocks
}

// store puts the blocks of a job into each tier.
func (m *Mover) store(j *job) {
	for i := range j.Blocks {
		j.Blocks[i].Sum = j.Blocks[i].Summed()
	}
	s := &storing{by: make([]int, len(m.tiers)), errs: make([]error, len(m.tiers))}
	var into []int
	for i, g := range m.tiers {
		if m.allow(g, store) {
			into = append(into, i)
		} else {
			s.errs[i] = ErrRefused{Name: g.name}
		}
	}
	if s.due, s.inside = len(into), len(into); s.due == 0 {
		m.stored(j, s)
		m.release(j)
		return
	}
	m.mu.Lock()
	m.jobs += len(into) - 1 // each may hang by itself
	m.mu.Unlock()
	for _, i := range into[1:] {
		go m.storeInto(j, s, i)
	}
	m.storeInto(j, s, into[0])
}

// storeInto puts the blocks of a job into one tier. The last call releases them.
func (m *Mover) storeInto(j *job, s *storing, i int) {
	end := func(n int, err error) {
		m.mu.Lock()
		s.by[i], s.errs[i] = n, err
		s.due--
		last := s.due == 0
		m.mu.Unlock()
		if last {
			m.stored(j, s)
		}
	}
	hung, err := m.put(j.ctx, m.tiers[i], j, j.Blocks, func(err error) {
		m.stick(j, err)
		end(0, err)
	})
	switch {
	case hung: // and over by now
	case err != nil:
		end(0, err)
	default:
		end(len(j.Blocks), nil)
	}
	m.mu.Lock()
	s.inside--
	last := s.inside == 0
	m.mu.Unlock()
	if last {
		m.release(j)
	} else {
		m.leave()
	}
}

// stored delivers the result of a store.
func (m *Mover) stored(j *job, s *storing) {
	r := Result{By: s.by, Err: errors.Join(s.errs...)}
	for _, n := range s.by {
		r.Blocks = max(r.Blocks, n)
	}
	m.free(j)
	m.deliver(j, r)
}

// put puts blocks of a job into a tier.
func (m *Mover) put(ctx context.Context, g *guard, j *job, blocks []Block, onHang func(error)) (hung bool, err error) {
	q := request{op: "put", kind: store, limit: len(blocks), onSlow: func() { m.late(j) }, onHang: onHang}
	own := slices.Clone(blocks) // which the tier may change
	_, hung, err = m.call(ctx, g, q, func(ctx context.Context) (int, error) {
		return 0, g.tier.Put(ctx, own)
	})
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		g.stats.Stored += int64(len(blocks))
		g.stats.StoredBytes += sizes(blocks)
	}
	return hung, err
}

// stick notes that a call for a job hangs.
func (m *Mover) stick(j *job, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j.hung == nil {
		j.hung = err
		close(j.stuck)
	}
}

// abandon ends a load whose call hangs, with the result so far.
func (m *Mover) abandon(j *job, r Result) func(error) {
	return func(err error) {
		r.Err = errors.Join(r.Err, err)
		m.stick(j, err)
		m.free(j)
		m.deliver(j, r)
	}
}

func sizes(blocks []Block) (n int64) {
	for i := range blocks {
		n += int64(len(blocks[i].Bytes))
	}
	return n
}

// piece is blocks of a load that came from one tier.
type piece struct{ tier, from, to int }

// load reads the blocks of a job from the tiers.
func (m *Mover) load(j *job) {
	all := len(j.Blocks)
	r := Result{By: make([]int, len(m.tiers))}
	var pieces []piece
	failed := make([]bool, len(m.tiers)) // asked no more
	for last := -1; ; {                  // the tier that the last piece is from, which does not have the next block
		got := 0
		for _, i := range j.order(r.Blocks, len(m.tiers)) {
			g := m.tiers[i]
			if got > 0 || i == last || failed[i] || r.Blocks == all || j.ctx.Err() != nil {
				continue
			}
			if !m.allow(g, load) {
				failed[i] = true
				r.Err = errors.Join(r.Err, ErrRefused{Name: g.name})
				continue
			}
			n, hung, err := m.get(j, g, i, j.Blocks[r.Blocks:], r)
			if hung {
				return
			}
			if err != nil {
				failed[i] = true
				r.Err = errors.Join(r.Err, err)
			}
			if got = n; got > 0 {
				pieces = append(pieces, piece{i, r.Blocks, r.Blocks + got})
				r.By[i] += got
				r.Blocks += got
				last = i
			}
		}
		if got == 0 {
			break
		}
	}
	switch {
	case r.Blocks == all:
		r.Err = nil
	case j.ctx.Err() != nil && !errors.Is(r.Err, j.ctx.Err()):
		r.Err = errors.Join(r.Err, j.ctx.Err())
	}
	m.deliver(j, r)
	if m.o.Promote {
		m.promote(j, pieces)
	}
}

// order is the order in which tiers are asked for a block: first the one that Has found it in.
func (j *job) order(block, tiers int) (order []int) {
	for _, p := range j.Places {
		if block -= p.Blocks; block < 0 {
			if p.Tier >= 0 && p.Tier < tiers {
				order = append(order, p.Tier)
			}
			break
		}
	}
	for i := range tiers {
		if len(order) == 0 || i != order[0] {
			order = append(order, i)
		}
	}
	return order
}

// get reads blocks from a tier and checks them. A wrong one is deleted from the tier.
func (m *Mover) get(j *job, g *guard, i int, blocks []Block, r Result) (n int, hung bool, err error) {
	begin := time.Now()
	q := request{op: "get", kind: load, limit: len(blocks), onSlow: func() { m.late(j) }, onHang: m.abandon(j, r)}
	n, hung, err = m.call(j.ctx, g, q, func(ctx context.Context) (int, error) {
		asked := slices.Clone(blocks) // which the tier may change
		n, err := g.tier.Get(ctx, asked)
		if n < 0 || n > len(blocks) {
			return n, err
		}
		for k := range n {
			blocks[k].Sum = asked[k].Sum
		}
		if i < m.o.Checked {
			return n, err
		}
		if right := whole(blocks[:n]); right < n {
			key := blocks[right].Key
			return right, errors.Join(ErrCorrupt{Name: g.name, Key: key}, g.tier.Delete(ctx, []Key{key}))
		}
		return n, err
	})
	took := time.Since(begin)
	if n == 0 {
		return n, hung, err
	}
	bytes := sizes(blocks[:n])
	m.mu.Lock()
	g.stats.Loaded += int64(n)
	g.stats.LoadedBytes += bytes
	m.mu.Unlock()
	if m.o.Observe != nil {
		m.o.Observe(i, bytes, took)
	}
	return n, hung, err
}

// promote puts what came from lower tiers into those above.
func (m *Mover) promote(j *job, pieces []piece) {
	for _, p := range pieces {
		for _, g := range m.tiers[:p.tier] {
			if j.life.Err() != nil || !m.allow(g, store) {
				continue
			}
			if hung, _ := m.put(j.life, g, j, j.Blocks[p.from:p.to], m.abandon(j, Result{})); hung {
				return
			}
		}
	}
}
