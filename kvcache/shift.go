package kvcache

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// Shift drops tokens [begin, end) and moves what follows to the positions that
// become free, turning its keys back by as many (RoPE re-rotation, as in
// StreamingLLM and llama.cpp's K-shift). Whole blocks are dropped from the table;
// a range that does not fall on block borders has its slots moved. Blocks that
// others share are copied before they change. The next token's position is Len, as
// ever. Without Config.RoPE it is ErrUnsupported.
//
// Should the device fail once slots have begun to move, the sequence's content is
// undefined and it can only be released. Any failure before leaves it as it was.
func (s *Sequence[B]) Shift(stream backend.Stream, begin, end int) error {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := s.idle("shift"); err != nil {
		return err
	}
	if err := p.usable(); err != nil {
		return err
	}
	switch {
	case !p.rope.Table.Set:
		return backend.ErrUnsupported{Op: "shift", Why: "Config.RoPE is not set, so keys cannot move to other positions"}
	case stream == nil:
		return errNoStream("shift")
	case begin < 0 || end < begin || end > s.len:
		return backend.ErrShape{Op: "shift", What: fmt.Sprintf("range [%d, %d): the sequence has %d tokens", begin, end, s.len)}
	case begin == end:
		return nil
	}
	slots, gap := p.cfg.slots(), end-begin
	sh := shift[B]{seq: s, stream: stream, from: begin, len: s.len - gap, claimed: s.claim.Blocks()}
	sh.blocks = append(sh.blocks, s.blocks...)
	if begin%slots == 0 && gap%slots == 0 {
		sh.blocks = append(sh.blocks[:begin/slots], sh.blocks[end/slots:]...)
	} else {
		sh.gap = gap
	}
	sh.turn = -gap
	return sh.run()
}

// shift is one Shift on its way.
type shift[B backend.Buffer] struct {
	seq    *Sequence[B]
	stream backend.Stream
	blocks []block.Block // the sequence's blocks afterwards; those behind len go
	from   int           // first token that changes
	len    int           // tokens afterwards
	gap    int           // slots that what follows moves forward in the blocks
	turn   int           // positions that its keys turn
	copied []block.Block // new blocks in place of shared ones
	pairs  vector[B, uint32]

	claimed int  // size of the claim before
	moved   bool // slots have begun to move
}

func (sh *shift[B]) run() error {
	s, p := sh.seq, sh.seq.pool
	if err := sh.own(); err != nil {
		return err
	}
	err := s.fence.order(sh.stream)
	if err == nil {
		err = sh.enqueue()
	}
	sh.pairs.free(p.be)
	if err == nil {
		err = s.touched(sh.stream)
	}
	if err != nil {
		return sh.undo(err)
	}
	// What the sequence no longer refers to goes back behind the new fence.
	keep := ceilDiv(sh.len, p.cfg.slots())
	kept := make(map[block.Block]bool, keep)
	for _, b := range sh.blocks[:keep] {
		kept[b] = true
	}
	var gone []block.Block
	for _, b := range s.blocks {
		if !kept[b] {
			gone = append(gone, b)
		}
	}
	p.logical += keep - len(s.blocks)
	s.shifted(sh.from, s.len-sh.len)
	s.blocks, s.len = append(s.blocks[:0], sh.blocks[:keep]...), sh.len
	return p.retire(s.fence, gone)
}

// undo gives back what a failed shift took. Slots that have moved do not come back.
func (sh *shift[B]) undo(err error) error {
	s, p := sh.seq, sh.seq.pool
	if sh.moved {
		s.failed = fmt.Errorf("content undefined after a failed shift: %w", err)
	}
	err = errors.Join(p.device(err), drain(sh.stream)) // nothing uses the copies any more
	err = errors.Join(err, p.retire(nil, sh.copied))
	if s.claim.Blocks() < sh.claimed {
		err = errors.Join(err, p.alloc.Reserve([]block.Reservation{{Claim: &s.claim, Blocks: sh.claimed}}))
	}
	return err
}

// own replaces the shared blocks that will change by new ones.
func (sh *shift[B]) own() error {
	if sh.from == sh.len {
		return nil // nothing is behind the range
	}
	p := sh.seq.pool
	slots := p.cfg.slots()
	var places []int
	for i := sh.from / slots; i < ceilDiv(sh.len, slots); i++ {
		refs, err := p.alloc.Refs(sh.blocks[i])
		if err != nil {
			return err
		}
		if refs > 1 {
			places = append(places, i)
		}
	}
	var err error
	if sh.copied, err = p.take(sh.seq, nil, len(places)); err != nil {
		return err
	}
	for i := sh.from / slots; i < ceilDiv(sh.len, slots) && p.tree != nil; i++ {
		if refs, err := p.alloc.Refs(sh.blocks[i]); err == nil && refs == 1 {
			p.tree.Forget(sh.blocks[i]) // it is nobody else's, and will not be what it was
		}
	}
	for n, i := range places {
		sh.pairs.host = append(sh.pairs.host, sh.blocks[i].ID, sh.copied[n].ID)
		sh.blocks[i] = sh.copied[n]
	}
	return nil
}

// enqueue copies, moves and turns in every layer.
func (sh *shift[B]) enqueue() error {
	p := sh.seq.pool
	if len(sh.pairs.host) > 0 {
		if err := p.copyBlocks(sh.stream, &sh.pairs); err != nil {
			return err
		}
	}
	n := sh.len - sh.from
	if n == 0 {
		return nil
	}
	var moves, at vector[B, int64]
	var turns vector[B, int32]
	defer func() { moves.free(p.be); at.free(p.be); turns.free(p.be) }()
	for pos := sh.from; pos < sh.len; pos++ {
		to := sh.slot(pos)
		at.host = append(at.host, to)
		turns.host = append(turns.host, int32(sh.turn))
		if sh.gap > 0 {
			moves.host = append(moves.host, sh.slot(pos+sh.gap), to)
		}
	}
	if err := errors.Join(moves.upload(p.be, sh.stream), at.upload(p.be, sh.stream), turns.upload(p.be, sh.stream)); err != nil {
		return err
	}
	rope := p.rope
	for _, l := range p.layers {
		if sh.gap > 0 {
			if err := p.be.MoveSlots(sh.stream, backend.MoveSlotsParams[B]{Cache: l.view, Pairs: moves.buf.Buf, N: n}); err != nil {
				return err
			}
			sh.moved = true
		}
		err := p.be.Rotate(sh.stream, backend.RotateParams[B]{Cache: l.view, Slots: at.buf.Buf, Deltas: turns.buf.Buf, N: n, Rope: rope})
		if err != nil {
			return err
		}
		sh.moved = true
	}
	return nil
}

func (sh *shift[B]) slot(pos int) int64 {
	slots := sh.seq.pool.cfg.slots()
	return int64(sh.blocks[pos/slots].ID)*int64(slots) + int64(pos%slots)
}
