package offload

import (
	"context"
	"errors"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/planner"
)

// Want is the part of a prompt that tiers have.
type Want struct {
	Path   prefix.Path // where it goes on; the parent is the last of Have
	Have   []block.Block
	Tokens []uint32 // of the blocks behind those, full ones
	Keys   []tier.Key
	Places []tier.Place
	Both   bool // the sequence computes meanwhile, if that is best
}

// Find asks the tiers for blocks, and returns where the first of them are and how many that are.
func (o *Offload[B]) Find(ctx context.Context, keys []tier.Key) (places []tier.Place, n int) {
	if len(keys) == 0 {
		return nil, 0
	}
	places, _ = o.mover.Has(ctx, keys) // a tier that fails has nothing, and counts that
	for _, p := range places {
		n += p.Blocks
	}
	return places, n
}

// Load is blocks on their way up. It owns those that are there, and those before them, until they are taken over or dropped.
type Load struct {
	Done chan struct{} // closed when no more will come

	cancel  context.CancelFunc
	path    *hold // those before the load, and the ones that came; guarded
	base    int   // of them before it
	from    []int // how many came from each tier
	epoch   int
	dropped bool

	// Of a load that meets: see meet.go.
	meets         bool
	wanted, front int   // blocks, and those that the sequence has computed
	back          *hold // the last ones
	begun         time.Time
	computing     time.Duration // what computing all of them was expected to take
}

// Blocks is how many blocks the load has brought, and of each tier. The guard is held.
func (l *Load) Blocks() (n int, from []int) { return len(l.path.blocks) - l.base, l.from }

// Cancel has no more blocks come.
func (l *Load) Cancel() { l.cancel() }

// Begin loads what of a prompt is worth it; nil: nothing is. The guard is held.
func (o *Offload[B]) Begin(w Want) *Load {
	if o.closed {
		return nil
	}
	d := o.decide(&w, 0, 0)
	if d.Blocks == 0 && d.Probe == 0 {
		return nil
	}
	if err := o.blocks.Share(w.Have); err != nil {
		return nil
	}
	l := &Load{Done: make(chan struct{}), path: &hold{append([]block.Block(nil), w.Have...)}, base: len(w.Have),
		from: make([]int, len(o.stats.Tokens)), epoch: o.epoch}
	l.meets, l.wanted, l.back, l.begun, l.computing = d.Choice == planner.Meet, len(w.Keys), &hold{}, time.Now(), d.Computing
	o.owned[l.path], o.owned[l.back] = struct{}{}, struct{}{}
	if l.meets {
		o.meeting[l] = struct{}{}
	}
	o.stats.Loading++
	ctx, cancel := context.WithCancel(o.end)
	l.cancel = cancel
	o.going.Add(1)
	go o.load(ctx, l, w, d)
	return l
}

// decide says what to do next of a load that has brought blocks and taken a while.
func (o *Offload[B]) decide(w *Want, loaded int, waited time.Duration) planner.Decision {
	q := planner.Prompt{BlockTokens: o.tokens, BlockBytes: o.bytes, Context: len(w.Have) * o.tokens, Loaded: loaded, Waited: waited, Both: w.Both && loaded == 0,
		Now: time.Now()}
	for _, p := range w.Places {
		q.Pieces = append(q.Pieces, planner.Piece{Tier: p.Tier, Blocks: p.Blocks})
	}
	d := o.planner.Decide(q)
	if d.Computing == 0 { // nobody told how long that takes: who has tiers wants them used
		d.Choice, d.Blocks, d.Probe = planner.Load, len(w.Keys)-loaded, 0
		d.Why = "how fast the runner computes is not known, so all is loaded"
	}
	return d
}

