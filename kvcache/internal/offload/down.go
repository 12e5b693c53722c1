package offload

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// poke wakes the storer.
func (o *Offload[B]) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// run stores what is written, as long as the pool is open.
func (o *Offload[B]) run() {
	defer o.going.Done()
	for {
		memory, err := o.down.part(o.end)
		if err != nil {
			return
		}
		if !o.storeNext(memory) {
			o.down.back(memory)
			return
		}
	}
}

// storeNext stores the next blocks by way of memory, which it gives back later. It waits for some, and reports false
// when there will be none. It owns them while they are copied, but not while it asks tiers what they have: steps may need them.
func (o *Offload[B]) storeNext(memory *part) bool {
	o.guard.Lock()
	defer o.guard.Unlock()
	run, h := o.next()
	if run == nil {
		return false
	}
	defer func() {
		o.picked = nil
		o.rounds++
		o.calm.Broadcast()
	}()
	o.picked = slices.Clone(run)
	var err error
	takes := o.mover.Takes()
	_ = o.blocks.Lend(func() error {
		if takes {
			err = o.pack(run, memory)
		}
		return nil
	})
	o.give(h)
	o.held = nil
	o.calm.Broadcast()
	if o.blocks.Observe(err) != nil || !takes {
		o.stats.Missed += int64(len(run))
		o.down.back(memory)
		return true
	}
	o.guard.Unlock()
	lacks := o.missing(run)
	o.guard.Lock()
	run = slices.DeleteFunc(o.picked, func(g going) bool { _, lacked := lacks[g.key]; return !lacked })
	if len(run) == 0 || !o.put(run, memory) {
		o.down.back(memory)
	}
	return true
}

// going is a block on its way down.
type going struct {
	block             block.Block
	at                int // which of its entry's it is: a place of the shape
	key, parent, root tier.Key
	offset            int64 // in host memory
}

// next is the next blocks to store, of one path and behind each other, and what holds them; nil: there will be none. The guard is
// held, and given up while it waits.
func (o *Offload[B]) next() ([]going, *hold) {
	for {
		if o.closed {
			return nil, nil
		}
		o.blocks.Yield()
		_ = o.blocks.Reclaim() // who uses the pool next is told of errors
		if o.still == 0 {
			if run, h := o.pick(); run != nil {
				o.held = h
				return run, h
			}
		}
		if o.still == 0 && o.blocks.AwaitWritten() {
			o.calm.Broadcast()
			continue
		}
		o.calm.Broadcast()
		o.guard.Unlock()
		select {
		case <-o.wake:
		case <-o.end.Done():
		}
		o.guard.Lock()
	}
}

// pick takes the blocks of the first entries that are ready and lie behind each other on a path, as many as a part has room for,
// and holds them.
func (o *Offload[B]) pick() (run []going, h *hold) {
	r, tree := &o.ready, o.blocks.Tree()
	for len(r.order) > 0 {
		n, bytes := 0, int64(0)
		var before tier.Key // of the last entry
		run = run[:0]
		for ; n < len(r.order); n++ {
			entry := r.order[n]
			a, ok := tree.Address(entry)
			if ok && (!a.Whole || o.blocks.Writer(entry) != nil) { // the last ones come again when they are done
				r.take(entry)
				continue
			}
			if ok && len(run) > 0 && (a.Parent != before || bytes+o.shape.bytes > o.down.bytes) {
				break
			}
			had := len(run)
			if ok {
				run = o.payloads(run, entry, a)
				before = a.Key
			}
			for _, g := range run[had:] {
				bytes += o.shape.parts[o.shape.places[g.at].part].BlockBytes()
			}
			o.stats.Missed += int64(max(r.take(entry)-len(run[had:]), 0)) // those that are gone
		}
		r.order = slices.Delete(r.order, 0, n)
		if len(run) == 0 {
			continue
		}
		h, err := o.hold(run)
		if err != nil { // it is promised to others
			o.stats.Missed += int64(len(run))
			continue
		}
		o.owned[h] = struct{}{}
		offsets, _ := o.shape.offsets(len(run), func(i int) int { return run[i].at })
		for i := range run {
			run[i].offset = offsets[i]
		}
		return run, h
	}
	return nil, nil
}

