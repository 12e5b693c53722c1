// Replays: what the publisher sends again, on a connection for each request.

package pubsub

import (
	"context"
	"encoding/binary"
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

	advanced bool   // one was returned
	goesOn   bool   // the next request is for the rest of the last answer
	gap      uint64 // the first number that was missing in an answer
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
		if s.live.held && !a.goesOn { // else the answer has come past it
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
	if !a.goesOn {
		a.left, a.met = s.o.times.replay, false
	}
	a.count, a.last, a.sameAs, a.sure, a.advanced, a.goesOn = 0, 0, false, false, false, false
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
	s.last, a.goesOn = err, false
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
