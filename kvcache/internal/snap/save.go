package snap

import (
	"cmp"
	"errors"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
)

// Out is what sequences have, on its way to a stream.
type Out[B backend.Buffer] struct {
	be     backend.Backend[B]
	strips []*strip[B]
	stream backend.Stream
	chunks []chunk
	known  map[source]int // the numbers of chunks
	away   int            // how many suspended sequences were added
	spare  int            // blocks that may still be lent
	pack   packing[B]
}

// source is where a chunk comes from.
type source struct {
	strip int
	away  int // of the first, second … suspended sequence, which shares nothing; 0: it is on the device
	block uint32
	at    int // token of the block; of a state that after which it is
}

// chunk is the first tokens of a source, as many as the longest reference has.
type chunk struct {
	source
	tokens int
	first  int           // token of the sequence that named it, or after which a state is
	in     *store.Pieces // of a suspended sequence
	host   []byte        // and the first of them with tokens of the chunk, and what follows it
}

// NewOut returns what nobody has anything in yet.
func NewOut[B backend.Buffer](parts *store.Parts[B]) (_ *Out[B], err error) {
	o := &Out[B]{be: parts.BE, known: map[source]int{}}
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

// Order puts the copies after the steps that write what a sequence has: it must not change before Write is done. The pool's lock is held.
func (o *Out[B]) Order(s *store.Runs[B]) error {
	if s.Suspended != nil {
		return nil
	}
	return cmp.Or(s.Order(o.stream), s.OrderCheckpoints(o.stream))
}

// Add notes what a sequence has, all of which is written: see Order and Wait. It owns what others may evict, until ForgoArriving. The pool's
// lock is held.
func (o *Out[B]) Add(s *store.Runs[B]) [][]snapshot.Run {
	away := 0
	if s.Suspended != nil {
		o.away++
		away = o.away
	}
	var all [][]snapshot.Run
	had := len(o.chunks)
	lent, marks := s.LendCheckpoints(o.spare)
	o.spare -= lent
	for i, st := range o.strips {
		h := s.Held(st.part, st.store)
		if st.Kind == snapshot.State {
			all = append(all, o.states(i, away, &h, marks[st.part]))
		} else {
			all = append(all, o.runs(i, away, &h))
		}
	}
	o.sort(had, all)
	return all
}

// states are the runs of a segment of states: those that others may go on from, and the last one.
func (o *Out[B]) states(i, away int, h *store.Held, marks []store.Checkpoint) (runs []snapshot.Run) {
	for _, m := range marks {
		ref := o.ref(&store.Held{}, source{i, 0, m.ID, m.Tokens}, m.Tokens, m.Tokens)
		runs = append(runs, snapshot.Run{Refs: []snapshot.Ref{ref}})
	}
	if n := h.Len; n > 0 {
		ref := o.ref(h, source{i, away, h.Blocks[0].ID, n}, n, n)
		runs = append(runs, snapshot.Run{Refs: []snapshot.Ref{ref}})
	}
	return runs
}

// runs are those of a segment.
func (o *Out[B]) runs(i, away int, h *store.Held) (runs []snapshot.Run) {
	st, end := o.strips[i], 0
	size, sinks := st.stores.Config.BlockTokens(), st.stores.Rule.SinkBlocks()
	for j, b := range h.Blocks {
		at := h.First + j // of the blocks that are not cut out
		if at >= sinks {
			at += h.Gone
		}
		first, n := at*size, min(size, h.Len+(h.Gone-at)*size)
		if n <= 0 {
			break
		}
		if len(runs) == 0 || first != end {
			runs = append(runs, snapshot.Run{First: first})
		}
		run := &runs[len(runs)-1]
		for from := 0; from < n; from += st.Tokens {
			run.Refs = append(run.Refs, o.ref(h, source{i, away, b.ID, from}, min(st.Tokens, n-from), first+from))
		}
		end = first + n
	}
	return runs
}

// ref is a reference to the first tokens of a chunk, which are those of the sequence from one on.
func (o *Out[B]) ref(h *store.Held, s source, tokens, first int) snapshot.Ref {
	n, known := o.known[s]
	if !known {
		c := chunk{source: s, first: first, in: h.Pieces}
		if c.in != nil {
			c.host = h.Host[c.in.Offset(s.block, s.at):]
		}
		n = len(o.chunks)
		o.known[s], o.chunks = n, append(o.chunks, c)
	}
	o.chunks[n].tokens = max(o.chunks[n].tokens, tokens)
	return snapshot.Ref{Chunk: n, Tokens: tokens}
}

// sort numbers the chunks from one on by their tokens, and then by strip: a reader has what belongs to a token together, and of a sequence
// that has grown what it had comes first.
func (o *Out[B]) sort(from int, named [][]snapshot.Run) {
	added := o.chunks[from:]
	slices.SortStableFunc(added, func(a, b chunk) int { return cmp.Compare(a.first, b.first) })
	numbers := make([]int, len(added))
	for i, c := range added {
		numbers[o.known[c.source]-from], o.known[c.source] = from+i, from+i
	}
	for _, runs := range named {
		for _, run := range runs {
			for i := range run.Refs {
				if r := &run.Refs[i]; r.Chunk >= from {
					r.Chunk = numbers[r.Chunk-from]
				}
			}
		}
	}
}

// Wait waits for the steps that write what sequences have.
func (o *Out[B]) Wait() error { return o.stream.Sync() }

// Spare says how many blocks of a pool may be lent, which others could else take: a quarter of them. The pool's lock is held.
func (o *Out[B]) Spare(of residency.Stats) { o.spare = max(of.Free+of.Cached-of.Reserved, 0) / spared }

// Close lets go of everything.
func (o *Out[B]) Close() error {
	err := errors.Join(closeStrips(o.strips), o.pack.close())
	if o.stream != nil {
		err = errors.Join(err, o.stream.Close())
	}
	return err
}
