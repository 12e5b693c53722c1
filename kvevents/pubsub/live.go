// The live connection: messages as the publisher sends them.

package pubsub

import (
	"context"
	"time"

	"github.com/ferrumkv/ferrumkv/kvevents/internal/zmtp"
)

// What is known of the live messages. A replay can be of a newer epoch than they are: the connections have old messages in them.
type liveState int

const (
	unknown liveState = iota // whether they are of the epoch of what was returned
	same                     // they are
	stale                    // they are of an older one, until the sequence falls
)

type live struct {
	conn    *zmtp.Conn
	at      time.Time // of the next attempt to connect
	fails   int
	opening bool      // the subscription may not have arrived
	by      time.Time // by which it has
	idle    time.Duration
	idleAt  time.Time

	state liveState
	heard bool   // there was a message on this connection
	last  uint64 // the number of the last one
	skips int    // stale messages
	check int    // the number of them after which a replay is asked

	held     bool // a message that was read
	topic    []byte
	sequence uint64
	payload  []byte
	asked    int  // replays since
	met      bool // the last one had it
}

func (l *live) drop() {
	if l.conn != nil {
		l.conn.Close()
		l.conn = nil
	}
	l.held, l.topic, l.payload = false, nil, nil
}

// connect makes a live connection, or tries to.
func (s *Subscriber) connect(ctx context.Context) {
	l := &s.live
	if !s.sleep(ctx, l.at) {
		return
	}
	conn, err := s.dial(ctx, s.o.Events, zmtp.Options{Type: zmtp.Sub, Buffer: 64 << 10})
	if err == errEnded {
		return
	}
	l.conn = conn
	opening := false
	if err == nil {
		err = conn.Subscribe(s.o.Topic)
	}
	if err == nil {
		opening, err = conn.Ping()
	}
	if err != nil {
		s.lost(err)
		return
	}
	now := time.Now()
	*l = live{conn: conn, fails: l.fails, opening: opening, by: now.Add(s.o.times.pong), idle: s.o.times.idle, check: s.o.times.skips}
	l.idleAt = now.Add(l.idle)
	if s.canAsk() {
		s.asking.want = s.missing()
	}
}

// lost closes the live connection, to connect again after a while.
func (s *Subscriber) lost(err error) {
	s.last = err
	s.live.drop()
	s.live.at = time.Now().Add(backoff(s.o.times.again, s.o.times.mostAgain, s.live.fails))
	s.live.fails++
}

// open waits for the PONG after the subscription: from then on no message passes by. A message says the same, and is held.
func (s *Subscriber) open(ctx context.Context) {
	frames, err := s.read(ctx, s.live.conn, s.live.by)
	switch {
	case err == errEnded:
		return
	case err == errQuiet: // a peer that answers no PING
	case err != nil:
		s.lost(err)
		return
	default:
		s.live.fails = 0
		s.hold(frames)
	}
	s.live.opening = false
}
