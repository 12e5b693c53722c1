package tier

import (
	"context"
	"errors"
	"slices"
	"time"
)

// store puts the blocks of a job into each tier.
func (m *Mover) store(j *job) {
	r := Result{By: make([]int, len(m.tiers))}
	for i := range j.Blocks {
		j.Blocks[i].Sum = j.Blocks[i].Summed()
	}
	for i, g := range m.tiers {
		if !m.allow(g) {
			r.Err = errors.Join(r.Err, ErrRefused{Name: g.name})
			continue
		}
		hung, err := m.put(j.ctx, g, j, j.Blocks, r)
		if hung {
			return
		}
		if err != nil {
			r.Err = errors.Join(r.Err, err)
			continue
		}
		r.By[i], r.Blocks = len(j.Blocks), len(j.Blocks)
	}
	m.deliver(j, r)
}

// put puts blocks of a job into a tier. When that hangs, the job is done with the result so far, and its worker free.
func (m *Mover) put(ctx context.Context, g *guard, j *job, blocks []Block, r Result) (hung bool, err error) {
	_, hung, err = m.call(ctx, g, "put", len(blocks), m.abandon(j, r), func(ctx context.Context) (int, error) {
		return 0, g.tier.Put(ctx, blocks)
	})
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		g.stats.Stored += int64(len(blocks))
		g.stats.StoredBytes += sizes(blocks)
	}
	return hung, err
}

// abandon is what is done when a call for a job hangs.
func (m *Mover) abandon(j *job, r Result) func(error) {
	return func(err error) {
		r.Err = errors.Join(r.Err, err)
		j.hung = err
		close(j.stuck)
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
		for i, g := range m.tiers {
			if got > 0 || i == last || failed[i] || r.Blocks == all || j.ctx.Err() != nil {
				continue
			}
			if !m.allow(g) {
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

// get reads blocks from a tier and checks them. The tier has to forget one that is wrong.
func (m *Mover) get(j *job, g *guard, i int, blocks []Block, r Result) (n int, hung bool, err error) {
	begin := time.Now()
	n, hung, err = m.call(j.ctx, g, "get", len(blocks), m.abandon(j, r), func(ctx context.Context) (int, error) {
		asked := slices.Clone(blocks) // of which the tier changes what it likes
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
			if j.life.Err() != nil || !m.allow(g) {
				continue
			}
			if hung, _ := m.put(j.life, g, j, j.Blocks[p.from:p.to], Result{}); hung {
				return
			}
		}
	}
}
