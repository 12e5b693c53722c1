package tier

import (
	"context"
	"errors"
	"slices"
)

// Place is blocks of a list that a tier has, one after another.
type Place struct{ Tier, Blocks int }

// Has says where the longest beginning of a list that the tiers have together is: each part in the first tier that has
// its first block. Tiers that fail or are left alone have nothing; Stats count it. The error is that of the context, or ErrClosed.
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
			if !m.allow(g) {
				failed[i] = true
				continue
			}
			var err error
			list := keys // a call that hangs may read it later
			if n, err = m.ask(ctx, g, opHas, len(list), func(ctx context.Context) (int, error) { return g.tier.Has(ctx, list) }); err != nil {
				n, failed[i] = 0, true
			}
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

// Delete has all tiers forget blocks. Jobs that store or load some of them are cancelled first, so that they do not come back. An
// error names the tiers that may still have them: those are called even in their pauses.
func (m *Mover) Delete(ctx context.Context, keys []Key) error {
	keys = slices.Clone(keys)
	gone := make(map[Key]struct{}, len(keys))
	for _, k := range keys {
		gone[k] = struct{}{}
	}
	return m.forget(ctx, "delete", func(b *Block) bool { _, ok := gone[b.Key]; return ok },
		func(ctx context.Context, t Tier) error { return t.Delete(ctx, keys) })
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
			err = errors.Join(err, j.hung) // its call may put blocks yet
		case <-ctx.Done():
			err = errors.Join(err, ctx.Err()) // and the tiers forget what they have by now
		}
	}
	for _, g := range m.tiers {
		_, e := m.ask(context.WithoutCancel(ctx), g, op, 0, func(ctx context.Context) (int, error) { return 0, do(ctx, g.tier) })
		err = errors.Join(err, e)
	}
	return err
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
// has nothing then.
func (m *Mover) ask(ctx context.Context, g *guard, op string, limit int, fn func(context.Context) (int, error)) (int, error) {
	type answer struct {
		n   int
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.base, cancel)()
	answers := make(chan answer, 2)
	m.mu.Lock()
	m.jobs++ // of the call, which may outlive this one
	m.mu.Unlock()
	go func() {
		defer m.leave()
		n, hung, err := m.call(ctx, g, op, limit, func(err error) { answers <- answer{0, err} }, fn)
		if !hung {
			answers <- answer{n, err}
		}
	}()
	var enough <-chan struct{}
	if op == opHas {
		enough = ctx.Done()
	}
	select {
	case a := <-answers:
		return a.n, a.err
	case <-enough:
		return 0, ctx.Err()
	}
}