// load brings blocks until the planner says that it is enough.
func (o *Offload[B]) load(ctx context.Context, l *Load, w Want, d planner.Decision) {
	defer o.going.Done()
	begin, loaded := time.Now(), 0
	var computing time.Duration
	if computing = d.Computing; d.Blocks == 0 && d.Probe > 0 {
		o.probe(ctx, &w, d.Probe)
	}
	if l.meets {
		o.loadBack(ctx, l, &w)
		d.Blocks, computing = 0, 0
	}
	for d.Blocks > 0 && ctx.Err() == nil {
		n := o.bring(ctx, l, &w, loaded, d.Blocks, d.Wait)
		loaded += n
		if loaded == len(w.Keys) || n == 0 {
			break
		}
		d = o.decide(&w, loaded, time.Since(begin))
	}
	if computing > 0 && loaded > 0 {
		o.planner.Ended(time.Since(begin), computing*time.Duration(loaded)/time.Duration(len(w.Keys)))
	}
	o.guard.Lock()
	defer o.guard.Unlock()
	o.stats.Loading--
	o.stats.Reason = d.Why
	l.cancel()
	close(l.Done)
}

// bring loads n blocks from one on, waits no longer than the planner says, and returns how many are in the tree.
func (o *Offload[B]) bring(ctx context.Context, l *Load, w *Want, at, n int, wait time.Duration) int {
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	begin, brought := time.Now(), 0
	following := func(from int) []tier.Key { return w.Keys[from:min(from+o.up.blocks, at+n)] }
	r := o.read(ctx, following(at), true)
	for r != nil {
		result := <-r.result
		came, end := result.Blocks, at+brought+len(r.keys)
		var next *reading
		if came == len(r.keys) && end < at+n { // is read while these are copied to the device
			next = o.read(ctx, following(end), false)
		}
		if came < len(r.keys) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			o.planner.Late(o.tierOf(w, at+brought+came), int64(at+n-end+len(r.keys)-came)*o.bytes, time.Since(begin), time.Now())
		}
		in := o.enter(l, w, at+brought, came, r.memory)
		o.credit(l, result.By, in)
		o.giveBack(r)
		if brought += in; in < len(r.keys) {
			if next != nil {
				<-next.result
				o.giveBack(next)
			}
			break
		}
		if r = next; r == nil && end < at+n {
			r = o.read(ctx, following(end), true)
		}
	}
	return brought
}

// credit notes of which tiers the first n blocks of a result are.
func (o *Offload[B]) credit(l *Load, by []int, n int) {
	o.guard.Lock()
	defer o.guard.Unlock()
	for i := range by {
		some := min(by[i], n)
		l.from[i], n = l.from[i]+some, n-some
	}
}

// reading is a part of host memory that tiers fill with blocks.
type reading struct {
	keys     []tier.Key
	memory   backend.HostMemory
	result   chan tier.Result
	released chan struct{}
}

// read has the tiers fill a part of host memory with blocks; nil: there will be none, or, unless wait is set, no part is free.
func (o *Offload[B]) read(ctx context.Context, keys []tier.Key, wait bool) *reading {
	r := &reading{keys: keys, result: make(chan tier.Result, 1), released: make(chan struct{})}
	if wait {
		var err error
		if r.memory, err = o.up.part(ctx); err != nil {
			return nil
		}
	} else {
		select { // who waits with a part of its own may wait for one that waits
		case r.memory = <-o.up.parts:
		default:
			return nil
		}
	}
	job := tier.Job{Wait: true, Blocks: make([]tier.Block, len(keys)), Done: func(res tier.Result) { r.result <- res }, Release: func() { close(r.released) }}
	for i, k := range keys {
		job.Blocks[i] = tier.Block{Key: k, Bytes: r.memory.Bytes()[int64(i)*o.bytes:][:o.bytes:o.bytes]}
	}
	if err := o.mover.Load(ctx, job); err != nil {
		o.up.parts <- r.memory
		return nil
	}
	return r
}

// giveBack lets go of a part once no tier uses it: it may be put into those further up, and one that hangs keeps it.
func (o *Offload[B]) giveBack(r *reading) {
	go func() {
		<-r.released
		o.up.parts <- r.memory
	}()
}

// tierOf is the tier that a block was to come from.
func (o *Offload[B]) tierOf(w *Want, block int) int {
	for _, p := range w.Places {
		if block -= p.Blocks; block < 0 {
			return p.Tier
		}
	}
	return -1
}

