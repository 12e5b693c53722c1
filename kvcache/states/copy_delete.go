// What is deleted here is deleted from the tier first, so that no call of Fetch brings it back, and nothing is copied meanwhile.

package states

import (
	"context"
	"errors"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// deleteReads is what Delete may take to read what it has to delete, one record or piece of a manifest after the other.
const deleteReads = 15 * time.Second

// withCopies calls a function that deletes states here, after one that deletes their copies, if there may be any. Both are done whatever the other
// returns. there is that there was a copy.
func (s *Store) withCopies(op string, copied func(context.Context) (bool, error), here func() (int, error)) (n int, there bool, err error) {
	if err := s.enter(); err != nil {
		return 0, false, err
	}
	defer s.leave()
	if s.copies == nil {
		n, err = here()
		return n, false, err
	}
	s.copies.alone(func() {
		var e error
		if there, e = copied(context.Background()); e != nil {
			e = ErrCopies{op, e}
		}
		n, err = here()
		err = errors.Join(err, e)
	})
	return n, there, err
}

// clear deletes all copies of a salt, whoever has made them.
func (c *copies) clear(ctx context.Context, salt string) error {
	return c.mover.Clear(ctx, c.s.names.copyKey(salt).root())
}

// delete deletes the copy of a state: what it is found by, and the chunks that no other state of this directory has.
func (c *copies) delete(ctx context.Context, id ID) (there bool, err error) {
	c.s.mu.Lock()
	st := c.s.states[id]
	if st != nil {
		st = &state{Info: st.Info, chunks: st.chunks}
	}
	c.s.mu.Unlock()
	reading, cancel := context.WithTimeout(ctx, c.reads)
	defer cancel()
	if st == nil {
		st, err = c.manifest(reading, c.s.names.stateKey(id), func(named ID) bool { return named == id })
		if errors.Is(err, ErrMiss{}) { // others of its blocks may be there: without the first of the manifest nothing is found by them
			return false, c.mover.Delete(ctx, append(c.s.names.manifestKeys(id, 1, 1), c.s.names.stateKey(id)))
		}
		if err != nil {
			err = errors.Unwrap(err)
			if reading.Err() != nil { // as above: the next call would take as long
				err = errors.Join(err, c.mover.Delete(ctx, append(c.s.names.manifestKeys(id, 1, 1), c.s.names.stateKey(id))))
			}
			return false, err
		}
		there = true
	}
	manifest, err := st.encode(nil)
	if err != nil {
		return there, err
	}
	name := c.s.names.copyKey(st.Key.Salt)
	keys := append(c.s.names.manifestKeys(id, len(manifest), c.s.o.sizes.max), c.s.names.stateKey(id))
	shared := c.s.sharedChunks(st)
	st.each(func(c chunk) {
		if !shared[c.Sum] {
			keys = append(keys, name.chunk(c.Sum))
		}
	})
	if next, ok := c.s.nextTo(st); ok {
		if n, _ := c.has(reading, []tier.Key{c.s.names.stateKey(next)}); n > 0 { // else another store may have deleted it
			c.offer(next)
		}
	}
	records, err := c.naming(reading, id, c.s.names.recordKeys(name, st)[1:])
	return there, errors.Join(err, c.mover.Delete(ctx, append(keys, records...)))
}

// sharedChunks are those of a state that others of this directory have.
func (s *Store) sharedChunks(st *state) map[sum]bool {
	out := map[sum]bool{}
	st.each(func(c chunk) { out[c.Sum] = false })
	var others []*state
	s.mu.Lock()
	for id, other := range s.states {
		if id != st.ID && other.Key.Salt == st.Key.Salt {
			others = append(others, other)
		}
	}
	s.mu.Unlock()
	for _, other := range others { // whose chunks are the same always, so that nobody waits for this
		other.each(func(c chunk) {
			if _, has := out[c.Sum]; has {
				out[c.Sum] = true
			}
		})
	}
	return out
}

// nextTo is the state of this directory that has most of the tokens of one that is deleted, the latest used of several, if it has a mark of it: records
// for both of them named that one.
func (s *Store) nextTo(st *state) (ID, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var next *state
	most := stride
	for id, other := range s.states {
		if id == st.ID || other.Key.Identity != st.Key.Identity {
			continue
		}
		if n := common(other.Key.Tokens, st.Key.Tokens); n > most || n == most && (next == nil || other.Used.After(next.Used)) {
			next, most = other, n
		}
	}
	if next == nil {
		return ID{}, false
	}
	return next.ID, true
}

// naming is the keys of those records that name a state: others that begin like it have been copied since.
func (c *copies) naming(ctx context.Context, id ID, keys []tier.Key) (out []tier.Key, err error) {
	bytes := make([]int, len(keys))
	for i := range bytes {
		bytes[i] = recordBytes
	}
	for len(keys) > 0 {
		got, err := c.load(ctx, keys, bytes[:len(keys)])
		for i, b := range got {
			if ID(b[recordHead:]) == id {
				out = append(out, keys[i])
			}
		}
		if err != nil {
			return out, err
		}
		keys = keys[min(len(got)+1, len(keys)):] // the next one is not there
	}
	return out, nil
}
