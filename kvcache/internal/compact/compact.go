// Package compact drops tokens from the middle of a sequence: it moves those that stay together, and
// turns their keys to other positions.
package compact

import (
	"errors"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
)

// Compaction moves the tokens of a sequence that stay to its front, in every layer of a part: a
// Shift or a Retain on its way. Layers may keep different tokens, but equally many. Tokens are those that are not cut out
// in the part.
type Compaction[B backend.Buffer] struct {
	run    *store.Run[B]
	stream backend.Stream
	lists  int                   // 1, or one a layer
	source func(list, i int) int // the token that becomes token i; rises with i, and is i or more
	turn   func(list, i int) int // positions that its key turns; nil: none
	rotate Rotate[B]             // turns keys; nil: the library does
	len    int                   // tokens afterwards
	cut    int                   // blocks that are cut out afterwards

	From  int  // first token that changes, known after Run
	Moved bool // slots have begun to move, so that a failure leaves the content undefined

	blocks []block.Block // afterwards
	before []block.Block // the same before shared ones are copied
	dirty  []bool        // which of them change, or leave the prefix tree
	copied store.Owned   // new blocks in place of shared ones
	pairs  store.Vector[B, uint32]
}

// Rotate enqueues the turns of n keys of a layer of the model, which lie in slots of a cache: by deltas each.
type Rotate[B backend.Buffer] func(layer int, cache backend.CacheView[B], slots, deltas B, n int) error

// phases are what a compaction does, one after another: it lays out and takes blocks, enqueues, and changes the sequence
// when all have; or gives back what it took.
type phases[B backend.Buffer] interface {
	prepare() error
	taken() [store.MostStores][]block.Block // by store
	enqueue() error
	finish() error
	undo(err error) error
}

// Run compacts a sequence in all of its parts. Any failure leaves it as it was, but for one of the device after slots have
// begun to move: see Moved.
func Run[B backend.Buffer](s *store.Runs[B], stream backend.Stream, cs []Compaction[B]) error {
	all := make([]phases[B], len(cs))
	for i := range cs {
		if all[i] = &cs[i]; cs[i].run.Part.Residual() {
			all[i] = &rewriting[B]{Compaction: &cs[i]}
		}
	}
	for i, c := range all {
		if err := c.prepare(); err != nil {
			return undo(all[:i+1], err)
		}
	}
	if err := work(s, stream, cs, all); err != nil {
		fences := cs[0].run.Part.Fences
		return undo(all, errors.Join(fences.Observe(err), residency.Drain(stream))) // nothing uses new blocks any more
	}
	var errs []error
	for _, c := range all {
		errs = append(errs, c.finish())
	}
	return errors.Join(errs...)
}

// undo gives back what compactions took.
func undo[B backend.Buffer](all []phases[B], err error) error {
	for _, c := range all {
		err = c.undo(err)
	}
	return err
}

// work enqueues what uses the sequence and blocks that were taken for it, without the pool's lock, and makes this
// point of the stream the sequence's fence.
func work[B backend.Buffer](s *store.Runs[B], stream backend.Stream, cs []Compaction[B], all []phases[B]) error {
	if err := s.Order(stream); err != nil {
		return err
	}
	for i, c := range all {
		cs[i].run.Working(c.taken())
	}
	err := cs[0].run.Part.Fences.Lend(func() error {
		for _, c := range all {
			if err := c.enqueue(); err != nil {
				return err
			}
		}
		return nil
	})
	for i := range cs {
		cs[i].run.Working([store.MostStores][]block.Block{})
	}
	if err != nil {
		return err
	}
	return s.Touched(stream)
}

// prepare lays the tokens out, and takes copies of shared blocks.
func (c *Compaction[B]) prepare() error {
	c.lay()
	return c.own()
}

func (c *Compaction[B]) taken() (all [store.MostStores][]block.Block) {
	all[0] = c.copied.Blocks
	return all
}

// finish gives the sequence its blocks. What it no longer refers to goes back after the new fence.
func (c *Compaction[B]) finish() error {
	return c.run.Exchange(c.len, c.cut, store.Segment{Blocks: c.blocks})
}

// lay decides which blocks the tokens will lie in. Tokens at the end that stay together,
// whole blocks further up, are left where they are and their blocks move up in the
// table: of sinks and a recent window no slot is moved. All others move within the
// first blocks.
func (c *Compaction[B]) lay() {
	slots, old := c.run.Part.Config.BlockTokens(), c.run.Kept.Blocks
	gap, tail := 0, c.len // tokens from tail on lie gap further up, in every list
	if c.len > 0 {
		gap = c.source(0, c.len-1) - (c.len - 1)
	}
	c.From = c.len
	for list := range c.lists {
		same := c.len
		for same > 0 && c.source(list, same-1)-(same-1) == gap {
			same--
		}
		if list == 0 {
			tail = same
		}
		tail = max(tail, same)
		for i := range c.From {
			if c.source(list, i) != i || c.turned(list, i) != 0 {
				c.From = i
				break
			}
		}
	}
	n := c.run.Part.Config.BlocksOf(c.len)
	first := n // block from which on blocks move up
	if gap%slots == 0 {
		first = min(c.run.Part.Config.BlocksOf(tail), n)
	}
	c.blocks = append(c.blocks, old[:first]...)
	if first < n {
		c.blocks = append(c.blocks, old[first+gap/slots:][:n-first]...)
	}
	c.before = slices.Clone(c.blocks)
	c.dirty = make([]bool, n)
	for list := range c.lists {
		for i := c.From; i < c.len; i++ {
			if at := i / slots; i < first*slots && c.source(list, i) != i || c.turned(list, i) != 0 {
				c.dirty[at] = true
			}
		}
	}
	for i := first; i < n && gap > 0; i++ { // a published path has no gap: what is after one leaves it
		c.dirty[i] = c.dirty[i] || c.run.Part.Kept.Published(c.blocks[i])
	}
}

