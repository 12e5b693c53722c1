package offload

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
)

// lane is a stream and the host memory of one direction, in parts. A part that a tier holds for long is replaced by another one, as often as
// each tier can hold parts at a time.
type lane[B backend.Buffer] struct {
	be      backend.Backend[B]
	stream  backend.Stream
	bytes   int64 // of a part
	parts   chan *part
	numbers []uint32

	mu     sync.Mutex
	more   int // replacements for parts that are still out
	most   int
	closed bool
}

// part is host memory that blocks pass through. The lane's lock guards it, but its holder may read lent.
type part struct {
	backend.HostMemory
	lent    int  // times that it was given back
	late    bool // another one replaces it
	pending bool // and is being allocated
}

// laneParts are the parts of a lane: one is filled while another one is emptied, and one may be with a tier.
const laneParts = 3

// spareParts is how many more a lane may have: a tier keeps the parts that it had when a call of it became late, and gets no more
// calls; for a load that can be the tier that is read, and one further up.
func spareParts(tiers int) int { return 2 * laneParts * tiers }

func (l *lane[B]) open(be backend.Backend[B], bytes int64, tiers int) (err error) {
	l.be, l.bytes, l.most, l.parts = be, bytes, spareParts(tiers), make(chan *part, laneParts)
	if l.stream, err = be.NewStream(); err != nil {
		return err
	}
	for range laneParts {
		m, err := backend.HostAlloc(be, bytes)
		if err != nil {
			return fmt.Errorf("%d bytes of host memory for blocks in transit: %w", bytes, err)
		}
		l.parts <- &part{HostMemory: m}
	}
	return nil
}

// close closes the lane and its unused parts. A call that hangs keeps its own until it ends.
func (l *lane[B]) close() (err error) {
	if l.stream == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for len(l.parts) > 0 {
		err = errors.Join(err, (<-l.parts).Close())
	}
	return errors.Join(err, l.stream.Close())
}

// back returns a part to the lane, or closes it if the lane is closed or the part was replaced.
func (l *lane[B]) back(p *part) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.lent++
	replaced := p.late && !p.pending
	if p.late {
		l.more--
		p.late, p.pending = false, false
	}
	if l.closed || replaced {
		_ = p.Close()
		return
	}
	l.parts <- p // there is room for all
}

// late replaces a part that was lent and may be out for long. lent is the part's from when that began. The lane's lock is
// not held while the replacement is allocated, which may take a device a while.
func (l *lane[B]) late(p *part, lent int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || p.late || p.lent != lent || l.more == l.most {
		return
	}
	p.late, p.pending = true, true
	l.more++
	l.mu.Unlock()
	m, err := backend.HostAlloc(l.be, l.bytes)
	l.mu.Lock()
	back := p.lent != lent // it needs no replacement
	switch {
	case !back && err == nil && !l.closed:
		p.pending = false
		l.parts <- &part{HostMemory: m}
		return
	case !back: // others wait for it
		p.late, p.pending = false, false
		l.more--
	}
	if err == nil {
		_ = m.Close()
	}
}

// part takes a part, the caller's until back.
func (l *lane[B]) part(ctx context.Context) (*part, error) {
	select {
	case p := <-l.parts:
		return p, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
