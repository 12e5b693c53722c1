package replay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// tiered replays through a tree with tiers below it, as a pool does: the library's tiers and the mover above them, with payloads that
// are no more than the block's number. What a request computes is stored at once, where no tier has it; what the tree does
// not have, and tiers do, is loaded, as much as the planner says is worth it. One step is done after the other, so that a
// replay has one outcome. Beside it the same requests go through a tree without tiers.
type tiered struct {
	trace *Trace
	next  int // request
	with  *tree
	alone *tree

	tiers []tier.Tier
	mover *tier.Mover
	part  int // blocks that are stored at a time
	clock *clock

	keys   []tier.Key    // of the path
	memory []byte        // of the path's payloads
	job    tier.Job      // a load
	result tier.Result   // of it
	freed  chan struct{} // when it, and what it promotes, has ended

	below                 Below
	withTimes, aloneTimes []float64
}

// partBytes is what a pool stores, and loads, at a time.
const partBytes = 8 << 20

func newTiered(policy string, trace *Trace, tiers Tiers, capacity int) (_ *tiered, err error) {
	c := &tiered{trace: trace, clock: newClock(trace, tiers), freed: make(chan struct{}, 1)}
	if c.with, err = newTree(policy, capacity); err == nil {
		c.alone, err = newTree(policy, capacity)
	}
	if err != nil {
		return nil, err
	}
	if c.tiers, c.below.Tiers, err = tiers.open(capacity, func() time.Time { return c.clock.now }); err != nil {
		return nil, err
	}
	if c.mover, err = tier.NewMover(c.tiers, tier.MoverOptions{Promote: true}); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.part = max(int(partBytes/c.clock.blockBytes()), 1)
	c.job.Done = func(r tier.Result) { c.result = r }
	c.job.Release = func() { c.freed <- struct{}{} }
	return c, nil
}

// Close lets go of the tiers.
func (c *tiered) Close() (err error) {
	if c.mover != nil {
		err = c.mover.Close()
	}
	for _, t := range c.tiers {
		err = errors.Join(err, t.Close())
	}
	return err
}

func (c *tiered) request(path []uint32) (hits int, err error) {
	c.clock.begin(c.next)
	c.next++
	device, err := c.with.take(path)
	if err != nil {
		return 0, err
	}
	c.keys = prefix.Root{}.Keys(c.keys[:0], 1, prefix.Query{Tokens: path})
	loaded, have, waited, err := c.load(path, device)
	if err != nil {
		return 0, err
	}
	if err = c.with.extend(path, len(path)); err == nil {
		err = c.store(path[:len(c.with.path)], device+loaded)
	}
	if err == nil {
		err = c.with.prefix.Release(c.with.path)
	}
	if err != nil {
		return 0, err
	}
	alone, err := c.alone.request(path)
	c.below.Device += device
	c.below.Alone += alone
	if c.clock.timed() {
		tokens := c.trace.BlockTokens
		c.withTimes = append(c.withTimes, (waited + c.clock.compute(have, len(path)*tokens)).Seconds())
		c.aloneTimes = append(c.aloneTimes, c.clock.duration(alone*tokens, len(path)*tokens).Seconds())
	}
	return device + loaded, err
}

// load has the tiers bring what follows the first blocks of a path, as much as is worth it and there is room for. It returns how many
// blocks are in the tree by that, how many tokens of the path need not be computed, and how long the request waited. Of a block that came
// in part, as those of the trace are larger than a pool's, the next request finds nothing in the tree.
func (c *tiered) load(path []uint32, from int) (n, tokens int, waited time.Duration, err error) {
	tokens = from * c.trace.BlockTokens
	to := from + c.with.room(len(path)-from)
	places, err := c.mover.Has(context.Background(), c.keys[from:to])
	if err != nil || len(places) == 0 {
		return 0, tokens, 0, err
	}
	came, probe, waited := c.clock.load(from, places)
	if probe > 0 {
		_, err := c.read(path, from, probe)
		return 0, tokens, 0, err
	}
	tokens += came
	if n = came / c.trace.BlockTokens; n == 0 {
		return 0, tokens, waited, nil
	}
	if err = c.with.extend(path, from+n); err != nil {
		return 0, 0, 0, err
	}
	by, err := c.read(path, from, n)
	for i, k := range by {
		c.below.Tiers[i].Hits += k
	}
	return n, tokens, waited, err
}

// read reads n blocks of a path, and returns how many came from each tier.
func (c *tiered) read(path []uint32, from, n int) ([]int, error) {
	c.lend(from, from+n)
	if err := c.mover.Load(context.Background(), c.job); err != nil {
		return nil, err
	}
	<-c.freed
	if c.result.Blocks < n {
		return nil, fmt.Errorf("replay: tiers have %d of %d blocks that they had a moment ago: %w", c.result.Blocks, n, c.result.Err)
	}
	for i, b := range path[from : from+n] {
		if got := binary.LittleEndian.Uint32(c.job.Blocks[i].Bytes); got != b+1 {
			return nil, fmt.Errorf("replay: %w: block %d came back as %d", prefix.ErrCorrupt, b, int64(got)-1)
		}
	}
	return c.result.By, nil
}

// lend makes a job of blocks of the path, with room for their payloads.
func (c *tiered) lend(from, to int) {
	if need := (to - from) * payload; need > len(c.memory) {
		c.memory = make([]byte, need)
	}
	clear(c.memory)
	c.job.Blocks = c.job.Blocks[:0]
	for i := from; i < to; i++ {
		b := tier.Block{Key: c.keys[i], Bytes: c.memory[(i-from)*payload:][:payload:payload]}
		if i > 0 {
			b.Parent = c.keys[i-1]
		}
		c.job.Blocks = append(c.job.Blocks, b)
	}
}

// store puts the blocks of a path from one on into each tier, as the mover does, but for those that some tier has.
func (c *tiered) store(path []uint32, from int) error {
	for ; from < len(path); from += c.part {
		c.lend(from, min(from+c.part, len(path)))
		missing := c.job.Blocks[:0]
		for i, b := range c.job.Blocks {
			there, err := c.has(b.Key)
			if err != nil {
				return err
			}
			if !there {
				binary.LittleEndian.PutUint32(b.Bytes, path[from+i]+1)
				b.Sum = b.Summed()
				missing = append(missing, b)
			}
		}
		for _, t := range c.tiers {
			if err := t.Put(context.Background(), missing); err != nil {
				return err
			}
		}
	}
	return nil
}

// has reports whether some tier has a block.
func (c *tiered) has(key tier.Key) (bool, error) {
	for _, t := range c.tiers {
		if n, err := t.Has(context.Background(), []tier.Key{key}); n > 0 || err != nil {
			return n > 0, err
		}
	}
	return false, nil
}

// report is what was done.
func (c *tiered) report() *Below {
	moves := c.mover.Stats()
	for i, t := range c.tiers {
		u, s := &c.below.Tiers[i], t.Stats()
		u.Loaded, u.Stored, u.Evicted, u.Refused = moves.Tiers[i].Loaded, s.Stored, s.Evicted, s.Declined
	}
	c.below.With, c.below.Without = timesOf(c.withTimes), timesOf(c.aloneTimes)
	c.below.Planner = c.clock.planner.Stats()
	return &c.below
}
