// A state goes into the tier: its chunks first, and what it is found by last.

package states

import (
	"context"
	"errors"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// copyOut copies a state, if it is there still: the chunks that the tier lacks, the manifest, and what it is found by.
func (c *copies) copyOut(ctx context.Context, id ID) (there bool, err error) {
	c.s.mu.Lock()
	st := c.s.states[id]
	if st == nil {
		c.s.mu.Unlock()
		return false, nil
	}
	out := &state{Info: st.Info, chunks: st.chunks}
	c.s.mu.Unlock()
	out.Pinned = false // which is for this directory
	manifest, err := out.encode(nil)
	if err == nil && len(manifest) > largestCopied {
		err = errLargeManifest
	}
	if err == nil {
		err = c.copyChunks(ctx, st)
	}
	if err == nil {
		err = c.publish(ctx, out, manifest)
	}
	return !errors.Is(err, errGone), err
}

var (
	errLargeManifest = errors.New("its manifest is too large for a copy")
	errGone          = errors.New("it has gone")
)

func (c *copies) copyChunks(ctx context.Context, st *state) error {
	name := c.s.names.copyKey(st.Key.Salt)
	root := name.root()
	w := c.s.work(st.Key.Salt)
	defer c.s.release(w)
	var chunks []chunk
	var keys []tier.Key
	seen := map[sum]bool{}
	st.each(func(k chunk) {
		if !seen[k.Sum] {
			seen[k.Sum] = true
			chunks, keys = append(chunks, k), append(keys, name.chunk(k.Sum))
		}
	})
	for most := c.s.o.sizes.max; ; most = min(2*most, batchBlocks*c.s.o.sizes.max) {
		n, err := c.has(ctx, keys)
		if err != nil {
			return err
		}
		if n > 0 { // so that what is lacking may be a gap: what is behind it is sent again by a few chunks only
			most = c.s.o.sizes.max
		}
		chunks, keys = chunks[n:], keys[n:]
		if len(chunks) == 0 {
			return nil
		}
		var blocks []tier.Block
		for size := 0; len(chunks) > 0 && size < most; chunks, keys = chunks[1:], keys[1:] {
			b, err := c.seal(tier.Block{Key: keys[0], Root: root}, chunks[0].Bytes, func(room []byte) error {
				return c.s.content(st, w, chunks[0], room)
			})
			if err != nil {
				return err
			}
			blocks, size = append(blocks, b), size+len(b.Bytes)
		}
		w.close() // a pack that goes meanwhile gives its room back, however long the tier takes
		if err := c.store(ctx, blocks); err != nil {
			return err
		}
	}
}

// content makes dst what a chunk of a state has. It holds nothing beyond the call: the state may go meanwhile, and then it is errGone.
func (s *Store) content(st *state, w *coder, c chunk, dst []byte) error {
	s.mu.Lock()
	if st.gone {
		s.mu.Unlock()
		return errGone
	}
	st.readers++
	h := s.chunks[c.Sum]
	s.mu.Unlock()
	err := s.read(w, c, h, dst, false)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unread(st)
	return err
}

// publish stores what a state is found by, in place of what there is.
func (c *copies) publish(ctx context.Context, st *state, manifest []byte) error {
	name, piece := c.s.names.copyKey(st.Key.Salt), c.s.o.sizes.max
	root := name.root()
	var pieces, records []tier.Block
	for i, key := range c.s.names.manifestKeys(st.ID, len(manifest), piece) {
		part := manifest[i*piece : min((i+1)*piece, len(manifest))]
		b, err := c.seal(tier.Block{Key: key, Root: root}, len(part), func(room []byte) error { copy(room, part); return nil })
		if err != nil {
			return err
		}
		pieces = append(pieces, b)
	}
	var parent tier.Key
	for _, key := range c.s.names.recordKeys(name, st) {
		b, err := c.seal(tier.Block{Key: key, Root: root, Parent: parent}, recordBytes, func(room []byte) error {
			appendRecord(room[:0], st.ID, len(manifest))
			return nil
		})
		if err != nil {
			return err
		}
		records, parent = append(records, b), key
	}
	var old []tier.Key
	for _, b := range slices.Concat(pieces, records) {
		old = append(old, b.Key)
	}
	if err := c.mover.Delete(ctx, old); err != nil { // a tier does not write again what it has
		return err
	}
	if err := c.store(ctx, pieces); err != nil {
		return err
	}
	return c.store(ctx, records)
}

// recordKeys are those of the records that may name a state: the one of its ID, and those of its tokens.
func (n namer) recordKeys(name copyKey, st *state) []tier.Key {
	out := []tier.Key{n.stateKey(st.ID)}
	if len(st.Key.Tokens) == 0 {
		return out
	}
	marks := name.marks(st.Key.Identity, st.Key.Tokens)
	for _, m := range marks[1:] {
		out = append(out, name(kindThrough, m[:]))
	}
	last := marks[len(marks)-1]
	return append(out, name(kindEnd, last[:]))
}

// A record names a state, and says how many bytes its manifest has.
func appendRecord(b []byte, id ID, manifest int) []byte {
	b = append(append(b, recordMagic...), schema, 0, 0, 0)
	return le.AppendUint64(append(b, id[:]...), uint64(manifest))
}
