package snap

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
)

// packing is chunks in host memory: those that follow each other, as many as there is room for, of a strip one after another.
type packing[B backend.Buffer] struct {
	memory  backend.HostMemory
	numbers [][]uint32 // by strip, of the pieces
	rest    [][]byte   // by strip: what is not written yet
	planes  []planesIn // by strip
	rows    []byte     // of a chunk
}

// planesIn is where the planes of a strip are in pieces.
type planesIn struct {
	of     *store.Pieces
	planes []plane
}

func (p *packing[B]) close() error {
	if p.memory == nil {
		return nil
	}
	return p.memory.Close()
}

// Write writes the chunks.
func (o *Out[B]) Write(w *snapshot.Writer) error {
	if err := o.prepare(); err != nil {
		return err
	}
	for at := 0; at < len(o.chunks); {
		end, err := o.next(at)
		if err != nil {
			return err
		}
		for ; at < end; at++ {
			c := &o.chunks[at]
			if err := w.Chunk(c.strip, c.tokens, o.rows(c)); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepare takes the memory: for the longest chunk, and else not much.
func (o *Out[B]) prepare() (err error) {
	most, all := 0, 0
	for i := range o.chunks {
		n := o.bytes(&o.chunks[i])
		most, all = max(most, n), all+n
	}
	p := &o.pack
	n := len(o.strips)
	p.numbers, p.rest, p.planes = make([][]uint32, n), make([][]byte, n), make([]planesIn, n)
	p.memory, err = backend.HostAlloc(o.be, int64(max(most, min(memoryBytes, all))))
	return err
}

// bytes is what the pieces of a chunk take that are packed.
func (o *Out[B]) bytes(c *chunk) int {
	if c.in != nil {
		return 0
	}
	p := o.strips[c.strip].pieces
	return p.Count(c.tokens) * p.Bytes
}

// next packs chunks from one on, waits for that, and returns the first after them.
func (o *Out[B]) next(at int) (end int, err error) {
	p := &o.pack
	for i := range p.numbers {
		p.numbers[i] = p.numbers[i][:0]
	}
	left := len(p.memory.Bytes())
	for end = at; end < len(o.chunks); end++ {
		c := &o.chunks[end]
		if c.in != nil {
			continue
		}
		if left -= o.bytes(c); left < 0 {
			break
		}
		p.numbers[c.strip] = o.strips[c.strip].pieces.Numbers(p.numbers[c.strip], c.block, c.at, c.tokens)
	}
	offset := 0
	for i, numbers := range p.numbers {
		if len(numbers) > 0 && err == nil {
			of := o.strips[i].pieces
			err = of.Set.Pack(o.stream, numbers, p.memory, int64(offset))
			p.rest[i] = p.memory.Bytes()[offset:]
			offset += len(numbers) * of.Bytes
		}
	}
	return end, errors.Join(err, o.stream.Sync())
}

// rows is a chunk as the stream has it, valid until the next call. Chunks of a strip are asked for in their order.
func (o *Out[B]) rows(c *chunk) []byte {
	p, s := &o.pack, o.strips[c.strip]
	in, from := c.in, c.host
	if in == nil {
		in, from = s.pieces, p.rest[c.strip]
		p.rest[c.strip] = from[o.bytes(c):]
	}
	if s.Kind != snapshot.State && c.tokens == in.Tokens && in.Count(c.tokens) == 1 {
		return from[:in.Bytes] // a whole piece lies as a chunk does
	}
	n := int(s.Size(c.tokens))
	if cap(p.rows) < n {
		p.rows = make([]byte, n)
	}
	rows, at := p.rows[:n], &p.planes[c.strip]
	if at.of != in {
		at.of, at.planes = in, s.planes(in)
	}
	for cut := range in.Cuts(c.at, c.tokens) {
		s.copyRows(at.planes, cut, rows, c.tokens, 0, from[:in.Bytes], false)
		from = from[in.Bytes:]
	}
	return rows
}
