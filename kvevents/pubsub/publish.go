// A batch is published by appending it to the log. No peer is waited for.

package pubsub

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"github.com/ferrumkv/ferrumkv/kvevents"
)

// Publish sends events as one batch to all subscribers. It keeps nothing of the events and waits for no peer. An ErrArgument, or an ErrFull, is events that
// were not published at all.
func (p *Publisher) Publish(events ...kvevents.Event) error {
	p.publishing.Lock()
	defer p.publishing.Unlock()
	if p.done == nil { // Listen has not made it
		return ErrClosed
	}
	select {
	case <-p.done:
		return ErrClosed
	default:
	}
	if len(events) == 0 {
		return nil
	}
	for i, e := range events {
		if err := check(i, e); err != nil {
			return err
		}
	}
	if n := p.ledger.after(events, p.o.Blocks); n > p.o.Blocks {
		return ErrFull{n, p.o.Blocks}
	}
	payload := p.encode(events)
	if len(payload) > mostPayload {
		return argument("events", "they have %d bytes, of at most %d; publish fewer at once", len(payload), mostPayload)
	}
	for _, e := range events {
		p.ledger.apply(e)
	}
	if size := int64(len(payload)) + overhead; int(p.log.end().next) >= p.mostCount || p.log.size()+size > p.mostBytes {
		p.begin()
	} else {
		p.log.append(payload)
	}
	p.wake()
	return nil
}

// begin begins an epoch with the state of the ledger. It lasts for at least as much again as this takes, so that a batch costs no more than two.
func (p *Publisher) begin() {
	payloads := [][]byte{p.encode([]kvevents.Event{&kvevents.Cleared{}})}
	size := int64(len(payloads[0])) + overhead
	for events := range p.ledger.batches() {
		payload := p.encode(events)
		payloads = append(payloads, payload)
		size += int64(len(payload)) + overhead
	}
	p.mostCount = max(p.o.LogBatches, 2*len(payloads))
	p.mostBytes = max(p.o.LogBytes, 2*size)
	p.log.begin(payloads, size)
}

func (p *Publisher) encode(events []kvevents.Event) []byte {
	p.time = max(float64(time.Now().UnixNano())/1e9, p.time+1e-6) // no batch is the same as one before
	p.scratch = p.o.Form.AppendBatch(p.scratch[:0], kvevents.Batch{Time: p.time, Rank: p.o.Rank}, events...)
	payload := bytes.Clone(p.scratch)
	if cap(p.scratch) > 1<<20 {
		p.scratch = nil
	}
	return payload
}

// after is how many blocks are stored after events; it may be a number that is too large, but for those beyond most.
func (l *ledger) after(events []kvevents.Event, most int) int {
	n := l.n
	for _, e := range events {
		if e, ok := e.(*kvevents.Stored); ok {
			n += len(e.Hashes)
		}
	}
	if n <= most {
		return n
	}
	type key struct {
		number uint64
		place  place
	}
	n = l.n
	changed, cleared := map[key]bool{}, false
	set := func(h kvevents.Hash, p place, to bool) {
		k := key{h.Number, p}
		was, ok := changed[k]
		if !ok {
			was = !cleared && l.find(h.Number, p) != nil
		}
		if changed[k] = to; to && !was {
			n++
		} else if was && !to {
			n--
		}
	}
	worst := 0
	for _, e := range events {
		switch e := e.(type) {
		case *kvevents.Stored:
			for _, h := range e.Hashes {
				set(h, placeOf(e.Medium, e.Group, e.HasGroup), true)
			}
		case *kvevents.Removed:
			for _, h := range e.Hashes {
				set(h, placeOf(e.Medium, e.Group, e.HasGroup), false)
			}
		case *kvevents.Cleared:
			clear(changed)
			n, cleared = 0, true
		}
		worst = max(worst, n)
	}
	return worst
}

// check says what is wrong with an event.
func check(i int, e kvevents.Event) error {
	what := ""
	switch e := e.(type) {
	case *kvevents.Stored:
		switch {
		case e == nil:
			what = "it is nil"
		case e.BlockSize < 1 || e.BlockSize > math.MaxInt32:
			what = fmt.Sprintf("a block has %d tokens; BlockSize must be at least 1", e.BlockSize)
		case len(e.Tokens)%tokensEach(e) != 0 || len(e.Tokens)/tokensEach(e) != len(e.Hashes):
			what = fmt.Sprintf("%d blocks of %d numbers, and %d numbers in Tokens; each block needs all of its tokens", len(e.Hashes), tokensEach(e), len(e.Tokens))
		case e.ExtraKeys != nil && len(e.ExtraKeys) != len(e.Hashes):
			what = fmt.Sprintf("%d blocks, and ExtraKeys of %d; leave them out, or have one for each block", len(e.Hashes), len(e.ExtraKeys))
		}
	case *kvevents.Removed:
		if e == nil {
			what = "it is nil"
		}
	case *kvevents.Cleared:
		if e == nil {
			what = "it is nil"
		}
	default:
		what = "it is nil"
	}
	if what == "" {
		return nil
	}
	return argument(fmt.Sprintf("event %d", i), "%s", what)
}
