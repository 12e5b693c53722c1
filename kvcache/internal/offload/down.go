package offload

import (
	"slices"

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

// Published has the storer see to what was published just now. The guard is held.
func (o *Offload[B]) Published() { o.poke() }

// run stores what is written, as long as the pool is open.
func (o *Offload[B]) run() {
	defer o.going.Done()
	for {
		memory, err := o.down.part(o.end)
		if err != nil {
			return
		}
		if !o.storeNext(memory) {
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
	delete(o.owned, h)
	_ = o.blocks.Retire(nil, h.blocks) // the tree's, by Hold
	o.held = nil
	o.calm.Broadcast()
	if err = o.blocks.Observe(err); err != nil || epoch != o.epoch {
		o.stats.Missed += int64(len(blocks))
		blocks = nil
	}
	if len(blocks) == 0 || !o.put(blocks, memory) {
		o.guard.Unlock()
		o.down.parts <- memory
		return true
	}
	o.guard.Unlock()
	return true
}

// going is a block on its way down.
type going struct {
	block   block.Block
	address prefix.Address
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

// pick takes the first blocks that are ready and lie behind each other on a path, as many as a part has room for, and holds
// them.
func (o *Offload[B]) pick() (run []going, h *hold) {
	for len(o.ready) > 0 {
		n, tree := 0, o.blocks.Tree()
		run = run[:0]
		for ; n < len(o.ready) && len(run) < o.down.blocks; n++ {
			a, ok := tree.Address(o.ready[n])
			if !ok || !a.Whole {
				if len(run) > 0 {
					break
				}
				if !ok {
					o.stats.Missed++
				}
				continue
			}
			if len(run) > 0 && a.Parent != run[len(run)-1].address.Key {
				break
			}
			run = append(run, going{o.ready[n], a})
		}
		o.ready = slices.Delete(o.ready, 0, n)
		if len(run) == 0 {
			continue
		}
		path, err := tree.Hold(nil, run[len(run)-1].block)
		if err != nil { // it is promised to others
			o.stats.Missed += int64(len(run))
			continue
		}
		h = &hold{path}
		o.owned[h] = struct{}{}
		return run, h
	}
	return nil, nil
}

// missing is those blocks that no tier has.
func (o *Offload[B]) missing(run []going) []going {
	return slices.DeleteFunc(run, func(g going) bool {
		places, err := o.mover.Has(o.end, []tier.Key{g.address.Key})
		there := err == nil && len(places) > 0
		if there {
			o.there.Add(1)
		}
		return there
	})
}

// pack copies blocks to host memory, and waits for that. The guard is not held.
func (o *Offload[B]) pack(run []going, memory backend.HostMemory) error {
	l := &o.down
	l.numbers = l.numbers[:0]
	for _, g := range run {
		l.numbers = o.store.Numbers(l.numbers, []block.Block{g.block})
	}
	if err := o.set.Pack(l.stream, l.numbers, memory, 0); err != nil {
		return err
	}
	return l.stream.Sync()
}

// put hands blocks over to the tiers, and their memory until they have it. The guard is held: who clears tiers does not miss what comes.
func (o *Offload[B]) put(run []going, memory backend.HostMemory) bool {
	job := tier.Job{Blocks: make([]tier.Block, len(run))}
	for i, g := range run {
		job.Blocks[i] = tier.Block{Key: g.address.Key, Parent: g.address.Parent, Root: g.address.Root,
			Bytes: memory.Bytes()[int64(i)*o.bytes:][:o.bytes:o.bytes]}
	}
	job.Done = func(r tier.Result) {
		o.guard.Lock()
		defer o.guard.Unlock()
		o.stats.Stored += int64(r.Blocks)
		o.stats.Missed += int64(len(run) - r.Blocks)
	}
	job.Release = func() { o.down.parts <- memory }
	if err := o.mover.Store(o.end, job); err != nil { // the mover has room for all parts: it is closed
		o.stats.Missed += int64(len(run))
		return false
	}
	return true
}
