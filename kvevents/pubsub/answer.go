// What a replay answers is checked against what was returned before.

package pubsub

import (
	"context"
	"encoding/binary"
	"errors"
	"time"
)

// answered reads an answer and returns it if it is a message that follows.
func (s *Subscriber) answered(ctx context.Context) (Message, bool) {
	a := &s.asking
	start := time.Now()
	most := s.o.times.stall
	if a.advanced {
		most = min(most, s.o.times.pause)
	}
	frames, err := s.read(ctx, a.conn, start.Add(min(a.left, most)))
	a.left -= time.Since(start)
	switch {
	case err == errEnded, err == nil && frames == nil:
		return Message{}, false
	case err == errQuiet && a.advanced && a.left > 0:
		s.goOn()
		return Message{}, false
	case err != nil:
		s.unanswered(err)
		return Message{}, false
	}
	if len(frames) == 3 { // an older engine's
		frames = append(frames, nil)
		frames[1], frames[2], frames[3] = nil, frames[1], frames[2]
	}
	if len(frames) != 4 || len(frames[0]) != 0 || len(frames[2]) != 8 {
		s.unanswered(errors.New("pubsub: " + s.o.Replay + " does not answer as a replay of KV events does"))
		return Message{}, false
	}
	topic, sequence, payload := frames[1], binary.BigEndian.Uint64(frames[2]), frames[3]
	switch {
	case sequence == endOfReplay:
		s.answeredAll()
		return Message{}, false
	case sequence < a.from || a.count > 0 && sequence <= a.last:
		s.unanswered(errors.New("pubsub: " + s.o.Replay + " answers with batches that were not asked for"))
		return Message{}, false
	case a.count >= s.o.times.replayMessages:
		s.unanswered(errors.New("pubsub: " + s.o.Replay + " does not end its answer"))
		return Message{}, false
	}
	first := a.count == 0
	a.count++
	a.last = sequence
	return s.answer(topic, sequence, payload, first)
}

// answer takes in a batch of a replay.
func (s *Subscriber) answer(topic []byte, sequence uint64, payload []byte, first bool) (Message, bool) {
	a, l := &s.asking, &s.live
	if l.held && sequence == l.sequence && string(payload) == string(l.payload) {
		a.met = true
	}
	switch {
	case a.want == all && first:
		s.startOver()
	case a.want == all:
	case sequence+1 < s.next:
		return Message{}, false
	case sequence+1 == s.next:
		if a.sameAs = s.seen.same(sequence, payload); !a.sameAs {
			s.fromTheBeginning()
		}
		return Message{}, false
	case !a.sameAs: // the publisher no longer has it, or never had
		s.fromTheBeginning()
		return Message{}, false
	}
	if s.again == 0 && sequence > s.next && a.gap != s.next {
		a.gap = s.next // if it is there again, the publisher no longer has what is missing
		s.goOn()
		return Message{}, false
	}
	a.advanced = true
	return s.message(topic, sequence, payload, false, false), true
}

// goOn asks for the rest of an answer of which a part is missing: libzmq drops what exceeds the queue of a ROUTER socket, 1,000 messages by default, the
// end of the answer among them.
func (s *Subscriber) goOn() {
	s.hangUp()
	a := &s.asking
	a.want, a.goesOn = later, true
	a.met = a.met && s.live.sequence < s.next // else it came after the part that is missing
}

// fromTheBeginning asks again for all, since what was returned is not what the publisher has.
func (s *Subscriber) fromTheBeginning() {
	s.hangUp()
	s.startOver()
	s.asking.want, s.live.asked = all, 0
}

// answeredAll is the end of a replay.
func (s *Subscriber) answeredAll() {
	a, l := &s.asking, &s.live
	s.hangUp()
	a.fails, a.gap = 0, 0
	a.sure = a.sameAs || a.want == all && a.count > 0
	if l.held {
		l.asked++
		l.met = a.sure && a.met
	}
	if a.want == later && !a.sure && (a.count > 0 || !l.heard) {
		s.fromTheBeginning()
		return
	}
	if a.want == all {
		s.owed = false
	}
	a.want = nothing
}
