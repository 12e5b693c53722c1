package kvcache

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
)

// compaction moves the tokens of a sequence that stay to its front, in every layer: a
// Shift or a Keep on its way. Layers may keep different tokens, but equally many.
type compaction[B backend.Buffer] struct {
	seq    *Sequence[B]
	stream backend.Stream
	lists  int                   // 1, or one a layer
	source func(list, i int) int // the token that becomes token i; rises with i, and is i or more
	turn   func(list, i int) int // positions that its key turns; nil: none
	len    int                   // tokens afterwards

	blocks []block.Block // afterwards
	before []block.Block // the same before shared ones are copied
	dirty  []bool        // which of them change, or leave the prefix tree
	from   int           // first token that changes
	copied []block.Block // new blocks in place of shared ones
	pairs  vector[B, uint32]

	claimed int  // size of the claim before
	moved   bool // slots have begun to move
}

// run compacts. Should the device fail once slots have begun to move, the sequence's
// content is undefined and it can only be released.
func (c *compaction[B]) run() error {
	s, p := c.seq, c.seq.pool
	if p.windowed() {
		return c.rewrite()
	}
	c.claimed = s.kept.claim.Blocks()
	c.lay()
	if err := c.own(); err != nil {
		return err
	}
	err := s.fence.Order(c.stream)
	if err == nil {
		err = c.enqueue()
	}
	c.pairs.free(p.be)
	if err == nil {
		err = s.touched(c.stream)
	}
	if err != nil {
		return c.undo(err)
	}
	// What the sequence no longer refers to goes back behind the new fence.
	kept := make(map[block.Block]bool, len(c.blocks))
	for _, b := range c.blocks {
		kept[b] = true
	}
	var gone []block.Block
	for _, b := range s.kept.blocks {
		if !kept[b] {
			gone = append(gone, b)
		}
	}
	p.kept.logical += len(c.blocks) - len(s.kept.blocks)
	s.kept.blocks, s.len = append(s.kept.blocks[:0], c.blocks...), c.len
	return p.kept.Retire(s.fence, gone)
}

// lay decides which blocks the tokens will lie in. Tokens at the end that stay together,
// whole blocks further up, are left where they are and their blocks move up in the
// table: of sinks and a recent window no slot is moved. All others move within the
// first blocks.
func (c *compaction[B]) lay() {
	slots, old := c.seq.pool.cfg.slots(), c.seq.kept.blocks
	gap, tail := 0, c.len // tokens from tail on lie gap further up, in every list
	if c.len > 0 {
		gap = c.source(0, c.len-1) - (c.len - 1)
	}
	c.from = c.len
	for list := range c.lists {
		same := c.len
		for same > 0 && c.source(list, same-1)-(same-1) == gap {
			same--
		}
		if list == 0 {
			tail = same
		}
		tail = max(tail, same)
		for i := range c.from {
			if c.source(list, i) != i || c.turned(list, i) != 0 {
				c.from = i
				break
			}
		}
	}
	n := ceilDiv(c.len, slots)
	first := n // block from which on blocks move up
	if gap%slots == 0 {
		first = min(ceilDiv(tail, slots), n)
	}
	c.blocks = append(c.blocks, old[:first]...)
	if first < n {
		c.blocks = append(c.blocks, old[first+gap/slots:][:n-first]...)
	}
	c.before = slices.Clone(c.blocks)
	c.dirty = make([]bool, n)
	for list := range c.lists {
		for i := c.from; i < c.len; i++ {
			if at := i / slots; i < first*slots && c.source(list, i) != i || c.turned(list, i) != 0 {
				c.dirty[at] = true
			}
		}
	}
	for i := first; i < n && gap > 0; i++ { // a published path has no gap: what is behind one leaves it
		c.dirty[i] = c.dirty[i] || c.seq.pool.kept.Published(c.blocks[i])
	}
}

func (c *compaction[B]) turned(list, i int) int {
	if c.turn == nil {
		return 0
	}
	return c.turn(list, i)
}

