// Live messages are read one at a time: what is not read waits in the connection.

package pubsub

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// listen reads a live message, which is held. After a while without any, a replay is asked whether something is missing.
func (s *Subscriber) listen(ctx context.Context) {
	l := &s.live
	until := time.Time{}
	if s.o.Replay != "" {
		if until = l.idleAt; s.owed && s.asking.at.Before(until) {
			until = s.asking.at
		}
		if soon := time.Now().Add(time.Millisecond); until.Before(soon) {
			until = soon // messages that are there are read even if Next is called late
		}
	}
	frames, err := s.read(ctx, l.conn, until)
	switch {
	case err == errEnded:
	case err == errQuiet:
		if now := time.Now(); !now.Before(l.idleAt) {
			l.idle = min(2*l.idle, s.o.times.mostIdle)
			l.idleAt = now.Add(l.idle)
			if s.canAsk() {
				s.asking.want = s.missing()
			}
		}
	case err != nil:
		s.lost(err)
	default:
		s.hold(frames)
	}
}

// hold keeps a message until judge has said what it is. The connection is not read meanwhile.
func (s *Subscriber) hold(frames [][]byte) {
	if frames == nil { // a PONG
		return
	}
	l := &s.live
	l.fails, l.idle = 0, s.o.times.idle
	if len(frames) != 3 || len(frames[1]) != 8 {
		s.last = fmt.Errorf("pubsub: a message of %d frames from %s; it does not publish KV events", len(frames), s.o.Events)
		return
	}
	sequence := binary.BigEndian.Uint64(frames[1])
	if sequence == endOfReplay || len(frames[0]) < len(s.o.Topic) || !strings.HasPrefix(string(frames[0][:len(s.o.Topic)]), s.o.Topic) {
		return
	}
	l.held, l.topic, l.sequence, l.payload = true, frames[0], sequence, frames[2]
	l.asked, l.met = 0, false
}
