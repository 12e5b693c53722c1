// What tests share: short times, short texts of messages, and a naive follower.

package pubsub

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvevents"
)

// soon are times for tests, in which much fails.
var soon = times{
	handshake: 10 * time.Second, pong: 10 * time.Second, idle: 30 * time.Millisecond, mostIdle: 200 * time.Millisecond,
	stall: 10 * time.Second, pause: 10 * time.Second, replay: time.Minute, again: 5 * time.Millisecond, mostAgain: 50 * time.Millisecond,
	retry: 50 * time.Millisecond, mostRetry: 200 * time.Millisecond, replayMessages: 1 << 20, skips: 16, replayMore: 3,
}

func listen(t testing.TB, o PublisherOptions) *Publisher {
	or(&o.Events, "tcp://127.0.0.1:0")
	or(&o.Replay, "tcp://127.0.0.1:0")
	p, err := Listen(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func follow(t testing.TB, o SubscriberOptions) *Subscriber {
	or(&o.times, soon)
	s := Subscribe(o)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// of is the options of a subscriber of a publisher.
func of(p *Publisher) SubscriberOptions {
	events, replay := p.Endpoints()
	return SubscriberOptions{Events: events, Replay: replay}
}

func long(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// connect has a subscriber connect, and read nothing yet.
func connect(t testing.TB, s *Subscriber, there func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); s.live.conn == nil || s.live.opening || !there(); {
		require.True(t, time.Now().Before(end), "no connection")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := s.Next(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
}

func always() bool { return true }

// next is the next message in short: its reset, its number and its events.
func next(t testing.TB, s *Subscriber) string {
	t.Helper()
	m, err := s.Next(long(t))
	require.NoError(t, err)
	return short(t, m)
}

func short(t testing.TB, m Message) string {
	t.Helper()
	out := fmt.Sprint(m.Sequence)
	if m.Reset != 0 {
		out = m.Reset.String() + " " + out
	}
	var d kvevents.Decoder
	_, err := d.Decode(m.Payload, func(_ kvevents.Batch, e kvevents.Event) error {
		switch e := e.(type) {
		case *kvevents.Stored:
			out += " +"
			for _, h := range e.Hashes {
				out += fmt.Sprint(h.Number, ",")
			}
		case *kvevents.Removed:
			out += " -"
			for _, h := range e.Hashes {
				out += fmt.Sprint(h.Number, ",")
			}
		case *kvevents.Cleared:
			out += " clear"
		}
		return nil
	})
	require.NoError(t, err)
	return strings.TrimSuffix(out, ",")
}

// block is an event that stores a block after a parent; 0: none.
func block(number, parent uint64) *kvevents.Stored {
	e := &kvevents.Stored{Hashes: []kvevents.Hash{{Number: number}}, Tokens: []uint32{uint32(number), 7}, BlockSize: 2, Medium: "GPU"}
	if parent != 0 {
		e.Parent, e.HasParent = kvevents.Hash{Number: parent}, true
	}
	return e
}

func gone(numbers ...uint64) *kvevents.Removed {
	e := &kvevents.Removed{Medium: "GPU"}
	for _, n := range numbers {
		e.Hashes = append(e.Hashes, kvevents.Hash{Number: n})
	}
	return e
}

// state is what a follower of events knows, in a form that can be compared: a naive one, which knows nothing of the ledger.
type state map[string]string

func (s state) apply(e kvevents.Event) {
	where := func(h kvevents.Hash, medium string, group int, has bool) string {
		return fmt.Sprint(h.Number, " ", medium, " ", group, " ", has)
	}
	switch e := e.(type) {
	case *kvevents.Stored:
		parent, hasParent := e.Parent, e.HasParent
		for i, h := range e.Hashes {
			each := tokensEach(e)
			keys := "none"
			if e.ExtraKeys != nil {
				keys = fmt.Sprint(e.ExtraKeys[i])
			}
			s[where(h, e.Medium, e.Group, e.HasGroup)] = fmt.Sprint(h, parent, hasParent, e.Tokens[i*each:(i+1)*each], keys, e.Pairs, e.BlockSize,
				e.LoRAID, e.LoRAName, e.Kind, e.Window, e.Locality, e.Ownership, e.SessionID, e.CacheSalt, e.Unknown)
			parent, hasParent = h, true
		}
	case *kvevents.Removed:
		for _, h := range e.Hashes {
			delete(s, where(h, e.Medium, e.Group, e.HasGroup))
		}
	case *kvevents.Cleared:
		clear(s)
	}
}

// follower builds a state of messages, and checks that they are in order.
type follower struct {
	state   state
	next    uint64
	joined  bool
	partial bool
	resets  [4]int
	d       kvevents.Decoder
}

func (f *follower) take(m Message) error {
	switch {
	case m.Reset != 0:
		f.state = state{}
		f.partial = m.Reset == Lost
		if m.Reset != Lost && m.Sequence != 0 {
			return fmt.Errorf("%v at %d", m.Reset, m.Sequence)
		}
		if (m.Reset == Joined) && f.joined {
			return errors.New("joined twice")
		}
		f.joined = true
		f.resets[m.Reset]++
	case !f.joined:
		return errors.New("the first message has no reset")
	case m.Sequence != f.next:
		return fmt.Errorf("%d after %d", m.Sequence, f.next)
	}
	f.next = m.Sequence + 1
	_, err := f.d.Decode(m.Payload, func(_ kvevents.Batch, e kvevents.Event) error {
		f.state.apply(e)
		return nil
	})
	return err
}

// requireEnded waits until there are no goroutines of this package.
func requireEnded(t testing.TB) {
	t.Helper()
	var stacks string
	require.Eventually(t, func() bool {
		buf := make([]byte, 1<<20)
		stacks = string(buf[:runtime.Stack(buf, true)])
		return !strings.Contains(stacks, "pubsub.(*Publisher)") && !strings.Contains(stacks, "pubsub.(*peer)") && !strings.Contains(stacks, "pubsub.(*Subscriber)")
	}, 30*time.Second, 10*time.Millisecond, "%s", &stacks)
}
