package tier

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Place is blocks of a list that a tier has, one after another.
type Place struct{ Tier, Blocks int }

// Has says where the longest beginning of a list that the tiers have together is: each part in the first tier that has
// its first block. Tiers that fail or are paused have nothing; Stats count it. Nor has one that does not answer within its share of
// the time that the context leaves, which is equal for all tiers still to be asked. The error is that of the context, or ErrClosed.
func (m *Mover) Has(ctx context.Context, keys []Key) ([]Place, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.leave()
	keys = slices.Clone(keys) // the caller's array is his again when this returns
	var out []Place
	failed := make([]bool, len(m.tiers))
	for last := -1; len(keys) > 0; {
		n := 0
		for i, g := range m.tiers {
			if n > 0 || i == last || failed[i] {
				continue
			}
			if !m.allow(g, load) {
				failed[i] = true
				continue
			}
			var err error
			list := keys // a call that hangs may read it later
			share, cancel := shareOf(ctx, len(m.tiers)-i)
			if n, err = m.ask(share, g, request{op: opHas, kind: load, limit: len(list)}, func(ctx context.Context) (int, error) { return g.tier.Has(ctx, list) }); err != nil {
				n, failed[i] = 0, true
			}
			cancel()
			if ctx.Err() != nil {
				return out, ctx.Err()
			}
			if m.base.Err() != nil {
				return out, ErrClosed{Name: "mover"}
			}
			if n > 0 {
				out = append(out, Place{i, n})
				keys, last = keys[n:], i
			}
		}
		if n == 0 {
			break
		}
	}
	return out, nil
}

// shareOf is a context for one of n calls that follow each other.
func shareOf(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok || n == 1 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Until(end)/time.Duration(n))
}

// Delete has all tiers forget blocks. Jobs that store or load some of them are cancelled first, so that they do not come back. An
// error names the tiers that may still have them: those are called even in their pauses.
func (m *Mover) Delete(ctx context.Context, keys []Key) error {
	keys = slices.Clone(keys)
	gone := make(map[Key]struct{}, len(keys))
	for _, k := range keys {
		gone[k] = struct{}{}
	}
	return m.forget(ctx, "delete", func(b *Block) bool { _, ok := gone[b.Key]; return ok },
		func(ctx context.Context, t Tier) error { return t.Delete(ctx, slices.Clone(keys)) })
}

// Clear is Delete of all blocks of a root, or with the zero key of all there are. The caller submits no more of them meanwhile.
func (m *Mover) Clear(ctx context.Context, root Key) error {
	return m.forget(ctx, "clear", func(b *Block) bool { return root == Key{} || b.Root == root },
		func(ctx context.Context, t Tier) error { return t.Clear(ctx, root) })
}

func (m *Mover) forget(ctx context.Context, op string, match func(*Block) bool, do func(context.Context, Tier) error) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.leave()
	m.mu.Lock()
	var under []*job
	for j := range m.live {
		for i := range j.Blocks { // of which the job may set sums now
			if match(&j.Blocks[i]) {
				under = append(under, j)
				j.stop()
				break
			}
		}
	}
	m.mu.Unlock()
	var err error
	for _, j := range under {
		select {
		case <-j.freed:
		case <-j.stuck:
			select {
			case <-j.told: // other calls for it are over, or hang too
			case <-ctx.Done():
			}
			err = errors.Join(err, j.hung) // its call may put blocks yet
		case <-ctx.Done():
			err = errors.Join(err, ctx.Err()) // and the tiers forget what they have by now
		}
	}
	errs := make([]error, len(m.tiers))
	var all sync.WaitGroup
	for i, g := range m.tiers { // at once: one that hangs does not delay others
		all.Go(func() {
			_, errs[i] = m.ask(context.WithoutCancel(ctx), g, request{op: op, kind: forgetting}, func(ctx context.Context) (int, error) { return 0, do(ctx, g.tier) })
		})
	}
	all.Wait()
	return errors.Join(append(errs, err)...)
}

// enter begins a call that is no job.
func (m *Mover) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed{Name: "mover"}
	}
	m.jobs++
	return nil
}

// opHas is the call that asks what a tier has, as errors name it.
const opHas = "has"

// ask calls a tier and waits no longer than for a call that hangs, and where the tier is only asked what it has, than its context lives: it
// has nothing then. While such a call hangs in a tier, others are not made to it: they fail at once in the same way.
func (m *Mover) ask(ctx context.Context, g *guard, q request, fn func(context.Context) (int, error)) (int, error) {
	type answer struct {
		n   int
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.base, cancel)()
	answers := make(chan answer, 2)
	m.mu.Lock()
	if q.kind == forgetting && g.hung > 0 && g.late[forgetting] > 0 {
		m.mu.Unlock()
		return 0, ErrHung{Name: g.name, Op: q.op}
	}
	m.jobs++ // of the call, which may outlive this one
	if q.op == opHas {
		g.asking++
	}
	m.mu.Unlock()
	q.onHang = func(err error) { answers <- answer{0, err} }
	go func() {
		defer m.leave()
		n, hung, err := m.call(ctx, g, q, fn)
		if q.op == opHas {
			m.mu.Lock()
			g.asking--
			m.mu.Unlock()
		}
		if !hung {
			answers <- answer{n, err}
		}
	}()
	var enough <-chan struct{}
	if q.op == opHas {
		enough = ctx.Done()
	}
	select {
	case a := <-answers:
		return a.n, a.err
	case <-enough:
		return 0, ctx.Err()
	}
}
