package snap

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
)

// Out is what sequences have, on its way to a stream.
type Out[B backend.Buffer] struct {
	be     backend.Backend[B]
	strips []*strip[B]
	stream backend.Stream
	memory backend.HostMemory
	chunks []chunk
	known  map[chunk]int // without tokens
}

// chunk is where one comes from.
type chunk struct {
	strip  int
	block  uint32
	at     int // token of the block
	tokens int
}

// NewOut returns what nobody has anything in yet.
func NewOut[B backend.Buffer](parts *store.Parts[B]) (_ *Out[B], err error) {
	o := &Out[B]{be: parts.BE, known: map[chunk]int{}}
	if o.strips, err = strips(parts); err != nil {
		return nil, err
	}
	if o.stream, err = o.be.NewStream(); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// Strips are those of the pool, as a head has them.
func (o *Out[B]) Strips() (all []snapshot.Strip) {
	for _, s := range o.strips {
		all = append(all, s.Strip)
	}
	return all
}

// Add notes what a sequence has, and puts the copies behind the steps that write it: the sequence must not change before Write
// is done. The pool's lock is held.
func (o *Out[B]) Add(s *store.Bodies[B]) ([][]snapshot.Run, error) {
	if err := s.Order(o.stream); err != nil {
		return nil, err
	}
	var all [][]snapshot.Run
	for i, st := range o.strips {
		b := &s.Parts[st.part]
		g := &b.Kept
		if st.Kind == snapshot.Computed {
			g = &b.Recent
		}
		var runs []snapshot.Run
		if st.Kind == snapshot.State {
			if b.Len > 0 {
				runs = []snapshot.Run{{Refs: []snapshot.Ref{o.ref(chunk{i, g.Blocks[0].ID, 0, b.Len})}}}
			}
		} else {
			runs = o.runs(i, b, g)
		}
		all = append(all, runs)
	}
	return all, nil
}

// runs are those of a segment.
func (o *Out[B]) runs(i int, b *store.Body[B], g *store.Segment) (runs []snapshot.Run) {
	st, size, sinks, end := o.strips[i], b.Stores.Config.BlockTokens(), b.Stores.Rule.SinkBlocks(), 0
	for j, bl := range g.Blocks {
		at := g.Gone + j // of the blocks that are not cut out
		if at >= sinks {
			at += b.Gone
		}
		first, n := at*size, min(size, b.Total()-at*size)
		if n <= 0 {
			break
		}
		if len(runs) == 0 || first != end {
			runs = append(runs, snapshot.Run{First: first})
		}
		run := &runs[len(runs)-1]
		for from := 0; from < n; from += st.Tokens {
			run.Refs = append(run.Refs, o.ref(chunk{i, bl.ID, from, min(st.Tokens, n-from)}))
		}
		end = first + n
	}
	return runs
}

// ref is a reference to the first tokens of a chunk, which is as long as the longest.
func (o *Out[B]) ref(c chunk) snapshot.Ref {
	key := c
	if key.tokens = 0; o.strips[c.strip].Kind == snapshot.State {
		key.tokens = c.tokens
	}
	n, known := o.known[key]
	if !known {
		n = len(o.chunks)
		o.known[key], o.chunks = n, append(o.chunks, c)
	}
	o.chunks[n].tokens = max(o.chunks[n].tokens, c.tokens)
	return snapshot.Ref{Chunk: n, Tokens: c.tokens}
}

// Wait waits for the steps that write what sequences have.
func (o *Out[B]) Wait() error { return o.stream.Sync() }

// Write writes the chunks.
func (o *Out[B]) Write(w *snapshot.Writer) (err error) {
	bytes := 0
	for _, s := range o.strips {
		bytes = max(bytes, s.pieces.Bytes, min(memoryBytes, s.pieces.Bytes*len(o.chunks)))
	}
	if o.memory, err = backend.HostAlloc(o.be, int64(bytes)); err != nil {
		return err
	}
	var numbers []uint32
	var rows []byte
	for at := 0; at < len(o.chunks); {
		s := o.strips[o.chunks[at].strip]
		numbers = numbers[:0]
		end := at
		for ; end < len(o.chunks) && o.chunks[end].strip == o.chunks[at].strip; end++ {
			had := len(numbers)
			c := &o.chunks[end]
			numbers = s.pieces.Numbers(numbers, c.block, c.at, c.tokens)
			if end > at && len(numbers)*s.pieces.Bytes > len(o.memory.Bytes()) {
				numbers = numbers[:had]
				break
			}
		}
		if err := o.pack(s, numbers); err != nil {
			return err
		}
		rest, planes := o.memory.Bytes(), s.planes(s.pieces)
		for ; at < end; at++ {
			c := &o.chunks[at]
			if n := int(s.Size(c.tokens)); cap(rows) < n {
				rows = make([]byte, n)
			} else {
				rows = rows[:n]
			}
			for p := range s.pieces.Cuts(c.at, c.tokens) {
				s.copyRows(planes, p, rows, c.tokens, 0, rest[:s.pieces.Bytes], false)
				rest = rest[s.pieces.Bytes:]
			}
			if err := w.Chunk(c.strip, c.tokens, rows); err != nil {
				return err
			}
		}
	}
	return nil
}

// pack copies pieces to host memory, which grows where one chunk has more.
func (o *Out[B]) pack(s *strip[B], numbers []uint32) error {
	if need := int64(len(numbers) * s.pieces.Bytes); need > int64(len(o.memory.Bytes())) {
		more, err := backend.HostAlloc(o.be, need)
		if err != nil {
			return err
		}
		if err := o.memory.Close(); err != nil {
			return errors.Join(err, more.Close())
		}
		o.memory = more
	}
	return errors.Join(s.pieces.Set.Pack(o.stream, numbers, o.memory, 0), o.stream.Sync())
}

// Close lets go of everything.
func (o *Out[B]) Close() error {
	err := closeStrips(o.strips)
	if o.memory != nil {
		err = errors.Join(err, o.memory.Close())
	}
	if o.stream != nil {
		err = errors.Join(err, o.stream.Close())
	}
	return err
}
