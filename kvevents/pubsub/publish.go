// A batch is published by appending it to the log. No peer is waited for.

package pubsub

import (
	"bytes"
	"time"

	"github.com/ferrumkv/ferrumkv/kvevents"
)

// Publish sends events as one batch to all subscribers. It copies what it keeps and never waits for a peer. After an ErrArgument or an ErrFull, none of
// the events was published. A call that begins an epoch encodes all blocks that are stored.
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
	p.ledger.batches(func(events []kvevents.Event) {
		payload := p.encode(events)
		payloads = append(payloads, payload)
		size += int64(len(payload)) + overhead
	})
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