// payloads appends the blocks of an entry that are neither below nor on their way, and marks them as on their way.
func (o *Offload[B]) payloads(run []going, entry block.Block, a prefix.Address) []going {
	for at := range o.shape.places {
		if b := o.at(entry, at); b != (block.Block{}) && o.ready.begin(b) {
			run = append(run, going{block: b, at: at, key: o.shape.key(a.Key, at), parent: o.shape.before(a.Key, a.Parent, at), root: a.Root})
		}
	}
	return run
}

// hold makes the storer an owner of blocks.
func (o *Offload[B]) hold(run []going) (*hold, error) {
	blocks := make([]block.Block, len(run))
	for i, g := range run {
		blocks[i] = g.block
	}
	held, err := o.cache.Hold(blocks)
	return &hold{blocks: held}, err
}

// missing is the keys of blocks that no tier has, as far as tiers answer in time. After one did not, they are not asked for a
// while: a tier that has a block does not write it again, but a slow answer would delay all others.
func (o *Offload[B]) missing(run []going) map[tier.Key]struct{} {
	ctx, cancel := context.WithTimeout(o.end, Patience.Ask)
	defer cancel()
	lacks := map[tier.Key]struct{}{}
	keys := make([]tier.Key, len(run))
	for i, g := range run {
		keys[i] = g.key
	}
	for len(keys) > 0 {
		n := 0
		if time.Now().After(o.askAgain) {
			_, n = o.ask(ctx, keys)
			if ctx.Err() != nil {
				o.askAgain = time.Now().Add(10 * Patience.Ask)
			}
		}
		o.there.Add(int64(n))
		if n < len(keys) {
			lacks[keys[n]] = struct{}{}
			n++
		}
		keys = keys[n:]
	}
	return lacks
}

// pack copies blocks to host memory, and waits for that. The guard is not held.
func (o *Offload[B]) pack(run []going, memory *part) error {
	l := &o.down
	err := o.runs(len(run), func(i int) int { return run[i].at }, func(part int, order []int, offset int64) error {
		l.numbers = l.numbers[:0]
		for _, i := range order {
			l.numbers = o.shape.parts[part].All(l.numbers, run[i].block.ID)
		}
		return o.shape.parts[part].Set.Pack(l.stream, l.numbers, memory.HostMemory, offset)
	})
	return errors.Join(err, l.stream.Sync()) // part of it may be on its way
}

// put hands blocks over to the tiers, and their memory until they have it. The guard is held: who clears tiers does not miss what comes.
func (o *Offload[B]) put(run []going, memory *part) bool {
	job := tier.Job{Blocks: make([]tier.Block, len(run))}
	for i, g := range run {
		p := o.shape.parts[o.shape.places[g.at].part]
		bytes := memory.Bytes()[g.offset:][:p.BlockBytes():p.BlockBytes()]
		p.Wipe(bytes)
		job.Blocks[i] = tier.Block{Key: g.key, Parent: g.parent, Root: g.root, Bytes: bytes}
	}
	job.Done = func(r tier.Result) {
		o.guard.Lock()
		defer o.guard.Unlock()
		o.stats.Stored += int64(r.Blocks)
		o.stats.Missed += int64(len(run) - r.Blocks)
	}
	lent := memory.lent
	job.Late = func() { o.down.late(memory, lent) }
	job.Release = func() { o.down.back(memory) }
	if err := o.mover.Store(o.end, job); err != nil { // the mover has room for all parts: it is closed
		o.stats.Missed += int64(len(run))
		return false
	}
	return true
}
