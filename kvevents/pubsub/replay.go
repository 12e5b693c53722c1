// Replays: what the publisher sends again, on a connection for each request.

package pubsub

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/ferrumkv/ferrumkv/kvevents/internal/zmtp"
)

// What a replay is asked for.
type want int

const (
	nothing want = iota
	all          // from the beginning
	later        // from the last message that was returned, to see that it is the same, on
)

type asking struct {
	want  want
	at    time.Time // of the next attempt
	fails int
	sure  bool // the last answer was that what was returned is of the publisher's epoch

	conn   *zmtp.Conn
	from   uint64
	left   time.Duration // to wait for answers
	count  int           // of them
	last   uint64        // the number of the last
	sameAs bool          // one was the last message that was returned
	met    bool          // one was the live message that is held
}

// missing is what to ask for.
func (s *Subscriber) missing() want {
	if s.again != 0 {
		return all
	}
	return later
}

// canAsk reports whether a replay may answer: one that failed several times is left alone for a while.
func (s *Subscriber) canAsk() bool {
	return s.o.Replay != "" && (s.asking.fails < s.o.times.replayMore || !time.Now().Before(s.asking.at))
}

// ask connects and asks.
func (s *Subscriber) ask(ctx context.Context) {
	a := &s.asking
	if !s.sleep(ctx, a.at) {
		return
	}
	a.from = 0
	if a.want == later {
		a.from = s.next - 1
		if s.live.held {
			a.from = min(a.from, s.live.sequence)
		}
	}
	conn, err := s.dial(ctx, s.o.Replay, zmtp.Options{Type: zmtp.Dealer, Buffer: 64 << 10})
	if err == errEnded {
		return
	}
	a.conn = conn
	if err == nil {
		err = conn.WriteMessage(nil, binary.BigEndian.AppendUint64(nil, a.from))
	}
	if err != nil {
		s.unanswered(err)
		return
	}
	a.left, a.count, a.last, a.sameAs, a.met, a.sure = s.o.times.replay, 0, 0, false, false, false
}

func (s *Subscriber) hangUp() {
	if s.asking.conn != nil {
		s.asking.conn.Close()
		s.asking.conn = nil
	}
}

// unanswered is a replay that failed. It is asked again, and after some attempts left alone for a while.
func (s *Subscriber) unanswered(err error) {
	a := &s.asking
	s.hangUp()
	s.last = err
	if a.want == all && a.count > 0 {
		a.want = later
	}
	a.count = 0
	if a.fails++; a.fails < s.o.times.replayMore {
		a.at = time.Now().Add(backoff(10*time.Millisecond, time.Second, a.fails))
		return
	}
	a.at = time.Now().Add(backoff(s.o.times.retry, s.o.times.mostRetry, a.fails-s.o.times.replayMore))
	if a.want == all {
		s.owed = true
	}
	a.want = nothing
}

// answered reads an answer and returns it if it is a message that follows.
func (s *Subscriber) answered(ctx context.Context) (Message, bool) {
	a := &s.asking
	start := time.Now()
	frames, err := s.read(ctx, a.conn, start.Add(min(a.left, s.o.times.stall)))
	a.left -= time.Since(start)
	switch {
	case err == errEnded, err == nil && frames == nil:
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
	return s.message(topic, sequence, payload, false, false), true
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
	a.fails = 0
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
