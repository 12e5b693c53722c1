package offload

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/planner"
)

// partBytes is what is packed, or loaded, at a time: large enough that copies run at their rate, and small enough that the
// first blocks are there soon.
const partBytes = 8 << 20

// Patience is how long the pool waits for tiers. Tests change it.
var Patience = struct {
	Ask   time.Duration // by the storer, for their answers: one that does not answer is given all blocks
	Slow  time.Duration // until others go on without what a call holds
	Call  time.Duration // of a call that is not given up before
	Grace time.Duration // after that, until it hangs
}{100 * time.Millisecond, tier.DefaultSlow, tier.DefaultTimeout, tier.DefaultGrace}

// Offload is the way from a pool's blocks to tiers. What it knows of blocks is guarded by the pool's lock.
type Offload[B backend.Buffer] struct {
	guard  sync.Locker
	blocks *residency.Blocks
	cache  *group.Cache // of the blocks
	shape  *Shape[B]

	mover   *tier.Mover
	planner *planner.Planner
	down    lane[B]
	up      lane[B]
	end     context.Context // of all that it does
	stop    context.CancelFunc
	going   sync.WaitGroup
	probing atomic.Bool
	// returning is what waits for tiers to be done with host memory.
	returning sync.WaitGroup
	askAgain  time.Time  // when the storer asks tiers again, after one did not answer
	filling   sync.Mutex // the stream up

	// Under the guard:
	ready   ready
	rounds  int     // of the storer
	picked  []going // by the storer, which copies them and asks tiers about them
	held    *hold   // what it copies
	still   int     // callers that need it to copy nothing
	closed  bool
	epoch   int // of Forget
	erasing int // calls of Forget whose tiers still have what is to go
	wake    chan struct{}
	calm    *sync.Cond // nothing is left to be stored
	owned   map[*hold]struct{}
	meeting map[*Transfer]struct{} // loads that meet, and may have blocks that no sequence has yet
	queued  []int64                // bytes that each tier has to deliver to loads
	there   atomic.Int64           // Stats.There, counted without the guard
	stats   Stats
}

// hold is what a copy or a load is an owner of: blocks and, besides them, entries of the tree.
type hold struct{ blocks, path []block.Block }

// entries are those of a load's hold.
func (o *Offload[B]) entries(h *hold) []block.Block { return o.cache.PathOf(h.path, h.blocks) }

// Stats are what an Offload has done. Blocks are those of the pool.
type Stats struct {
	Stored    int64   // blocks that were put into tiers
	There     int64   // blocks that tiers had already
	Missed    int64   // blocks that left the device, or could not be held, before they were copied, and those that no tier took; each once
	Waiting   int     // blocks written, but not yet given to a tier
	Loading   int     // loads under way
	Loaded    int64   // blocks that came back
	Tokens    []int64 // that sequences got from each tier
	Decisions planner.Stats
	Moves     tier.MoverStats
	// Reason is why the last load loaded as much as it did.
	Reason string
}

// New connects the blocks of a pool with tiers, which stay the caller's; the first checked of them compare payloads with
// their sums as they copy them. log receives what tiers do. The shape is that of the pool, and no longer the caller's.
func New[B backend.Buffer](be backend.Backend[B], guard sync.Locker, blocks *residency.Blocks, shape *Shape[B], tiers []tier.Tier, checked int, log *slog.Logger) (_ *Offload[B], err error) {
	o := &Offload[B]{guard: guard, blocks: blocks, cache: blocks.Groups(), shape: shape, owned: map[*hold]struct{}{}, meeting: map[*Transfer]struct{}{}, wake: make(chan struct{}, 1)}
	o.calm, o.ready = sync.NewCond(guard), newReady(blocks.Total())
	o.stats.Tokens, o.queued = make([]int64, len(tiers)), make([]int64, len(tiers))
	defer func() {
		if err != nil {
			if o.mover != nil {
				_ = o.mover.Close()
			}
			_ = o.release()
		}
	}()
	o.planner = planner.New(len(tiers))
	if o.mover, err = tier.NewMover(tiers, tier.MoverOptions{Promote: true, Checked: checked, Bytes: max(tier.DefaultMoverBytes, int64(laneParts+spareParts(len(tiers)))*max(partBytes, shape.bytes)),
		Slow: Patience.Slow, Timeout: Patience.Call, Grace: Patience.Grace, Logger: log, Observe: func(tier int, bytes int64, took time.Duration) {
			o.planner.Observe(tier, bytes, took, time.Now())
		}}); err != nil {
		return nil, err
	}
	part := max(partBytes/shape.bytes, 1) * shape.bytes
	for _, l := range []*lane[B]{&o.down, &o.up} {
		if err := l.open(be, part, len(tiers)); err != nil {
			return nil, err
		}
	}
	o.end, o.stop = context.WithCancel(context.Background())
	blocks.OnWritten, blocks.OnWriting = o.written, o.poke
	o.going.Add(1)
	go o.run()
	return o, nil
}

