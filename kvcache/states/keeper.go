package states

import (
	"context"
	"io"
	"runtime"
	"sync"
)

// keeper stores the parts of a Put: it reads and cuts them while the chunks before are summed and written.
type keeper struct {
	s   *Store
	st  *state
	to  *packer
	all sync.WaitGroup

	free    chan *batch // that nobody uses
	made    int
	batches []*kept // of the parts, in order

	mu      sync.Mutex
	failure error
}

// batch is room for bytes of a part, and what verifies chunks of it.
type batch struct {
	bytes, room []byte
	w           *coder
}

// kept is the chunks of a batch that were stored.
type kept struct {
	part   int
	cuts   []int // bytes of its chunks
	chunks []chunk
}

// mostKeepers is how many goroutines store chunks of a Put.
const mostKeepers = 4

// batchChunks is how many chunks of the largest size a batch has room for.
const batchChunks = 16

func newKeeper(s *Store, st *state) *keeper {
	k := &keeper{s: s, st: st, free: make(chan *batch, min(runtime.GOMAXPROCS(0), mostKeepers)+1)}
	k.to = &packer{s: s, sync: s.o.Durable, reserve: s.reserve}
	return k
}

// fail notes an error, if there is one, and returns the first of all.
func (k *keeper) fail(err error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failure == nil {
		k.failure = err
	}
	return k.failure
}

// next is a batch that is free.
func (k *keeper) next() *batch {
	if k.made < cap(k.free) && len(k.free) == 0 {
		k.made++
		b, ok := k.s.batches.Get().(*batch)
		if !ok {
			b = &batch{bytes: make([]byte, batchChunks*k.s.o.sizes.max), room: make([]byte, k.s.o.sizes.max)}
		}
		b.w = k.s.work(k.st.Key.Salt)
		return b
	}
	return <-k.free
}

// put reads a part, and stores it.
func (k *keeper) put(ctx context.Context, part int, from io.Reader) error {
	s, tail := k.s, make([]byte, 0, k.s.o.sizes.max)
	for ended := false; !ended; {
		if err := k.fail(ctx.Err()); err != nil {
			return err
		}
		b := k.next()
		have := copy(b.bytes, tail)
		n, err := fill(from, b.bytes[have:])
		have += n
		if ended = err == io.EOF; !ended && err != nil {
			k.free <- b
			return k.fail(err)
		}
		g, at := &kept{part: part}, 0
		for have-at >= s.o.sizes.max || ended && at < have {
			n := s.o.sizes.cut(b.bytes[at:have])
			g.cuts, at = append(g.cuts, n), at+n
		}
		tail = append(tail[:0], b.bytes[at:have]...)
		k.batches = append(k.batches, g)
		k.st.Parts[part].Bytes += int64(at)
		if k.st.Bytes += int64(at); k.st.Bytes > s.o.Bytes {
			k.free <- b
			return k.fail(ErrFull{Need: k.st.Bytes, Budget: s.o.Bytes})
		}
		k.all.Go(func() {
			defer func() { k.free <- b }()
			k.keep(ctx, b, g)
		})
	}
	return k.fail(nil)
}

func (k *keeper) keep(ctx context.Context, b *batch, g *kept) {
	at := 0
	for _, n := range g.cuts {
		if k.fail(ctx.Err()) != nil {
			return
		}
		c, err := k.s.keep(b.w, k.to, b.bytes[at:at+n], b.room)
		if err != nil {
			_ = k.fail(err)
			return
		}
		g.chunks, at = append(g.chunks, c), at+n
	}
}

// wait ends it, and gives the state the chunks that were stored, in their order: all or, after an error, some.
func (k *keeper) wait() error {
	k.all.Wait()
	for len(k.free) > 0 { // all that were made, but for that of a reader that panics
		b := <-k.free
		k.s.release(b.w)
		k.s.batches.Put(b)
	}
	k.st.chunks = make([][]chunk, len(k.st.Parts))
	for _, g := range k.batches {
		k.st.chunks[g.part] = append(k.st.chunks[g.part], g.chunks...)
	}
	err := k.failure
	if err == nil {
		err = k.to.close()
	}
	if err != nil {
		k.to.abandon()
	}
	return err
}
