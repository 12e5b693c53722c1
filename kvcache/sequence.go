package kvcache

import (
	"errors"
	"fmt"
	"iter"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
)

// Sequence is one list of tokens in a pool. It is used by one goroutine at a
// time, different sequences of a pool by different ones. It keeps its blocks, and the pool
// keeps it, until Release or Pool.Close: one that a program drops is never collected.
type Sequence[B backend.Buffer] struct {
	pool     *Pool[B]
	kept     segment
	recent   segment // with Config.Residual: its last tokens
	len      int
	places   places           // where its tokens are in the text
	origin                    // where its blocks belong in the prefix tree
	tokens   []uint32         // the sequence's, behind them the rest of its prompt, and those of an open step
	prompt   int              // tokens of the prompt while some of it is left to compute, else 0
	fence    *residency.Fence // the last step that used the sequence
	step     *Batch[B]        // the open step it is part of
	failed   error            // a device error left its content undefined
	released bool

	layers []KvCache[B] // made by Layers
	table  table[B]
	scores vector[B, float32] // of layers, on their way to the host
	slots  vector[B, int64]   // whose scores are cleared
}

// Len is the number of tokens, those of an open step not counted.
func (s *Sequence[B]) Len() int { return s.len }

// Pool is what the sequence lies in.
func (s *Sequence[B]) Pool() *Pool[B] { return s.pool }

// Blocks is the numbers of the sequence's blocks in order, appended to dst. Those that an open
// step has taken are not among them before its Commit, nor those that it copies; Batch.Index has
// the tables of the step. With Config.Residual they are the blocks of the quantized tokens.
func (s *Sequence[B]) Blocks(dst []uint32) []uint32 {
	return s.kept.numbers(dst)
}

// Err says why the sequence can be neither added to a step nor changed now: ErrReleased,
// ErrClosed, ErrBusy while it is in an open step, or the device's error that left its
// content undefined.
func (s *Sequence[B]) Err() error {
	s.pool.lock()
	defer s.pool.unlock()
	return s.idle("sequence")
}

// idle reports why the sequence cannot be changed. The caller holds the pool's lock.
func (s *Sequence[B]) idle(op string) error {
	var err error
	switch {
	case s.released:
		err = ErrReleased
	case s.pool.shut() != nil:
		err = s.pool.shut()
	case s.step != nil:
		err = ErrBusy
	case s.failed != nil:
		err = s.failed
	default:
		return nil
	}
	return fmt.Errorf("kvcache: %s: %w", op, err)
}

// Fork returns a second sequence with the same tokens. The two share all blocks;
// the first that writes into a shared one, the half-filled last one above all,
// gets a copy of it on the device.
func (s *Sequence[B]) Fork() (*Sequence[B], error) {
	p := s.pool
	p.lock()
	defer p.unlock()
	if err := s.idle("fork"); err != nil {
		return nil, err
	}
	if err := p.usable(); err != nil {
		return nil, err
	}
	child := p.newSequence()
	err := p.kept.share(&s.kept, &child.kept)
	if err == nil && p.windowed() {
		err = p.fresh.share(&s.recent, &child.recent)
	}
	if err != nil {
		return nil, errors.Join(err, child.discard())
	}
	child.len, child.places = s.len, s.places.clone()
	child.fence = s.fence.Hold()
	child.origin = s.origin
	child.tokens, child.prompt = append(child.tokens, s.tokens...), s.prompt
	return child, nil
}

// Truncate keeps the first n tokens and gives back the blocks behind them. A
// shared block is left to its other owners; its kept part is copied when this
// sequence writes again. What is left of a prompt need not be added after it, also
// where n is Len. An error of the device that is noticed meanwhile is returned, and
// the sequence is truncated.
func (s *Sequence[B]) Truncate(n int) error {
	p := s.pool
	p.lock()
	defer p.unlock()
	if err := s.idle("truncate"); err != nil {
		return err
	}
	if n < 0 || n > s.Len() {
		return backend.ErrShape{Package: "kvcache", Op: "truncate", What: fmt.Sprintf("%d tokens: the sequence has %d", n, s.Len())}
	}
	s.forgetPrompt()
	err := s.giveBack(ceilDiv(n, p.cfg.slots()))
	s.len = n
	s.places.truncate(n)
	s.withdraw()
	return err
}

// giveBack keeps the first blocks and gives up the references to the others once the
// sequence's last step is done.
func (s *Sequence[B]) giveBack(keep int) error {
	p := s.pool
	err := p.kept.cut(&s.kept, keep, s.fence)
	if p.windowed() {
		err = firstOf(err, p.fresh.cut(&s.recent, keep, s.fence))
	}
	return err
}

// discard ends a sequence that no step used.
func (s *Sequence[B]) discard() error {
	err := s.giveBack(0)
	s.pool.dropSequence(s)
	return err
}

