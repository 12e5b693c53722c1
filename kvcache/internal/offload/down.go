package offload

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// written notes an entry of the tree that can go down. The guard is held.
func (o *Offload[B]) written(b block.Block) {
	o.ready = append(o.ready, b)
	o.poke()
}

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
// when there will be none.
func (o *Offload[B]) storeNext(memory backend.HostMemory) bool {
	o.guard.Lock()
	blocks, h := o.next()
	if blocks == nil {
		o.guard.Unlock()
		return false
	}
	var err error
	epoch := o.epoch
	_ = o.blocks.Lend(func() error {
		if blocks = o.missing(blocks); len(blocks) > 0 {
			err = o.pack(blocks, memory)
		}
		return nil
	})
	o.give(h)
	o.held = nil
	o.calm.Broadcast()
	if err = o.blocks.Observe(err); err != nil || epoch != o.epoch {
		o.stats.Missed += int64(len(blocks))
		blocks = nil
	}
	if len(blocks) == 0 || !o.put(blocks, memory) {
		o.guard.Unlock()
		o.down.back(memory)
		return true
	}
	o.guard.Unlock()
	return true
}

// going is a block on its way down.
type going struct {
	block             block.Block
	at                int // which of its entry's it is: a place of the shape
	key, parent, root tier.Key
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
			continue
		}
		o.idle = true
		o.calm.Broadcast()
		o.guard.Unlock()
		select {
		case <-o.wake:
		case <-o.end.Done():
		}
		o.guard.Lock()
		o.idle = false
	}
}

// pick takes the blocks of the first entries that are ready and lie behind each other on a path, as many as a part has room for,
// and holds them.
func (o *Offload[B]) pick() (run []going, h *hold) {
	for len(o.ready) > 0 {
		n, bytes, tree := 0, int64(0), o.blocks.Tree()
		var before tier.Key // of the last entry
		run = run[:0]
		for ; n < len(o.ready); n++ {
			a, ok := tree.Address(o.ready[n])
			if !ok {
				o.stats.Missed++
			}
			if !ok || !a.Whole || o.blocks.Writer(o.ready[n]) != nil { // of the last it is told again when they are done
				continue
			}
			if len(run) > 0 && a.Parent != before || bytes+o.shape.bytes > o.down.bytes {
				break
			}
			had := len(run)
			run = o.payloads(run, o.ready[n], a)
			for _, g := range run[had:] {
				bytes += o.shape.parts[o.shape.places[g.at].part].BlockBytes()
			}
			before = a.Key
		}
		o.ready = slices.Delete(o.ready, 0, n)
		if len(run) == 0 {
			continue
		}
		h, err := o.hold(run)
		if err != nil { // it is promised to others
			o.stats.Missed += int64(len(run))
			continue
		}
		o.owned[h] = struct{}{}
		return run, h
	}
	return nil, nil
}

// payloads appends the blocks of an entry that has an address.
func (o *Offload[B]) payloads(run []going, entry block.Block, a prefix.Address) []going {
	for at, p := range o.shape.places {
		b := entry
		if o.groups != nil {
			b = o.groups.At(entry, p.part)[p.i]
		}
		if b != (block.Block{}) {
			run = append(run, going{b, at, o.shape.key(a.Key, at), o.shape.before(a.Key, a.Parent, at), a.Root})
		}
	}
	return run
}

// hold makes the storer an owner of blocks. Where an entry is one, who owns it owns those before it.
func (o *Offload[B]) hold(run []going) (*hold, error) {
	if o.groups == nil {
		path, err := o.blocks.Tree().Hold(nil, run[len(run)-1].block)
		return &hold{blocks: path}, err
	}
	h := &hold{blocks: make([]block.Block, len(run))}
	for i, g := range run {
		h.blocks[i] = g.block
	}
	return h, o.groups.Lend(h.blocks)
}

// askWait is how long the storer waits for tiers to say what they have: it owns blocks that others may lack. What is slower is
// given what it may have.
const askWait = time.Second

// missing is those blocks that no tier has.
func (o *Offload[B]) missing(run []going) (left []going) {
	ctx, cancel := context.WithTimeout(o.end, askWait)
	defer cancel()
	keys := make([]tier.Key, len(run))
	for i, g := range run {
		keys[i] = g.key
	}
	for len(run) > 0 {
		_, n := o.ask(ctx, keys)
		o.there.Add(int64(n))
		if n < len(run) {
			left = append(left, run[n])
			n++
		}
		run, keys = run[n:], keys[n:]
	}
	return left
}

// pack copies blocks to host memory, and waits for that. The guard is not held.
func (o *Offload[B]) pack(run []going, memory backend.HostMemory) error {
	l := &o.down
	err := o.runs(len(run), func(i int) int { return run[i].at }, func(part int, order []int, offset int64) error {
		l.numbers = l.numbers[:0]
		for _, i := range order {
			l.numbers = o.shape.parts[part].All(l.numbers, run[i].block.ID)
		}
		return o.shape.parts[part].Set.Pack(l.stream, l.numbers, memory, offset)
	})
	return errors.Join(err, l.stream.Sync()) // part of it may be on its way
}

// put hands blocks over to the tiers, and their memory until they have it. The guard is held: who clears tiers does not miss what comes.
func (o *Offload[B]) put(run []going, memory backend.HostMemory) bool {
	job := tier.Job{Blocks: make([]tier.Block, len(run))}
	offsets, _ := o.shape.offsets(len(run), func(i int) int { return run[i].at })
	for i, g := range run {
		p := o.shape.parts[o.shape.places[g.at].part]
		bytes := memory.Bytes()[offsets[i]:][:p.BlockBytes():p.BlockBytes()]
		p.Wipe(bytes)
		job.Blocks[i] = tier.Block{Key: g.key, Parent: g.parent, Root: g.root, Bytes: bytes}
	}
	job.Done = func(r tier.Result) {
		o.guard.Lock()
		defer o.guard.Unlock()
		o.stats.Stored += int64(r.Blocks)
		o.stats.Missed += int64(len(run) - r.Blocks)
	}
	job.Release = func() { o.down.back(memory) }
	if err := o.mover.Store(o.end, job); err != nil { // the mover has room for all parts: it is closed
		o.stats.Missed += int64(len(run))
		return false
	}
	return true
}