// own replaces the shared blocks that will change by new ones, and takes those that nobody
// shares out of the prefix tree.
func (c *compaction[B]) own() error {
	p := c.seq.pool
	var shared, alone []int
	for i, dirty := range c.dirty {
		if !dirty {
			continue
		}
		refs, err := p.kept.Owners(c.blocks[i])
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
	if c.copied, err = c.seq.take(nil, len(shared)); err != nil {
		return err
	}
	for _, i := range alone {
		p.kept.Forget(c.blocks[i]) // it is nobody else's, and will not be what it was
	}
	for n, i := range shared {
		c.pairs.host = append(c.pairs.host, c.blocks[i].ID, c.copied[n].ID)
		c.blocks[i] = c.copied[n]
	}
	return nil
}

// undo gives back what a failed compaction took. Slots that have moved do not come back.
func (c *compaction[B]) undo(err error) error {
	s, p := c.seq, c.seq.pool
	if c.moved {
		s.failed = fmt.Errorf("content undefined after a failed compaction: %w", err)
	}
	err = errors.Join(p.fences.Observe(err), residency.Drain(c.stream)) // nothing uses the copies any more
	err = errors.Join(err, p.kept.Retire(nil, c.copied))
	return errors.Join(err, s.restore(c.claimed))
}

// changes are the slots of one list that move and the keys that turn.
type changes[B backend.Buffer] struct {
	moves, at vector[B, int64]
	turns     vector[B, int32]
}

// enqueue copies shared blocks, then moves and turns in every layer.
func (c *compaction[B]) enqueue() error {
	p := c.seq.pool
	if len(c.pairs.host) > 0 {
		if err := p.copyBlocks(c.stream, p.kept, &c.pairs); err != nil {
			return err
		}
	}
	lists := make([]changes[B], c.lists)
	defer func() {
		for i := range lists {
			lists[i].free(p.be)
		}
	}()
	for i := range lists {
		if err := c.prepare(&lists[i], i); err != nil {
			return err
		}
	}
	for l := range p.kept.layers {
		if err := c.layer(&p.kept.layers[l], &lists[min(l, c.lists-1)]); err != nil {
			return err
		}
	}
	return nil
}

// prepare brings a list's changes to the device. A copied block has what the shared one
// had, so only what lies elsewhere moves; it is read where it was.
func (c *compaction[B]) prepare(ch *changes[B], list int) error {
	p := c.seq.pool
	for i := c.from; i < c.len; i++ {
		if from := c.slot(c.seq.kept.blocks, c.source(list, i)); from != c.slot(c.before, i) {
			ch.moves.host = append(ch.moves.host, from, c.slot(c.blocks, i))
		}
		if turn := c.turned(list, i); turn != 0 {
			ch.at.host, ch.turns.host = append(ch.at.host, c.slot(c.blocks, i)), append(ch.turns.host, int32(turn))
		}
	}
	return ch.upload(p.be, c.stream)
}

func (ch *changes[B]) upload(be backend.Backend[B], s backend.Stream) error {
	return errors.Join(ch.moves.upload(be, s), ch.at.upload(be, s), ch.turns.upload(be, s))
}

func (ch *changes[B]) free(be backend.Backend[B]) {
	ch.moves.free(be)
	ch.at.free(be)
	ch.turns.free(be)
}

// layer enqueues the changes of one layer.
func (c *compaction[B]) layer(l *layer[B], ch *changes[B]) error {
	p := c.seq.pool
	if n := len(ch.moves.host) / 2; n > 0 {
		err := p.be.MoveSlots(c.stream, backend.MoveSlotsParams[B]{Cache: l.view, Mass: l.scores, Pairs: ch.moves.buf.Buf, N: n})
		if err != nil {
			return err
		}
		c.moved = true
	}
	if n := len(ch.at.host); n > 0 {
		err := p.be.Rotate(c.stream, backend.RotateParams[B]{Cache: l.view, Slots: ch.at.buf.Buf, Deltas: ch.turns.buf.Buf, N: n, Rope: p.rope})
		if err != nil {
			return err
		}
		c.moved = true
	}
	return nil
}

func (c *compaction[B]) slot(blocks []block.Block, i int) int64 {
	slots := c.seq.pool.cfg.slots()
	return int64(blocks[i/slots].ID)*int64(slots) + int64(i%slots)
}