// Release gives the sequence's blocks back. Steps of it that are still on the
// device are not disturbed: the blocks stay held until those are done. An error of
// the device that is noticed meanwhile is returned, and the sequence is released.
func (s *Sequence[B]) Release() error {
	p := s.pool
	p.lock()
	defer p.unlock()
	if s.failed != nil && !s.released && p.shut() == nil && s.step == nil {
		s.failed = nil // a failed sequence can still be released
	}
	if err := s.idle("release"); err != nil {
		return err
	}
	err := s.giveBack(0)
	p.kept.Cancel(&s.kept.claim)
	p.fresh.Cancel(&s.fresh().claim)
	p.fences.Drop(s.fence)
	s.freeTable()
	p.dropSequence(s)
	s.len, s.fence, s.layers, s.released = 0, nil, nil, true
	return err
}

// used replaces the sequence's fence by that of a later step.
func (s *Sequence[B]) used(f *residency.Fence) {
	s.pool.fences.Replace(&s.fence, f)
}

// tail is the block that the next token goes into, the zero Block if the step takes that.
func (s *Sequence[B]) tail() block.Block {
	g, slots := s.fresh(), s.pool.cfg.slots()
	i := s.len/slots - g.gone
	if s.len%slots == 0 || i < 0 {
		return block.Block{}
	}
	return g.blocks[i]
}

// tailShared reports whether the block that the next token goes into is not the
// sequence's alone to write: others own it, or the prefix tree offers it to them.
func (s *Sequence[B]) tailShared() (bool, error) {
	alone, err := s.pool.fresh.Writable(s.tail())
	return !alone, err
}

// take appends n new blocks, to write to, of the sequence's to dst, all or none.
func (s *Sequence[B]) take(dst []block.Block, n int) ([]block.Block, error) {
	return s.pool.fresh.Take(&s.fresh().claim, s.root, dst, n)
}

// Reservation asks for room for a sequence to grow to Tokens tokens.
type Reservation[B backend.Buffer] struct {
	Seq    *Sequence[B]
	Tokens int
}

// Reserve sets blocks aside so that the sequences can grow as asked whatever else
// the pool admits: for all of them or, with ErrOutOfBlocks, for none. It only
// ever raises a reservation, so asking twice changes nothing. Like a step, it waits
// for blocks that the device still uses before it says that there are too few.
//
// What is set aside is used up as the sequence takes blocks, and Release cancels
// the rest. With Config.Residual it is of the blocks of both kinds, of recent tokens as many as growing
// token by token takes. It does not grow again: reserve anew after a Truncate or Shift, which give
// blocks back, and after a Fork, whose first write copies a block.
func (p *Pool[B]) Reserve(rs ...Reservation[B]) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.usable(); err != nil {
		return err
	}
	for _, r := range rs {
		if err := p.checkReservation(r); err != nil {
			return err
		}
	}
	err := p.promise(rs)
	if p.fresh.Unpublish(err, tails(growing(rs))) {
		err = p.promise(rs)
	}
	return lacking("reserve", err)
}

// promise sets aside what the sequences need besides the blocks they have, in all stores or in none.
func (p *Pool[B]) promise(rs []Reservation[B]) error {
	fresh := make([]block.Reservation, len(rs))
	for i, r := range rs {
		need := r.Seq.growth(r.Tokens)
		shared, err := r.Seq.tailShared()
		if err != nil {
			return err
		}
		if shared && r.Tokens > r.Seq.len {
			need++
		}
		fresh[i] = block.Reservation{Claim: &r.Seq.fresh().claim, Blocks: max(need, 0)}
	}
	if !p.windowed() {
		return p.fresh.Reserve(fresh)
	}
	return p.promiseBoth(rs, fresh)
}

// restore makes a reservation as large again as it was before blocks were taken, to write to, that
// have been given back.
func (s *Sequence[B]) restore(claimed int) error {
	return s.pool.fresh.Restore(&s.fresh().claim, claimed)
}

// growing are the sequences that have fewer tokens than is reserved.
func growing[B backend.Buffer](rs []Reservation[B]) iter.Seq[*Sequence[B]] {
	return func(yield func(*Sequence[B]) bool) {
		for _, r := range rs {
			if r.Tokens > r.Seq.len && !yield(r.Seq) {
				return
			}
		}
	}
}

func (p *Pool[B]) checkReservation(r Reservation[B]) error {
	switch {
	case r.Seq == nil:
		return backend.ErrShape{Package: "kvcache", Op: "reserve", What: "the sequence is nil; open one with Pool.Open"}
	case r.Seq.pool != p:
		return fmt.Errorf("kvcache: reserve: %w", ErrForeign)
	case r.Tokens < 0:
		return backend.ErrShape{Package: "kvcache", Op: "reserve", What: fmt.Sprintf("%d tokens: need 0 or more", r.Tokens)}
	case r.Tokens > p.cfg.Capacity:
		return ErrCapacity{Have: r.Tokens, Max: p.cfg.Capacity}
	}
	return r.Seq.idle("reserve")
}
