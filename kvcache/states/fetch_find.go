// How a copy is found: from a record, or from those of the beginnings of a prompt.

package states

import (
	"context"
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// nearest returns the copy that saves most of a prompt, if that is more than the given number of tokens.
func (c *copies) nearest(ctx context.Context, i Identity, tokens []uint32, more int, whole bool) (best *state, most int, failure error) {
	if more == len(tokens) {
		return nil, 0, ErrMiss{}
	}
	name := c.s.names.copyKey(i.Salt)
	marks := name.marks(i, tokens)
	var keys []tier.Key
	for _, m := range marks[1:] {
		keys = append(keys, name(kindThrough, m[:]))
	}
	at, err := c.has(ctx, keys)
	if err != nil {
		return nil, 0, ErrCopies{"fetch", err}
	}
	for ; at >= 0 && (at+1)*stride > more+1; at-- {
		try := []tier.Key{name(kindEnd, marks[at][:])}
		if at > 0 && !whole {
			try = append(try, keys[at-1])
		}
		for _, key := range try {
			st, err := c.record(ctx, key, func(id ID) bool { return best == nil || id != best.ID }, i)
			if err != nil {
				if !errors.Is(err, ErrMiss{}) {
					failure = err
				}
				continue
			}
			n := common(st.Key.Tokens, tokens)
			if n > max(more, most) && (!whole || n == len(st.Key.Tokens)) {
				best, most = st, n
			}
		}
		if best != nil {
			return best, most, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, 0, ErrCopies{"fetch", err}
		}
	}
	if failure == nil {
		failure = ErrMiss{}
	}
	return nil, 0, failure
}

// record is the state that a record names, if it is one to look at, of this identity, and its lifetime is not over.
func (c *copies) record(ctx context.Context, key tier.Key, look func(ID) bool, i Identity) (*state, error) {
	st, err := c.manifest(ctx, key, look)
	if err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	now := c.s.o.now()
	c.s.mu.Unlock()
	if st.Key.Identity != i || !st.Expires.IsZero() && !now.Before(st.Expires) {
		return nil, ErrMiss{}
	}
	if st.Bytes > c.s.o.Bytes {
		return nil, ErrFull{Need: st.Bytes, Budget: c.s.o.Bytes}
	}
	return st, nil
}

// manifest reads the manifest of the state that a record names, if it is one to look at.
func (c *copies) manifest(ctx context.Context, key tier.Key, look func(ID) bool) (*state, error) {
	got, err := c.load(ctx, []tier.Key{key}, []int{recordBytes})
	if len(got) == 0 {
		return nil, missOr(err)
	}
	b := got[0]
	id, n := ID(b[recordHead:]), le.Uint64(b[recordHead+len(ID{}):])
	switch {
	case string(b[:4]) != recordMagic || b[4] != schema || b[5]|b[6]|b[7] != 0:
		return nil, ErrCopies{"fetch", c.wrong(ctx, key, fmt.Sprintf("is no record of version %d", schema))}
	case n == 0 || n > largestCopied:
		return nil, ErrCopies{"fetch", c.wrong(ctx, key, fmt.Sprintf("names a manifest of %d bytes, at most %d", n, largestCopied))}
	case !look(id):
		return nil, ErrMiss{}
	}
	piece := c.s.o.sizes.max
	keys := c.s.names.manifestKeys(id, int(n), piece)
	var manifest []byte
	for at, key := range keys { // one by one: what is not there takes no memory
		got, err := c.load(ctx, []tier.Key{key}, []int{min(piece, int(n)-at*piece)})
		if len(got) == 0 {
			return nil, missOr(err)
		}
		manifest = append(manifest, got[0]...)
	}
	st, err := decodeManifest(manifest, id, nil, c.s.names, c.s.o.sizes.max)
	if err == nil {
		err = st.checkCuts(c.s.o.sizes.min)
	}
	if err != nil {
		_ = c.mover.Delete(ctx, keys)
		return nil, ErrCopies{"fetch", fmt.Errorf("the manifest of state %v: %w", id, err)}
	}
	return st, nil
}

// checkCuts refuses chunks that are smaller than Put makes them, because a manifest could list enough of them to take much memory.
func (s *state) checkCuts(smallest int) error {
	for _, part := range s.chunks {
		for i, c := range part {
			if c.Bytes < smallest && i < len(part)-1 {
				return fmt.Errorf("a chunk of %d bytes, of %d at least", c.Bytes, smallest)
			}
		}
	}
	return nil
}

// missOr is a block that was not there, or why it could not be read.
func missOr(err error) error {
	if err == nil {
		return ErrMiss{}
	}
	return ErrCopies{"fetch", err}
}
