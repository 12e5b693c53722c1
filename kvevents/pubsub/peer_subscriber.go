// A subscriber is sent what comes after its subscription.

package pubsub

import (
	"encoding/binary"
	"strings"
	"sync"
)

// subscription is which prefixes of the topic a peer has asked for, and where it is in the log.
type subscription struct {
	mu     sync.Mutex
	counts []uint32 // of subscriptions by the lengths of their prefixes; those that match no topic are forgotten
	total  uint32
	at     position
}

// change takes in a subscription, or the end of one.
func (p *peer) change(message []byte) {
	prefix := string(message[1:])
	if !strings.HasPrefix(p.p.o.Topic, prefix) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counts == nil {
		p.counts = make([]uint32, len(p.p.o.Topic)+1)
	}
	n := &p.counts[len(prefix)]
	switch {
	case message[0] == 1 && p.total < 1<<31:
		if p.total == 0 {
			p.at = p.p.log.end()
		}
		*n++
		p.total++
	case message[0] == 0 && *n > 0:
		*n--
		p.total--
	}
}

// take appends what the peer is to be sent next.
func (p *peer) take(dst [][]byte) (payloads [][]byte, first uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.total == 0 {
		return dst, 0
	}
	return p.p.log.take(&p.at, dst)
}

// subscriber sends batches until the connection ends.
func (p *peer) subscriber() {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer p.raw.Close()
		for {
			message, err := p.conn.ReadMessage()
			if err != nil {
				return
			}
			if len(message) == 1 && len(message[0]) > 0 && message[0][0] <= 1 {
				p.change(message[0])
			}
		}
	}()
	topic := []byte(p.p.o.Topic)
	var chunk [][]byte
	for {
		clear(chunk) // of what the log may have forgotten
		payloads, first := p.take(chunk[:0])
		if chunk = payloads; len(payloads) == 0 {
			select {
			case <-p.wake:
				continue
			case <-gone:
				return
			}
		}
		if err := p.send(first, payloads, topic); err != nil {
			p.failed(err)
			p.raw.Close()
			<-gone
			return
		}
	}
}

// send writes batches, each with the frames that come before the sequence number.
func (p *peer) send(first uint64, payloads [][]byte, before ...[]byte) error {
	frames := append(append(make([][]byte, 0, 4), before...), nil, nil)
	for i, payload := range payloads {
		binary.BigEndian.PutUint64(p.seq[:], first+uint64(i))
		frames[len(before)], frames[len(before)+1] = p.seq[:], payload
		if err := p.conn.Append(frames...); err != nil {
			return err
		}
	}
	return p.conn.Flush()
}
