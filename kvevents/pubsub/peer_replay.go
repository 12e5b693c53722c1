// A replay is the batches of the present epoch from a sequence number on.

package pubsub

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/ferrumkv/ferrumkv/kvevents"
)

// endOfReplay is the sequence number of the message after the last batch.
const endOfReplay = math.MaxUint64

// replays answers requests until the connection ends, or asks for something else.
func (p *peer) replays() {
	for {
		request, err := p.conn.ReadMessage()
		switch {
		case err != nil:
			return
		case request == nil: // a PONG
			continue
		case len(request) != 2 || len(request[0]) != 0 || len(request[1]) != 8:
			return
		}
		if err := p.answer(binary.BigEndian.Uint64(request[1])); err != nil {
			p.failed(err)
			return
		}
	}
}

// answer sends what the log has now. An epoch that begins meanwhile ends it: subscribers see that by their own.
func (p *peer) answer(start uint64) error {
	p.conn.SetWriteLimit(time.Now().Add(p.p.o.replay))
	defer p.conn.SetWriteLimit(time.Time{}) // answers to heartbeats have none
	before, topic := [][]byte{nil}, []byte{}
	if p.p.o.Form == kvevents.VLLM {
		before = append(before, []byte(p.p.o.Topic))
	}
	end := p.p.log.end()
	at := position{end.epoch, start}
	var chunk [][]byte
	for at.next < end.next {
		clear(chunk)
		payloads, first := p.p.log.take(&at, chunk[:0])
		if chunk = payloads; at.epoch != end.epoch {
			break
		}
		if err := p.send(first, payloads, before...); err != nil {
			return err
		}
	}
	if len(before) == 2 {
		before[1] = topic // which the end has none of
	}
	return p.send(endOfReplay, [][]byte{nil}, before...)
}
