package store

import (
	"math/bits"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Arena is vectors in one piece of host memory and one buffer of the device, whose sub-buffers they
// are there: one upload brings all of them. Each has room to grow. What is not used of that is
// uploaded with the rest, but for that of the last one, which is to be the largest.
type Arena[B backend.Buffer] struct {
	pieces []piece[B]
	host   []int64
	spare  []int64        // where the vectors were before
	buf    backend.Opt[B] // U32, as long as host
	// Pinned says that the vectors stay where they are as long as they can.
	Pinned bool
}

// piece is a vector of an arena, and its place there in bytes.
type piece[B backend.Buffer] struct {
	Member[B]
	at, room int
	next     B // its sub-buffer from now on
}

// Member is a vector of elements of any type.
type Member[B backend.Buffer] interface {
	bytes() []byte
	dtype() backend.DType
	device() *backend.Opt[B]
	// move copies the elements to mem, where they are from then on.
	move(mem []byte)
}

const (
	// arenaLine is what pieces are aligned to, in bytes, as what Alloc returns is.
	arenaLine = 64
	// arenaGrowth is the part of its length that a vector can grow by in its place, and arenaLeast
	// the bytes by which any can.
	arenaGrowth, arenaLeast = 16, 256
	// arenaSlack is the bytes of unused room that are uploaded, with a tenth of what is used, rather than
	// that places change: about what a second upload would cost.
	arenaSlack = 32 << 10
)

// Upload brings the vectors to the device.
func (a *Arena[B]) Upload(be backend.Backend[B], s backend.Stream) error {
	end, fits := a.measure()
	if !fits {
		if err := a.lay(be); err != nil {
			return err
		}
		end, _ = a.measure()
	}
	all := backend.BytesOf(a.host)
	for i := range a.pieces {
		p := &a.pieces[i]
		if b := p.bytes(); len(b) > 0 && &b[0] != &all[p.at] { // it was made elsewhere
			p.move(all[p.at:][:p.room:p.room])
		}
	}
	return be.Upload(s, a.buf.Buf, 0, all[:end])
}

// measure is the end of what has to be uploaded as the vectors lie, and whether they can stay there.
func (a *Arena[B]) measure() (end int, fits bool) {
	used := 0
	fits = a.buf.Set
	for i := range a.pieces {
		p := &a.pieces[i]
		n := len(p.bytes())
		used, end = used+n, p.at+n
		fits = fits && n <= p.room
	}
	return end, fits && (a.Pinned || end <= used+used/10+arenaSlack)
}

// lay gives every vector a place with room to grow. Where that fails they are where they were.
func (a *Arena[B]) lay(be backend.Backend[B]) error {
	begin, last := 0, len(a.pieces)-1 // of the last
	for i := range a.pieces[:last] {
		begin += room(a.pieces[i].bytes())
	}
	size, buf := 8*len(a.host), a.buf.Buf
	n := begin + len(a.pieces[last].bytes()) + arenaLeast
	larger := n > size
	if larger {
		size = 1 << bits.Len(uint(n-1))
		var err error
		if buf, err = be.Alloc(backend.U32, size/4); err != nil {
			return err
		}
	}
	if err := a.divide(be, buf, size); err != nil {
		if larger {
			_ = be.Free(buf) // ours and live
		}
		return err
	}
	if larger {
		a.Free(be)
		a.buf = backend.Some(buf)
	}
	a.move(be, size, larger)
	return nil
}

// room is the bytes of a vector's place.
func room(b []byte) int {
	return (len(b) + len(b)/arenaGrowth + arenaLeast + arenaLine - 1) / arenaLine * arenaLine
}

// divide makes the sub-buffers of size bytes that the vectors will have; the last has what is left.
func (a *Arena[B]) divide(be backend.Backend[B], buf B, size int) error {
	at := 0
	for i := range a.pieces {
		p := &a.pieces[i]
		n := room(p.bytes())
		if i == len(a.pieces)-1 {
			n = size - at
		}
		dt := p.dtype()
		sub, err := be.SubBuffer(buf, int64(at), dt, n*8/dt.Bits())
		if err != nil {
			for _, p := range a.pieces[:i] {
				_ = be.Free(p.next) // ours and live
			}
			return err
		}
		p.next, at = sub, at+n
	}
	return nil
}

// move takes the vectors to their next sub-buffers, and what they have on the host to where
// those are in size bytes.
func (a *Arena[B]) move(be backend.Backend[B], size int, freed bool) {
	if len(a.spare) != size/8 {
		a.spare = make([]int64, size/8)
	}
	a.host, a.spare = a.spare, a.host
	all, at := backend.BytesOf(a.host), 0
	for i := range a.pieces {
		p := &a.pieces[i]
		if had := p.device(); had.Set && !freed {
			_ = be.Free(had.Buf) // ours and live
		}
		*p.device() = backend.Some(p.next)
		p.at, p.room = at, int(p.next.Bytes())
		p.move(all[at:][:p.room:p.room])
		at += p.room
	}
}

// Free ends the device's vectors, all at once. It changes nothing: see Vector.Free.
func (a *Arena[B]) Free(be backend.Backend[B]) {
	if a.buf.Set {
		_ = be.Free(a.buf.Buf) // ours and live
	}
}

// Of makes the vectors of an empty arena, of which the last is to be the largest.
func (a *Arena[B]) Of(members []Member[B]) {
	a.pieces = make([]piece[B], len(members))
	for i, m := range members {
		a.pieces[i].Member = m
	}
}

// Made reports whether the arena has vectors.
func (a *Arena[B]) Made() bool { return a.pieces != nil }

// Bytes is what the vectors hold.
func (a *Arena[B]) Bytes() (n int) {
	for i := range a.pieces {
		n += len(a.pieces[i].bytes())
	}
	return n
}
