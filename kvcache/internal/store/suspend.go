package store

import (
	"errors"
	"slices"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// Away is what a suspended sequence has in host memory: the blocks of each of its segments, one behind another.
type Away struct {
	Tokens int
	memory backend.HostMemory
	parts  []awayPart
}

// awayPart is a body without its blocks.
type awayPart struct {
	len, gone    int
	kept, recent awaySegment
}

type awaySegment struct{ gone, blocks int }

// Bytes is the host memory that it takes.
func (a *Away) Bytes() int64 { return int64(len(a.memory.Bytes())) }

// carrier moves the blocks of all stores to host memory and back, on a stream of its own.
type carrier[B backend.Buffer] struct {
	using  sync.Mutex // the stream, without the pool's lock
	stream backend.Stream
	sets   map[*Store[B]]backend.BlockSet
}

// carry is the pool's carrier, made at the first use. The pool's lock is held.
func (p *Parts[B]) carry() (_ *carrier[B], err error) {
	if p.carrier != nil {
		return p.carrier, nil
	}
	c := &carrier[B]{sets: map[*Store[B]]backend.BlockSet{}}
	defer func() {
		if err != nil {
			_ = c.close()
		}
	}()
	if c.stream, err = p.BE.NewStream(); err != nil {
		return nil, err
	}
	for _, st := range p.All {
		for _, of := range []*Store[B]{st.Kept, st.Fresh} {
			if c.sets[of] != nil {
				continue
			}
			if c.sets[of], err = st.blockSet(p.BE, of); err != nil {
				delete(c.sets, of)
				return nil, err
			}
		}
	}
	p.carrier = c
	return c, nil
}

// blockSet is the set of a store's blocks; of a part with states, of these.
func (p *Stores[B]) blockSet(be backend.Backend[B], of *Store[B]) (backend.BlockSet, error) {
	if p.States == nil {
		return of.BlockSet(be)
	}
	var planes []backend.BlockPlane[B]
	for _, mem := range p.States.Layers {
		planes = append(planes, backend.BlockPlane[B]{Buf: mem, Each: p.States.Stride / 4})
	}
	return backend.NewBlockSet(be, planes)
}

func (c *carrier[B]) close() (err error) {
	for _, set := range c.sets {
		err = errors.Join(err, set.Close())
	}
	if c.stream != nil {
		err = errors.Join(err, c.stream.Close())
	}
	return err
}

// move packs or unpacks segments in their order, and waits for it. The pool's lock is not held.
func (c *carrier[B]) move(segments []segmentOf[B], memory backend.HostMemory, copy func(backend.BlockSet, backend.Stream, []uint32, backend.HostMemory, int64) error) error {
	c.using.Lock()
	defer c.using.Unlock()
	at := int64(0)
	for _, g := range segments {
		numbers := g.of.numbers(g.blocks)
		if len(numbers) == 0 {
			continue
		}
		set := c.sets[g.of]
		if err := copy(set, c.stream, numbers, memory, at); err != nil {
			return errors.Join(err, c.stream.Sync()) // part of it may be on its way
		}
		at += int64(len(numbers)) * set.BlockBytes()
	}
	return c.stream.Sync()
}

// segmentOf is blocks of a store.
type segmentOf[B backend.Buffer] struct {
	of     *Store[B]
	blocks []block.Block
}

// numbers are those that a BlockSet has for blocks.
func (st *Store[B]) numbers(blocks []block.Block) []uint32 {
	if st.each == 0 { // of states: their blocks are the allocator's
		ids := make([]uint32, len(blocks))
		for i, b := range blocks {
			ids[i] = b.ID
		}
		return ids
	}
	return st.Numbers(nil, blocks)
}

// segments are those of the sequence that have blocks of their own.
func (s *Bodies[B]) segments() (all []segmentOf[B]) {
	for i := range s.Parts {
		b := &s.Parts[i]
		all = append(all, segmentOf[B]{b.Stores.Kept, b.Kept.Blocks})
		if b.Stores.Windowed() {
			all = append(all, segmentOf[B]{b.Stores.Fresh, b.Recent.Blocks})
		}
	}
	return all
}

// bytes is what segments take.
func (c *carrier[B]) bytes(segments []segmentOf[B]) (n int64) {
	for _, g := range segments {
		n += int64(len(g.blocks)*max(g.of.each, 1)) * c.sets[g.of].BlockBytes()
	}
	return n
}

// Suspend copies the sequence's blocks to host memory and gives them up. With an error it is as it was. The pool's lock is
// held, and given up meanwhile.
func (s *Bodies[B]) Suspend() error {
	c, err := s.all.carry()
	if err != nil {
		return err
	}
	segments := s.segments()
	a := &Away{Tokens: s.Len()}
	if err := s.Order(c.stream); err != nil {
		return s.all.Fences.Observe(err)
	}
	err = s.all.Fences.Lend(func() error {
		var err error
		if a.memory, err = backend.HostAlloc(s.all.BE, c.bytes(segments)); err != nil {
			return err
		}
		return c.move(segments, a.memory, backend.BlockSet.Pack)
	})
	if err == nil {
		err = s.Past.Failed() // what it wrote is undefined
	}
	if err != nil {
		if a.memory != nil {
			_ = a.memory.Close()
		}
		return s.all.Fences.Observe(err)
	}
	for i := range s.Parts {
		b := &s.Parts[i]
		a.parts = append(a.parts, awayPart{b.Len, b.Gone, awaySegment{b.Kept.Gone, len(b.Kept.Blocks)}, awaySegment{b.Recent.Gone, len(b.Recent.Blocks)}})
	}
	s.Away, s.Tail = a, block.Block{}
	return s.leave(len(s.Parts), (*Body[B]).leave)
}

// Resume takes new blocks for a suspended sequence and fills them. With an error, such as block.ErrOutOfBlocks, it is
// suspended as it was. The pool's lock is held, and given up meanwhile.
func (s *Bodies[B]) Resume() (err error) {
	a := s.Away
	c, err := s.all.carry()
	if err != nil {
		return err
	}
	var segments []segmentOf[B]
	defer func() {
		for _, g := range segments {
			if err != nil {
				_ = g.of.Retire(nil, g.blocks)
			}
		}
	}()
	take := func(b *Body[B], of *Store[B], n int) error {
		var claim block.Claim
		blocks, err := of.Take(&claim, b.Root, nil, n)
		if err == nil {
			segments = append(segments, segmentOf[B]{of, blocks})
		}
		return err
	}
	for i := range s.Parts {
		b := &s.Parts[i]
		if err := take(b, b.Stores.Kept, a.parts[i].kept.blocks); err != nil {
			return err
		}
		if b.Stores.Windowed() {
			if err := take(b, b.Stores.Fresh, a.parts[i].recent.blocks); err != nil {
				return err
			}
		}
	}
	s.arriving = segments
	err = s.all.Fences.Apart(func() error { return c.move(segments, a.memory, backend.BlockSet.Unpack) })
	s.arriving = nil
	if err = s.all.Fences.Observe(err); err != nil {
		return err
	}
	rest := segments
	for i := range s.Parts {
		b, was := &s.Parts[i], a.parts[i]
		b.Len, b.Gone = was.len, was.gone
		rest = b.refill(&b.Kept, was.kept, rest)
		if b.Stores.Windowed() {
			rest = b.refill(&b.Recent, was.recent, rest)
		}
	}
	s.Away = nil
	return a.memory.Close()
}

// refill gives a segment the first of blocks.
func (s *Body[B]) refill(g *Segment, was awaySegment, from []segmentOf[B]) []segmentOf[B] {
	g.Gone, g.Blocks = was.gone, append(g.Blocks[:0], from[0].blocks...)
	from[0].of.Logical += len(g.Blocks)
	return from[1:]
}

// Discard ends the life of what a suspended sequence has.
func (s *Bodies[B]) Discard() error {
	a := s.Away
	s.Away = nil
	return a.memory.Close()
}

// ownArriving notes the blocks that a sequence which is resumed has taken.
func (s *Bodies[B]) ownArriving(of []Books) {
	for _, g := range s.arriving {
		i := slices.IndexFunc(s.all.All, func(st *Stores[B]) bool { return st.Kept == g.of || st.Fresh == g.of })
		books := of[i].Kept
		if g.of != s.all.All[i].Kept {
			books = of[i].Fresh
		}
		books.Own(g.blocks)
	}
}