// probe reads blocks for nobody, so that the planner knows how fast their tier is.
func (o *Offload[B]) probe(ctx context.Context, w *Want, n int) {
	if r := o.read(ctx, w.Keys[:min(n, o.up.blocks)], true); r != nil {
		<-r.result
		o.giveBack(r)
	}
}

// enter takes blocks, fills them from memory and puts them into the tree behind those of the load, and returns how many are there
// then.
func (o *Offload[B]) enter(l *Load, w *Want, at, n int, memory backend.HostMemory) int {
	if n == 0 {
		return 0
	}
	taken := o.take(l, w, n)
	if taken == nil {
		return 0
	}
	n = len(taken.blocks)
	o.guard.Lock()
	defer o.guard.Unlock()
	defer delete(o.owned, taken)
	var err error
	_ = o.blocks.Lend(func() error { err = o.unpack(taken.blocks, memory); return nil })
	if o.blocks.Observe(err) != nil || l.dropped || l.epoch != o.epoch {
		_ = o.blocks.Retire(nil, taken.blocks)
		return 0
	}
	path := w.Path
	if last := len(l.path.blocks) - 1; last >= 0 {
		path.Parent = l.path.blocks[last]
	}
	path.Extra = path.Extra[min(at, len(path.Extra)):]
	in, err := o.blocks.Publish(nil, nil, path, w.Tokens[at*o.tokens:(at+n)*o.tokens], taken.blocks)
	if err != nil { // the tree was cleared meanwhile
		in = 0
	}
	l.path.blocks = append(l.path.blocks, taken.blocks[:in]...)
	o.stats.Loaded += int64(in)
	_ = o.blocks.Retire(nil, taken.blocks[in:]) // what a quota does not admit
	taken.blocks = taken.blocks[:0]
	for i := max(len(l.path.blocks)-in, 0); i < len(l.path.blocks); i++ { // others may write the same
		o.blocks.Settled(l.path.blocks[i])
	}
	return in
}

// take takes n blocks, or as many as there are, for a load; nil: there are none, or nobody wants them any more.
func (o *Offload[B]) take(l *Load, w *Want, n int) (taken *hold) {
	for {
		err := o.blocks.Retry(func() (err error) {
			if l.dropped || l.epoch != o.epoch {
				n = 0
			}
			if n > 0 {
				var claim block.Claim
				h := &hold{}
				if h.blocks, err = o.blocks.Take(&claim, w.Path.Root, nil, n); err == nil {
					taken = h
					o.owned[h] = struct{}{}
				}
			}
			return err
		})
		var short block.ErrOutOfBlocks
		if !errors.As(err, &short) || short.Free >= n {
			return taken
		}
		n = short.Free
	}
}

// unpack copies blocks from host memory to the device, and waits for that. The guard is not held.
func (o *Offload[B]) unpack(blocks []block.Block, memory backend.HostMemory) error {
	o.filling.Lock()
	defer o.filling.Unlock()
	l := &o.up
	l.numbers = o.store.Numbers(l.numbers[:0], blocks)
	if err := o.set.Unpack(l.stream, l.numbers, memory, 0); err != nil {
		return errors.Join(err, l.stream.Sync()) // part of it may be on its way
	}
	return l.stream.Sync()
}

// TakeOver gives a sequence the blocks that a load brought: it owns them now, and those before it owned already. tokens is how many of
// them it uses. The guard is held, and the load has ended.
func (o *Offload[B]) TakeOver(l *Load) (blocks []block.Block) {
	blocks = append(blocks, l.path.blocks[l.base:]...)
	for i, n := range l.from {
		o.stats.Tokens[i] += int64(n * o.tokens)
	}
	l.path.blocks = l.path.blocks[:l.base]
	o.give(l)
	return blocks
}

// Drop gives up what a load brought, and what it will bring. The guard is held.
func (o *Offload[B]) Drop(l *Load) {
	l.cancel()
	l.dropped = true
	o.give(l)
}

// give takes the load's ownership from its blocks.
func (o *Offload[B]) give(l *Load) {
	for _, h := range []*hold{l.path, l.back} {
		delete(o.owned, h)
		_ = o.blocks.Retire(nil, h.blocks)
		h.blocks = nil
	}
	l.base = 0
	delete(o.meeting, l)
}
