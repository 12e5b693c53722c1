// Package memory is the tier of host memory: blocks that the device had no room for, a copy away.
//
// Payloads lie in slabs of equal slots outside of the Go heap, and are compared with their sums as they are copied, at no extra
// cost: a Get returns what was put, or a miss. When there is no room, the block used least recently goes, children before their parents, and
// of those that one call used last, the ones that were never read.
package memory

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/ferrumkv/ferrumkv/internal/hostmemory"
	"github.com/ferrumkv/ferrumkv/internal/journal"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// Options of a Tier.
type Options struct {
	Name  string // of the tier; "": memory
	Bytes int64  // the memory that payloads may take; DefaultBytes says what there is

	// Logger receives that payloads changed, and no keys. The tier does not wait for its handler. nil: nothing is logged.
	Logger *slog.Logger
}

// DefaultBytes is a budget for a process whose pool takes so many bytes of host memory: half of what that leaves of the
// machine's memory or, in a container, of its limit. The other half is for weights, the program and the system. 0: unknown, or none is left.
func DefaultBytes(pool int64) int64 { return max(hostmemory.Physical()-pool, 0) / 2 }

// Tier is a tier.Tier in host memory. It is safe for concurrent use. Payloads are copied without the lock.
type Tier struct {
	info tier.Info
	log  *slog.Logger

	mu     sync.Mutex
	ended  sync.Cond // a call ended
	calls  int       // in progress
	closed bool
	now    uint64 // the number of calls that used blocks so far: the clock of entry.used
	store  store
	books  books
	stats  tier.Stats

	lists sync.Pool // of *[]copying
}

var _ tier.Tier = (*Tier)(nil)

// Open returns an empty tier. It takes memory when blocks come.
func Open(o Options) (*Tier, error) {
	if o.Name == "" {
		o.Name = "memory"
	}
	if o.Bytes <= 0 {
		return nil, tier.ErrConfig{Name: o.Name, What: fmt.Sprintf("a budget of %d bytes; DefaultBytes is one that fits the machine", o.Bytes)}
	}
	t := &Tier{info: tier.Info{Name: o.Name, Medium: tier.Memory, Largest: o.Bytes}, log: journal.Async(o.Logger)}
	t.ended.L = &t.mu
	t.store.budget = o.Bytes
	t.stats.Capacity = o.Bytes
	t.books.init()
	t.lists.New = func() any { return new([]copying) }
	return t, nil
}

// Info says what the tier is.
func (t *Tier) Info() tier.Info { return t.info }

// enter begins a call, or says why not. The lock is held when it succeeds.
func (t *Tier) enter(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return tier.ErrFailed{Name: t.info.Name, Op: op, Err: err}
	}
	t.mu.Lock()
	if t.closed || t.info.Largest == 0 { // or Open did not make it
		t.mu.Unlock()
		return tier.ErrClosed{Name: cmp.Or(t.info.Name, "memory")}
	}
	t.calls++
	return nil
}

// leave ends a call and gives the lock back.
func (t *Tier) leave() {
	if t.calls--; t.calls == 0 {
		t.ended.Broadcast()
	}
	t.mu.Unlock()
}

// Has implements tier.Tier.
func (t *Tier) Has(ctx context.Context, keys []tier.Key) (n int, err error) {
	if err := t.enter(ctx, "has"); err != nil {
		return 0, err
	}
	defer t.leave()
	for n < len(keys) {
		if e := t.books.find(keys[n]); e == nil || !e.ready {
			break
		}
		n++
	}
	t.stats.Queried += int64(len(keys))
	t.stats.Hits += int64(n)
	return n, nil
}

// Delete implements tier.Tier.
func (t *Tier) Delete(ctx context.Context, keys []tier.Key) error {
	if err := t.enter(ctx, "delete"); err != nil {
		return err
	}
	defer t.leave()
	for _, key := range keys {
		if e := t.books.find(key); e != nil {
			t.remove(e)
		}
	}
	return nil
}

// Clear implements tier.Tier.
func (t *Tier) Clear(ctx context.Context, root tier.Key) error {
	if err := t.enter(ctx, "clear"); err != nil {
		return err
	}
	defer t.leave()
	for _, e := range t.books.index {
		if root == (tier.Key{}) || e.root == root {
			t.remove(e)
		}
	}
	return nil
}

// Stats implements tier.Tier.
func (t *Tier) Stats() tier.Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stats
}

// Close gives the memory back to the system, after the calls in progress.
func (t *Tier) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for t.calls > 0 {
		t.ended.Wait()
	}
	err := t.store.close()
	t.books.init()
	t.stats.Blocks, t.stats.Bytes = 0, 0
	return err
}