// BlockBytes is what a block, the largest one, is to a tier.
func (o *Offload[B]) BlockBytes() int64 { return o.shape.Largest() }

// Planner decides what is loaded.
func (o *Offload[B]) Planner() *planner.Planner { return o.planner }

// Still does something while no copy to tiers owns blocks, after it has counted those that left the device before. The guard is held
// throughout, except while it waits.
func (o *Offload[B]) Still(do func() error) error {
	o.still++
	for o.held != nil {
		o.calm.Wait()
	}
	o.still--
	o.poke()
	o.sweep()
	return do()
}

// Forget gives up what is on its way in either direction: the tree was cleared. Clear is called after it, and nothing is loaded
// until that is done. root is what Clear gets. The guard is held.
func (o *Offload[B]) Forget(root tier.Key) {
	_ = o.drop() // other scopes are unchanged
	o.picked = slices.DeleteFunc(o.picked, func(g going) bool { return root == tier.Key{} || g.root == root })
	o.epoch++
	o.erasing++
}

// Forgotten reports whether the tree was cleared since a load began. The guard is held.
func (o *Offload[B]) Forgotten(l *Transfer) bool { return l.epoch != o.epoch }

// Clear has the tiers forget all blocks of a root; of the zero key, all blocks. What is on its way does not arrive. The caller
// has cleared the tree and called Forget, and does not hold the guard.
func (o *Offload[B]) Clear(ctx context.Context, root tier.Key) error {
	defer func() {
		o.guard.Lock()
		defer o.guard.Unlock()
		o.erasing--
	}()
	return o.mover.Clear(ctx, root)
}

// Flush waits until everything that steps have written is in the tiers, or ctx ends. It waits neither for what later steps write nor for a
// tier that hangs: tier.ErrHung.
func (o *Offload[B]) Flush(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		o.guard.Lock()
		defer o.guard.Unlock()
		o.calm.Broadcast()
	})
	defer stop()
	until := func(is func() bool) {
		for !is() && !o.closed && ctx.Err() == nil {
			o.calm.Wait()
		}
	}
	o.guard.Lock()
	o.poke()
	begun := o.blocks.Begun()
	until(func() bool { return !o.blocks.Writing(begun) })
	entries := slices.Clone(o.ready.order)
	until(func() bool {
		entries = slices.DeleteFunc(entries, func(entry block.Block) bool { _, due := o.ready.due[entry]; return !due })
		return len(entries) == 0
	})
	round := o.rounds
	until(func() bool { return o.picked == nil || o.rounds > round })
	o.guard.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	return o.mover.Settle(ctx)
}

// Close ends what is on its way and waits for it. It is called without the guard, when no calls come any more.
func (o *Offload[B]) Close() error {
	o.guard.Lock()
	o.closed = true
	o.calm.Broadcast()
	o.guard.Unlock()
	o.stop()
	err := o.mover.Close() // jobs end, and with them what waits for them
	o.going.Wait()
	if err == nil { // else a call goes on, with memory that is let go when it ends
		o.returning.Wait()
	}
	return errors.Join(err, o.release())
}

func (o *Offload[B]) release() error {
	return errors.Join(o.down.close(), o.up.close(), o.shape.Close())
}

// Own notes in books what copies and loads own. The caller holds the guard.
func (o *Offload[B]) Own(b *residency.Books) {
	for h := range o.owned {
		b.Own(h.blocks)
		b.OwnPath(h.path)
	}
}

// give gives up what a copy or a load owns.
func (o *Offload[B]) give(h *hold) {
	delete(o.owned, h)
	_ = o.blocks.Retire(nil, h.blocks) // ours
	_ = o.blocks.RetirePath(nil, h.path)
	h.blocks, h.path = nil, nil
}

// Stats returns the numbers. The caller holds the guard.
func (o *Offload[B]) Stats() Stats {
	s := o.stats
	s.Waiting, s.There = o.ready.blocks+len(o.picked), o.there.Load()
	s.Tokens = append([]int64(nil), s.Tokens...)
	s.Decisions, s.Moves = o.planner.Stats(), o.mover.Stats()
	return s
}
