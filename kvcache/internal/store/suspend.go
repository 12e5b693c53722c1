package store

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/crc32c"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// Suspended is what a suspended sequence has in host memory: its segments, one after another.
type Suspended struct {
	tokens int
	memory backend.HostMemory
	sum    uint32 // CRC32C of the memory, made when it was filled
	runs   []suspendedRun
}

// ErrDamaged is a suspended sequence whose bytes in host memory differ from those that left the device.
type ErrDamaged struct{ Tokens int }

func (e ErrDamaged) Error() string {
	return fmt.Sprintf("kvcache: the %d tokens of a suspended sequence have changed in host memory; release it and compute them again", e.Tokens)
}

// Sound is ErrDamaged if the sequence is suspended and its host memory is not as it was filled. The pool's lock need not be held,
// as long as no other call resumes or discards it.
func (s *Runs[B]) Sound() error {
	if a := s.Suspended; a != nil && crc32c.Sum(a.memory.Bytes()) != a.sum {
		return ErrDamaged{Tokens: a.tokens}
	}
	return nil
}

// suspendedRun is a run without its blocks.
type suspendedRun struct {
	len, gone int
	segments  [MostStores]packed
}

// Bytes is the host memory that it takes.
func (a *Suspended) Bytes() int64 { return int64(len(a.memory.Bytes())) }

// packed is a segment in host memory from a byte on: of its blocks, in their order, the pieces that have tokens.
type packed struct {
	*Pieces
	at           int64
	from, tokens int
}

// blocks is how many there are. All but the last one are full.
func (p *packed) blocks() int { return (p.tokens + p.block - 1) / p.block }

// numbers are those of the pieces in blocks.
func (p *packed) numbers(blocks []block.Block) (dst []uint32) {
	for i, b := range blocks {
		dst = p.Numbers(dst, b.ID, 0, min(p.block, p.tokens-i*p.block))
	}
	return dst
}

// Suspend copies the sequence's blocks to host memory and gives them up. With an error it is as it was. The pool's lock is
// held, and given up meanwhile.
func (s *Runs[B]) Suspend() error {
	c, err := s.all.carry()
	if err != nil {
		return err
	}
	a := &Suspended{tokens: s.Len()}
	var moves []move
	bytes := int64(0)
	pack := func(b *Run[B], of *Store[B], g *Segment) packed {
		p := packed{Pieces: c.pieces[of], at: bytes, from: g.From}
		p.tokens = min(len(g.Blocks)*p.block, b.Len-g.From*p.block)
		m := move{p.Pieces, p.numbers(g.Blocks)}
		moves, bytes = append(moves, m), bytes+m.bytes()
		return p
	}
	for i := range s.In {
		b := &s.In[i]
		part := suspendedRun{len: b.Len, gone: b.Gone}
		for j := range b.Segments {
			part.segments[j] = pack(b, b.Part.Stores[j], &b.Segments[j])
		}
		a.runs = append(a.runs, part)
	}
	if err := s.Order(c.stream); err != nil {
		return s.all.Fences.Observe(err)
	}
	err = s.all.Fences.Lend(func() error {
		var err error
		if a.memory, err = backend.HostAlloc(s.all.BE, bytes); err != nil {
			return err
		}
		if err = c.move(moves, a.memory, backend.BlockSet.Pack); err == nil {
			a.sum = crc32c.Sum(a.memory.Bytes())
		}
		return err
	})
	if err == nil {
		err = s.Writers.Failed() // what it wrote is undefined
	}
	if err != nil {
		if a.memory != nil {
			_ = a.memory.Close()
		}
		return s.all.Fences.Observe(err)
	}
	s.Suspended, s.partial = a, block.Block{}
	return s.leave(len(s.In), (*Run[B]).leave)
}

// Resume takes new blocks for a suspended sequence and fills them. With an error, such as block.ErrOutOfBlocks, it is
// suspended as it was. The pool's lock is held, and given up meanwhile.
func (s *Runs[B]) Resume() (err error) {
	a := s.Suspended
	c, err := s.all.carry()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = s.ForgoArriving() // none, once they arrived
		}
	}()
	var moves []move
	take := func(of *Store[B], p *packed) (all []Filled, err error) {
		blocks, err := s.TakeArriving(of, p.blocks())
		for _, b := range blocks {
			all = append(all, Filled{Block: b})
		}
		moves = append(moves, move{p.Pieces, p.numbers(blocks)})
		return all, err
	}
	places := make([]Arrived, len(a.runs))
	for i := range a.runs {
		st, was, to := s.In[i].Part, &a.runs[i], &places[i]
		to.Len, to.Gone = was.len, was.gone
		for j, of := range st.Stores {
			to.Segments[j].From = was.segments[j].from
			if to.Segments[j].Blocks, err = take(of, &was.segments[j]); err != nil {
				return err
			}
		}
	}
	err = s.all.Fences.Apart(func() error {
		if err := s.Sound(); err != nil {
			return err
		}
		return c.move(moves, a.memory, backend.BlockSet.Unpack)
	})
	if err = s.all.Fences.Observe(err); err != nil {
		return err
	}
	if err = s.Arrive(places); err != nil {
		return err
	}
	s.Suspended = nil
	return a.memory.Close()
}

// Discard ends the life of what a suspended sequence has.
func (s *Runs[B]) Discard() error {
	a := s.Suspended
	s.Suspended = nil
	return a.memory.Close()
}