func (c *Compaction[B]) turned(list, i int) int {
	if c.turn == nil {
		return 0
	}
	return c.turn(list, i)
}

// own replaces the shared blocks that will change by new ones, and takes those that nobody
// shares out of the prefix tree.
func (c *Compaction[B]) own() error {
	p := c.run.Part
	var shared, alone []int
	for i, dirty := range c.dirty {
		if !dirty {
			continue
		}
		refs, err := p.Kept.Owners(c.blocks[i])
		if err != nil {
			return err
		}
		if refs > 1 {
			shared = append(shared, i)
		} else {
			alone = append(alone, i)
		}
	}
	var err error
	if c.copied, err = p.Kept.Own(c.run.Kept, c.run.Root, len(shared)); err != nil {
		return err
	}
	for _, i := range alone {
		p.Kept.Forget(c.blocks[i]) // it is nobody else's, and will not be what it was
	}
	for n, i := range shared {
		c.pairs.Host = p.Kept.Pair(c.pairs.Host, c.blocks[i], c.copied.Blocks[n])
		c.blocks[i] = c.copied.Blocks[n]
	}
	return nil
}

// undo gives back what a failed compaction took. Slots that have moved do not come back.
func (c *Compaction[B]) undo(err error) error {
	s, p := c.run, c.run.Part
	return errors.Join(err, p.Kept.GiveBack(s.Kept, &c.copied, c.copied.Blocks, nil))
}

// changes are the slots of one list that move and the keys that turn.
type changes[B backend.Buffer] struct {
	moves, at store.Vector[B, int64]
	turns     store.Vector[B, int32]
}

// enqueue copies shared blocks, then moves and turns in every layer.
func (c *Compaction[B]) enqueue() error {
	p := c.run.Part
	defer c.pairs.Free(p.BE)
	if err := p.CopyBlocks(c.stream, p.Kept, &c.pairs); err != nil {
		return err
	}
	p.LockScores()
	defer p.UnlockScores()
	lists := make([]changes[B], c.lists)
	defer func() {
		for i := range lists {
			lists[i].free(p.BE)
		}
	}()
	for i := range lists {
		if err := c.fill(&lists[i], i); err != nil {
			return err
		}
	}
	for l := range p.Kept.Layers {
		if err := c.layer(l, &p.Kept.Layers[l], &lists[min(l, c.lists-1)]); err != nil {
			return err
		}
	}
	return nil
}

// fill brings a list's changes to the device. A copied block has what the shared one
// had, so only what lies elsewhere moves; it is read where it was.
func (c *Compaction[B]) fill(ch *changes[B], list int) error {
	p := c.run.Part
	for i := c.From; i < c.len; i++ {
		if from := c.slot(c.run.Kept.Blocks, c.source(list, i)); from != c.slot(c.before, i) {
			ch.moves.Host = append(ch.moves.Host, from, c.slot(c.blocks, i))
		}
		if turn := c.turned(list, i); turn != 0 {
			ch.at.Host, ch.turns.Host = append(ch.at.Host, c.slot(c.blocks, i)), append(ch.turns.Host, int32(turn))
		}
	}
	return ch.upload(p.BE, c.stream)
}

func (ch *changes[B]) upload(be backend.Backend[B], s backend.Stream) error {
	return errors.Join(ch.moves.Upload(be, s), ch.at.Upload(be, s), ch.turns.Upload(be, s))
}

func (ch *changes[B]) free(be backend.Backend[B]) {
	ch.moves.Free(be)
	ch.at.Free(be)
	ch.turns.Free(be)
}

// layer enqueues the changes of one layer of the part, in one of its stores.
func (c *Compaction[B]) layer(number int, l *store.Layer[B], ch *changes[B]) error {
	p := c.run.Part
	if len(ch.moves.Host) > 0 {
		if err := p.MoveSlots(c.stream, l, &ch.moves); err != nil {
			return err
		}
		c.Moved = true
	}
	if n := len(ch.at.Host); n > 0 && c.rotate != nil {
		c.Moved = true // it may have begun
		return c.rotate(p.Model[number], l.View, ch.at.Buf.Buf, ch.turns.Buf.Buf, n)
	} else if n > 0 {
		err := p.BE.Rotate(c.stream, backend.RotateParams[B]{Cache: l.View, Slots: ch.at.Buf.Buf, Deltas: ch.turns.Buf.Buf, N: n, Rotary: p.RoPE})
		if err != nil {
			return err
		}
		c.Moved = true
	}
	return nil
}

func (c *Compaction[B]) slot(blocks []block.Block, i int) int64 {
	slots := c.run.Part.Config.BlockTokens()
	return c.run.Part.Kept.Slot(blocks[i/slots].ID, i%slots)
}
