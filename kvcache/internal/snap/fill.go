package snap

import (
	"errors"
	"io"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
)

// fill is pieces of a strip in host memory that are unpacked together.
type fill[B backend.Buffer] struct {
	strip   int
	memory  backend.HostMemory
	pieces  []slotOf
	missing int // pieces of which rows have not come
}

// slotOf is a piece of a block that is filled.
type slotOf struct {
	strip int
	to    *target
	piece int
}

// slot is where it is.
type slot[B backend.Buffer] struct {
	in    *fill[B]
	bytes []byte
	left  int // rows that have not come
}

// prepare finds how much is filled at a time.
func (in *In[B]) prepare() {
	n := len(in.strips)
	in.fills, in.spare, in.slots, in.rooms, in.sources = make([]*fill[B], n), make([][]*fill[B], n), map[slotOf]*slot[B]{}, make([]int, n), make([]int, n)
	for _, pairs := range in.planes {
		for _, p := range pairs {
			in.sources[p.to]++
		}
	}
	for _, t := range in.targets {
		for _, to := range in.homes[t.home].strips {
			s := in.strips[to]
			in.rooms[to] += s.pieces.Count(t.tokens())
		}
	}
	for to, s := range in.strips {
		in.rooms[to] = min(in.rooms[to], max(memoryBytes/s.pieces.Bytes, 1))
	}
}

// Read reads the chunks to the end of the stream, which it verifies. Blocks that were taken are filled meanwhile; else all is in host memory
// afterwards, for Fill. Nobody has the blocks, and the pool's lock is not held.
func (in *In[B]) Read() error {
	for {
		c, err := in.r.Chunk()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := in.chunk(&c); err != nil {
			return err
		}
	}
	if !in.taken {
		return nil
	}
	return in.Fill()
}

// Verify reads the chunks to the end of the stream, and keeps nothing of them.
func (in *In[B]) Verify() error {
	for {
		if _, err := in.r.Chunk(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// chunk copies rows to where they are wanted.
func (in *In[B]) chunk(c *snapshot.Chunk) error {
	if c.Number >= len(in.uses) {
		return nil
	}
	for _, u := range in.uses[c.Number] {
		if !in.wanted(u.to) {
			continue
		}
		for i := range in.planes[c.Strip] {
			pair := &in.planes[c.Strip][i]
			s := in.strips[pair.to]
			if s.of != in.homes[u.to.home].of {
				continue
			}
			for p := range s.pieces.Cuts(u.at, u.tokens) {
				at, err := in.slot(slotOf{pair.to, u.to, p.Piece}, pair.whole && p.Tokens == s.pieces.Tokens)
				if err != nil {
					return err
				}
				s.copyRows(pair.planes, p, c.Rows, c.Tokens, u.from, at.bytes, true)
				if at.left -= p.Tokens; at.left == 0 {
					at.in.missing--
					delete(in.slots, slotOf{pair.to, u.to, p.Piece})
				}
			}
		}
	}
	in.uses[c.Number] = nil
	if !in.taken {
		return nil
	}
	waiting := in.full[:0]
	for _, f := range in.full {
		if f.missing > 0 {
			waiting = append(waiting, f)
		} else if err := in.unpack(f); err != nil {
			return err
		} else {
			in.spare[f.strip] = append(in.spare[f.strip], f)
		}
	}
	in.full = waiting
	return nil
}

// slot is where a piece is in host memory, zero before its first rows come, unless they are all of it.
func (in *In[B]) slot(of slotOf, whole bool) (*slot[B], error) {
	if at, there := in.slots[of]; there {
		return at, nil
	}
	s, f := in.strips[of.strip], in.fills[of.strip]
	if f == nil || len(f.pieces) == in.rooms[of.strip] {
		if f != nil && f.missing == 0 && in.taken {
			if err := in.unpack(f); err != nil {
				return nil, err
			}
		} else {
			more, err := in.another(of.strip)
			if err != nil {
				return nil, err
			}
			if f != nil {
				in.full = append(in.full, f)
			}
			f, in.fills[of.strip] = more, more
		}
	}
	n := len(f.pieces)
	at := &slot[B]{in: f, bytes: f.memory.Bytes()[n*s.pieces.Bytes:][:s.pieces.Bytes], left: 1}
	if s.Kind != snapshot.State {
		at.left = min(s.pieces.Tokens, of.to.tokens()-s.pieces.First(of.piece)) * in.sources[of.strip]
	}
	if !whole {
		clear(at.bytes)
	}
	f.pieces, f.missing = append(f.pieces, of), f.missing+1
	in.slots[of] = at
	return at, nil
}

// another is an empty fill of a strip.
func (in *In[B]) another(strip int) (*fill[B], error) {
	if list := in.spare[strip]; len(list) > 0 {
		in.spare[strip] = list[:len(list)-1]
		return list[len(list)-1], nil
	}
	m, err := backend.HostAlloc(in.parts.BE, int64(in.rooms[strip]*in.strips[strip].pieces.Bytes))
	if err != nil {
		return nil, err
	}
	in.all = append(in.all, m)
	return &fill[B]{strip: strip, memory: m}, nil
}

// Fill fills the blocks, which are taken, with what was read. The pool's lock is not held.
func (in *In[B]) Fill() error {
	for _, f := range append(in.full, in.fills...) {
		if f == nil {
			continue
		}
		if err := in.unpack(f); err != nil {
			return err
		}
	}
	return nil
}

// unpack copies pieces to their blocks, and waits for that. Their memory can be used again.
func (in *In[B]) unpack(f *fill[B]) error {
	s := in.strips[f.strip]
	numbers := make([]uint32, len(f.pieces))
	for i, p := range f.pieces {
		numbers[i] = s.pieces.Number(p.to.block.ID, p.piece)
	}
	f.pieces = f.pieces[:0]
	if len(numbers) == 0 {
		return nil
	}
	return errors.Join(s.pieces.Set.Unpack(in.stream, numbers, f.memory, 0), in.stream.Sync())
}
