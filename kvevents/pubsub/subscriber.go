// A Subscriber is a state machine that Next drives: connect, ask a replay, read what is live, judge it.

package pubsub

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/ferrumkv/ferrumkv/kvevents/internal/zmtp"
)

// Subscriber follows one publisher, through disconnections and restarts.
//
// What Next returns from one message with a Reset to the next is a sequence without gaps, of one epoch of the publisher. A Subscriber has no
// goroutine and no queue: what Next has not read waits in the connection, then at the publisher. If an engine drops it there, a replay fills the gap.
type Subscriber struct {
	o       SubscriberOptions
	base    context.Context // until Close
	cancel  context.CancelFunc
	busy    sync.Mutex // held by Next
	reading atomic.Pointer[zmtp.Conn]
	watched <-chan struct{} // of the context that interrupts reads
	unwatch func() bool
	wrong   error // of the options
	last    error // why there is no connection, or no replay

	// What has been returned.
	again Reset  // of the next message; 0: it follows
	next  uint64 // its sequence number
	seen  seen
	topic string
	owed  bool // something is missing because no replay answered: ask again

	live   live
	asking asking
}

// Subscribe returns a Subscriber. It connects in Next.
func Subscribe(o SubscriberOptions) *Subscriber {
	or(&o.Events, "tcp://127.0.0.1:5557")
	or(&o.MessageBytes, 64<<20)
	or(&o.times, usualTimes)
	s := &Subscriber{o: o, again: Joined, seen: newSeen()}
	if o.MessageBytes < 0 {
		s.wrong = argument("MessageBytes", "it is %d; it must not be negative", o.MessageBytes)
	} else if err := zmtp.Check(o.Events); err != nil {
		s.wrong = argument("Events", "%v", err)
	} else if err := zmtp.Check(o.Replay); err != nil && o.Replay != "" {
		s.wrong = argument("Replay", "%v", err)
	}
	s.base, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close ends a Next, and the connections.
func (s *Subscriber) Close() error {
	if s.base == nil { // Subscribe has not made it
		return ErrClosed
	}
	s.cancel()
	s.interrupt()
	s.busy.Lock()
	defer s.busy.Unlock()
	s.watch(context.Background())
	s.hangUp()
	s.live.drop()
	return nil
}

// Next returns the next batch. It connects and reconnects until the context ends, which is an ErrWaiting, after which Next can be called again and nothing
// is lost, or until the Subscriber is closed, which is ErrClosed. An invalid option is an ErrArgument. A context must leave enough time to
// connect: a call that ends before the connection is made starts over in the next one. Only one goroutine may call Next at a time.
func (s *Subscriber) Next(ctx context.Context) (Message, error) {
	if s.base == nil {
		return Message{}, ErrClosed
	}
	s.busy.Lock()
	defer s.busy.Unlock()
	s.watch(ctx)
	if s.wrong != nil {
		return Message{}, s.wrong
	}
	for {
		if err := s.ended(ctx); err != nil {
			return Message{}, err
		}
		var m Message
		var ok bool
		switch {
		case s.live.conn == nil:
			s.connect(ctx)
		case s.live.opening:
			s.open(ctx)
		case s.asking.conn != nil:
			m, ok = s.answered(ctx)
		case s.asking.want != nothing:
			s.ask(ctx)
		case s.owed && s.canAsk():
			s.asking.want = all
		case s.live.held:
			m, ok = s.judge()
		default:
			s.listen(ctx)
		}
		if ok {
			s.last = nil
			return m, nil
		}
	}
}

// message makes what Next returns. dead says that what is missing before it, if something is, is so for want of a replay that answers.
func (s *Subscriber) message(topic []byte, sequence uint64, payload []byte, lost, dead bool) Message {
	if len(topic) > 0 && string(topic) != s.topic {
		s.topic = string(topic)
	}
	m := Message{Topic: s.topic, Sequence: sequence, Payload: payload}
	switch {
	case s.again != 0 && sequence == 0:
		m.Reset, s.owed = s.again, false
	case s.again != 0 || lost || sequence != s.next:
		m.Reset, s.owed = Lost, dead
	}
	if m.Reset != 0 {
		s.seen.forget()
	}
	s.again, s.next = 0, sequence+1
	s.seen.add(sequence, payload)
	return m
}

// startOver forgets what was returned: the publisher has begun again.
func (s *Subscriber) startOver() {
	if s.again == 0 {
		s.again = Restarted
	}
	s.seen.forget()
	s.live.state = unknown
}
