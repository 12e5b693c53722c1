package below

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// StatsWait is how long Stats waits for tiers: one that does not answer has its last statistics. Tests change it.
var StatsWait = 100 * time.Millisecond

// answer is the last result of a tier's Stats, which is called once at a time: it may never return.
type answer struct {
	mu    sync.Mutex
	last  tier.Stats
	asked chan struct{} // closed when the call returns; nil: there is none
}

// Stats are the tiers' statistics, in their order. No lock of the pool is held: tiers may be the program's own.
func (b *Below[B]) Stats() []tier.Stats {
	out, asked := make([]tier.Stats, len(b.Tiers)), make([]<-chan struct{}, len(b.Tiers))
	for i, t := range b.Tiers {
		asked[i] = b.answers[i].ask(t)
	}
	late := time.NewTimer(StatsWait)
	defer late.Stop()
	for i := range asked {
		select {
		case <-asked[i]:
			continue
		case <-late.C:
		}
		break
	}
	for i, a := range b.answers {
		a.mu.Lock()
		out[i] = a.last
		a.mu.Unlock()
	}
	return out
}

// ask calls a tier's Stats, unless a call is under way, and returns a channel that is closed when it returns.
func (a *answer) ask(t tier.Tier) <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked == nil {
		done := make(chan struct{})
		a.asked = done
		go func() {
			defer close(done)
			defer func() {
				_ = recover() // a tier that panics gave no answer
				a.mu.Lock()
				defer a.mu.Unlock()
				a.asked = nil
			}()
			s := t.Stats()
			a.mu.Lock()
			defer a.mu.Unlock()
			a.last = s
		}()
	}
	return a.asked
}

// closeAll closes tiers, all at once, and waits no longer than CloseWait for them.
func closeAll(tiers []tier.Tier) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), CloseWait)
	defer cancel()
	closed := make([]chan error, len(tiers))
	for i, t := range tiers {
		closed[i] = make(chan error, 1)
		go func() { closed[i] <- t.Close() }()
	}
	for i, t := range tiers {
		select {
		case e := <-closed[i]:
			err = errors.Join(err, e)
		case <-ctx.Done():
			if len(closed[i]) > 0 {
				err = errors.Join(err, <-closed[i])
			} else {
				err = errors.Join(err, tier.ErrHung{Name: t.Info().Name, Op: "close"})
			}
		}
	}
	return err
}
