// A context, or Close, ends what waits by a deadline that has passed. What was read in part stays in the connection.

package pubsub

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"github.com/ferrumkv/ferrumkv/kvevents/internal/zmtp"
)

var (
	errEnded = errors.New("the call ends") // what it returns, ended says
	errQuiet = errors.New("nothing has come")
)

var past = time.Unix(1, 0)

// watch has reads end with a context. Most programs call Next with the same one.
func (s *Subscriber) watch(ctx context.Context) {
	if ctx.Done() == s.watched {
		return
	}
	if s.unwatch != nil {
		s.unwatch()
	}
	s.watched, s.unwatch = ctx.Done(), nil
	if s.watched != nil {
		s.unwatch = context.AfterFunc(ctx, s.interrupt)
	}
}

func (s *Subscriber) interrupt() {
	if c := s.reading.Load(); c != nil {
		c.SetReadDeadline(past)
	}
}

// ended is the error of a Next that must end.
func (s *Subscriber) ended(ctx context.Context) error {
	if s.base.Err() != nil {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return ErrWaiting{err, s.last}
	}
	return nil
}

// read returns a message, none after a PONG, errQuiet after a time, unless that is zero, or errEnded.
func (s *Subscriber) read(ctx context.Context, c *zmtp.Conn, until time.Time) ([][]byte, error) {
	s.reading.Store(c)
	defer s.reading.Store(nil)
	for {
		if err := c.SetReadDeadline(until); err != nil {
			return nil, err
		}
		if s.ended(ctx) != nil { // after the deadline was set: an interrupt has set it before, or will
			return nil, errEnded
		}
		message, err := c.ReadMessage()
		switch {
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return message, err
		case s.ended(ctx) != nil:
			return nil, errEnded
		case !until.IsZero() && !time.Now().Before(until):
			return nil, errQuiet
		}
	}
}

// dial connects. The error is errEnded where the call ends.
func (s *Subscriber) dial(ctx context.Context, endpoint string, o zmtp.Options) (*zmtp.Conn, error) {
	dialing, cancel := context.WithCancel(s.base) // and not the caller's, whose deadline would pass for one of the publisher
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	o.Bytes, o.Handshake, o.Stall = s.o.MessageBytes, s.o.times.handshake, s.o.times.handshake
	c, err := zmtp.Dial(dialing, endpoint, o)
	if err != nil && s.ended(ctx) != nil {
		return nil, errEnded
	}
	return c, err
}

// sleep returns false where the call ends.
func (s *Subscriber) sleep(ctx context.Context, until time.Time) bool {
	d := time.Until(until)
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-s.base.Done():
	}
	return false
}

// backoff is about twice as long each time.
func backoff(first, most time.Duration, times int) time.Duration {
	d := min(first<<min(times, 16), most)
	return d/2 + rand.N(d)
}
