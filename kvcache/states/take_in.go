// A copy is put like any other state, from readers that verify each chunk before they return a byte of it.

package states

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"io"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// takeIn puts a copy. It changes nothing where a chunk is neither here nor in the tier.
func (s *Store) takeIn(ctx context.Context, st *state) (Info, error) {
	name := s.names.copyKey(st.Key.Salt)
	lacking := s.lacking(st)
	keys := make([]tier.Key, len(lacking))
	for i, c := range lacking {
		keys[i] = name.chunk(c.Sum)
	}
	if n, err := s.copies.has(ctx, keys); err != nil {
		return Info{}, ErrCopies{"fetch", err}
	} else if n < len(keys) {
		return Info{}, ErrMiss{}
	}
	w := s.work(st.Key.Salt)
	defer s.release(w)
	var parts []Source
	for i, p := range st.Parts {
		parts = append(parts, Source{p.Name, &copyReader{ctx: ctx, s: s, name: name, w: w, chunks: st.chunks[i]}})
	}
	info, err := s.Put(ctx, st.Key, PutOptions{fetched: st}, parts...)
	if errors.Is(err, errOvertaken) {
		if info, err = s.Find(st.Key); err == nil { // somebody has put it
			return info, nil
		}
		return Info{}, ErrMiss{}
	}
	var copies ErrCopies
	switch {
	case err == nil:
		s.mu.Lock()
		s.stats.Fetched++
		s.mu.Unlock()
	case errors.As(err, &copies):
		err = copies
	case errors.Is(err, ErrMiss{}):
		err = ErrMiss{}
	case errors.As(err, new(ErrArgument)): // a manifest that nobody has put
		err = ErrCopies{"fetch", err}
	}
	return info, err
}

// errOvertaken is a copy whose state was deleted, or put by somebody else, while it was on its way.
var errOvertaken = errors.New("it was deleted or put meanwhile")

// overtaken reports that. The caller has the lock.
func (s *Store) overtaken(o PutOptions, id ID) bool {
	return o.fetched != nil && (o.fetched.gone || s.states[id] != nil)
}

// copyReader reads a part from this directory where it has a chunk, and from the tier otherwise.
type copyReader struct {
	ctx    context.Context
	s      *Store
	name   copyKey
	w      *coder
	chunks []chunk        // that are to be read
	have   map[sum][]byte // of these, from the tier
	last   chunk          // the one before
	plain  []byte         // of it
	rest   []byte         // of that, not read yet
}

func (r *copyReader) Read(b []byte) (int, error) {
	if len(r.rest) == 0 {
		if len(r.chunks) == 0 {
			return 0, io.EOF
		}
		if c := r.chunks[0]; c != r.last { // as in a run of zeros
			plain, err := r.next(c)
			if err != nil {
				return 0, err
			}
			r.last, r.plain = c, plain
		}
		r.rest, r.chunks = r.plain, r.chunks[1:]
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// next is what the next chunk has.
func (r *copyReader) next(c chunk) ([]byte, error) {
	if plain := r.have[c.Sum]; plain != nil {
		delete(r.have, c.Sum)
		return plain, nil
	}
	if h := r.here(c); h != nil {
		plain := make([]byte, c.Bytes)
		if r.s.read(r.w, c, h, plain, false) == nil { // it may have gone, or be damaged
			return plain, nil
		}
	}
	list := []chunk{c}
	seen := map[sum]bool{c.Sum: true}
	size := c.Bytes
	for i := 1; len(r.have) == 0 && i < len(r.chunks) && size < batchBlocks*r.s.o.sizes.max; i++ {
		if more := r.chunks[i]; !seen[more.Sum] && r.here(more) == nil {
			seen[more.Sum] = true
			list, size = append(list, more), size+more.Bytes
		}
	}
	return r.load(list)
}

// here is a chunk of this directory, which may go at any time; nil: it is not there.
func (r *copyReader) here(c chunk) *held {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if !r.s.holds(c.Sum) {
		return nil
	}
	return r.s.chunks[c.Sum]
}

// load reads chunks from the tier, and returns the first one.
func (r *copyReader) load(list []chunk) ([]byte, error) {
	keys, sizes := make([]tier.Key, len(list)), make([]int, len(list))
	for i, c := range list {
		keys[i], sizes[i] = r.name.chunk(c.Sum), c.Bytes
	}
	r.w.close() // as in copyChunks
	got, err := r.s.copies.load(r.ctx, keys, sizes)
	if r.have == nil {
		r.have = map[sum][]byte{}
	}
	for i, plain := range got {
		plain = bytes.Clone(plain) // the tier may write to what it was lent
		got[i] = plain
		if sum := r.w.sum(plain); subtle.ConstantTimeCompare(sum[:], list[i].Sum[:]) == 0 {
			if e := r.s.copies.wrong(r.ctx, keys[i], "has other bytes"); i == 0 {
				return nil, ErrCopies{"fetch", e}
			}
			break
		}
		if i > 0 {
			r.have[list[i].Sum] = plain
		}
	}
	if len(got) == 0 {
		return nil, missOr(err)
	}
	return got[0], nil
}

// lacking is the chunks of a state that are not in this directory, each once.
func (s *Store) lacking(st *state) (out []chunk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[sum]bool{}
	st.each(func(c chunk) {
		if !seen[c.Sum] && !s.holds(c.Sum) {
			out = append(out, c)
		}
		seen[c.Sum] = true
	})
	return out
}

// holds reports whether a chunk is in this directory. The caller has the lock.
func (s *Store) holds(c sum) bool { h := s.chunks[c]; return h != nil && h.pack != nil }
