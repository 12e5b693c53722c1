package disk

import (
	"context"
	"errors"
	"io"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// Has returns how many of the first keys are there; see tier.Tier. It reads nothing.
func (t *Tier) Has(ctx context.Context, keys []tier.Key) (int, error) {
	if err := t.begin("has"); err != nil {
		return 0, err
	}
	defer t.end()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for ; n < len(keys); n++ {
		if _, ok := t.index.byKey[keys[n]]; !ok {
			break
		}
	}
	t.stats.Queried += int64(len(keys))
	t.stats.Hits += int64(n)
	return n, nil
}

// Get reads the payloads of the first keys; see tier.Tier. A payload that cannot be read is kept, for the disk may read it
// later; one that fails three times in a row is forgotten, and after three failures in a row nothing is read for a while.
func (t *Tier) Get(ctx context.Context, blocks []tier.Block) (n int, err error) {
	if err := t.begin("get"); err != nil {
		return 0, err
	}
	defer t.end()
	defer func() {
		t.mu.Lock()
		t.stats.Queried += int64(len(blocks))
		t.stats.Hits += int64(n)
		t.mu.Unlock()
	}()
	for n < len(blocks) {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		if ok, err := t.get(&blocks[n]); err != nil {
			return n, t.failed("get", err)
		} else if !ok {
			break
		}
		n++
	}
	return n, nil
}

// get reads one payload; false: it is a miss.
func (t *Tier) get(b *tier.Block) (bool, error) {
	t.mu.Lock()
	i, ok := t.index.byKey[b.Key]
	if !ok || int(t.index.slots[i].length) != len(b.Bytes) {
		t.mu.Unlock()
		return false, nil
	}
	if t.reads.waits(t.o.now()) {
		t.mu.Unlock()
		return false, errBackOff
	}
	t.index.touch(i)
	e := t.index.slots[i].entry
	t.mu.Unlock()

	whole, err := t.read(i, &e, b)
	t.tried(&t.reads, err)

	t.mu.Lock()
	if int(i) >= len(t.index.slots) || t.index.slots[i].state != held || t.index.slots[i].generation != e.generation {
		t.mu.Unlock()
		return false, nil // given up meanwhile: another payload may have been there
	}
	s := &t.index.slots[i]
	if err != nil {
		if s.fails++; s.fails < patience {
			t.mu.Unlock()
			return false, err
		}
		whole = false
	}
	if whole {
		s.read, s.fails = true, 0
		t.stats.Read += int64(len(b.Bytes))
		b.Sum = e.sum
		t.mu.Unlock()
		return true, nil
	}
	if err == nil {
		t.stats.Corrupt++
	}
	t.index.forget(i)
	t.index.quarantine(i)
	t.quarantined(err)
	s.marked = false
	t.mu.Unlock()
	_ = t.markBad(i)
	return false, err
}

// read reads the payload of an entry, and tells whether it is the one that was written.
func (t *Tier) read(i int32, e *entry, b *tier.Block) (whole bool, err error) {
	dst := b.Bytes
	from := dst
	if t.codec.sealer != nil {
		room := t.room.Get().(*[]byte)
		defer t.room.Put(room)
		from = (*room)[:len(dst)]
	}
	if _, err := t.data.ReadAt(from, int64(i)*t.stride); errors.Is(err, io.EOF) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if s := t.codec.sealer; s != nil {
		if _, err := s.Open(dst[:0], &e.nonce, append(from, e.tag[:]...), t.codec.about('D', int(i), e)); err != nil {
			return false, nil
		}
	}
	return b.Summed() == e.sum, nil
}
