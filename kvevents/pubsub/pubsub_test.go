// A Publisher and Subscribers over a network that works.

package pubsub

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvevents"
)

// A subscriber that comes at any time has the state, and follows it through epochs, restarts and its own absence.
func TestFollow(t *testing.T) {
	p := listen(t, PublisherOptions{Topic: Topic("10.0.0.1:8000", "m"), LogBatches: 8})
	early := follow(t, of(p))
	require.Equal(t, "joined 0 clear", next(t, early))
	require.NoError(t, p.Publish(block(1, 0), block(2, 1)))
	require.NoError(t, p.Publish(gone(1)))
	require.NoError(t, p.Publish())
	require.Equal(t, "1 +1, +2", next(t, early))
	late := follow(t, of(p))
	require.Equal(t, "joined 0 clear", next(t, late))
	require.Equal(t, "1 +1, +2", next(t, late))
	require.Equal(t, "2 -1", next(t, late))
	require.Equal(t, "2 -1", next(t, early))
	for n := uint64(3); n < 8; n++ {
		require.NoError(t, p.Publish(block(n, n-1)))
	}
	require.Equal(t, uint64(8), p.Stats().Sequence)
	require.Equal(t, "3 +3", next(t, late))
	require.NoError(t, p.Publish(block(8, 7))) // the ninth
	s := p.Stats()
	require.Equal(t, Stats{Epoch: 2, Sequence: 2, Blocks: 7, LogBytes: s.LogBytes, Subscribers: 2, Replays: s.Replays}, s)
	for _, s := range []*Subscriber{early, late} {
		m := next(t, s)
		for m != "restarted 0 clear" {
			m = next(t, s)
		}
		require.Equal(t, "1 +2,3,4,5,6,7,8", next(t, s))
	}
	require.NoError(t, p.Publish(&kvevents.Cleared{}))
	require.Equal(t, "2 clear", next(t, late))

	events, replay := p.Endpoints()
	require.Equal(t, "2 clear", next(t, early))
	require.NoError(t, p.Close())
	p = listen(t, PublisherOptions{Events: events, Replay: replay})
	require.Equal(t, "restarted 0 clear", next(t, early))
	require.Equal(t, "restarted 0 clear", next(t, late))
	m, err := late.Next(ended(t))
	require.ErrorIs(t, err, context.Canceled, "%v", m)
	require.NoError(t, p.Publish(block(1, 0)))
	require.Equal(t, "1 +1", next(t, early))
	require.Equal(t, "1 +1", next(t, late))
}

// ended is a context that ends soon.
func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	return ctx
}

// Unix sockets are as good.
func TestIPC(t *testing.T) {
	dir := "ipc://" + t.TempDir()
	p := listen(t, PublisherOptions{Events: dir + "/e", Replay: dir + "/r"})
	require.Equal(t, SubscriberOptions{Events: dir + "/e", Replay: dir + "/r"}, of(p))
	s := follow(t, of(p))
	require.Equal(t, "joined 0 clear", next(t, s))
	require.NoError(t, p.Publish(block(1, 0)))
	require.Equal(t, "1 +1", next(t, s))
}

func TestTopics(t *testing.T) {
	topic := Topic("10.0.0.1:8000", "meta/llama@3")
	require.Equal(t, "kv@10.0.0.1:8000@meta/llama@3", topic)
	endpoint, model, ok := ParseTopic(topic)
	require.Equal(t, []any{"10.0.0.1:8000", "meta/llama@3", true}, []any{endpoint, model, ok})
	for _, other := range []string{"", "kv@", "kv@a", "kvevents"} {
		_, _, ok = ParseTopic(other)
		require.False(t, ok)
	}
	p := listen(t, PublisherOptions{Topic: topic})
	o := of(p)
	o.Topic, o.Replay = "kv@10.0.0.1", ""
	some := follow(t, o)
	o.Topic = "kv@10.0.0.2"
	none := follow(t, o)
	connect(t, some, always)
	connect(t, none, always)
	_, err := none.Next(ended(t))
	require.Equal(t, ErrWaiting{context.Canceled, nil}, err)
	require.NoError(t, p.Publish(block(1, 0)))
	require.Equal(t, "lost 1 +1", next(t, some))
	_, err = none.Next(ended(t))
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, p.Publish(block(2, 0)))
	m, err := some.Next(long(t))
	require.NoError(t, err)
	require.Equal(t, topic, m.Topic)
}

// What makes no sense is refused, and nothing of it is published.
func TestRefused(t *testing.T) {
	p := listen(t, PublisherOptions{Blocks: 3})
	bad := func(change func(e *kvevents.Stored)) kvevents.Event {
		e := block(1, 0)
		change(e)
		return e
	}
	for _, e := range []kvevents.Event{
		nil, (*kvevents.Stored)(nil), (*kvevents.Removed)(nil), (*kvevents.Cleared)(nil),
		bad(func(e *kvevents.Stored) { e.BlockSize = 0 }),
		bad(func(e *kvevents.Stored) { e.BlockSize = -1 }),
		bad(func(e *kvevents.Stored) { e.Tokens = e.Tokens[:1] }),
		bad(func(e *kvevents.Stored) { e.Pairs = true }),
		bad(func(e *kvevents.Stored) { e.Hashes = nil }),
		bad(func(e *kvevents.Stored) { e.ExtraKeys = [][]kvevents.Key{} }),
	} {
		require.ErrorIs(t, p.Publish(block(9, 0), e), ErrArgument{})
	}
	large := block(1, 0)
	large.CacheSalt, large.Kind = string(make([]byte, 33<<20)), string(make([]byte, 33<<20))
	require.ErrorIs(t, p.Publish(large), ErrArgument{})
	require.NoError(t, p.Publish(block(1, 0), block(2, 0), block(3, 0)))
	require.Equal(t, ErrFull{4, 3}, p.Publish(block(4, 0)))
	require.ErrorIs(t, p.Publish(block(4, 0), gone(1)), ErrFull{})
	require.NoError(t, p.Publish(gone(1), block(4, 0), block(4, 0), block(3, 0)))
	require.NoError(t, p.Publish(&kvevents.Cleared{}, block(5, 0), block(6, 0), block(7, 0)))
	require.Equal(t, 3, p.Stats().Blocks)
	require.Equal(t, uint64(4), p.Stats().Sequence)
	require.NoError(t, p.Close())
	require.Equal(t, ErrClosed, p.Publish(block(1, 0)))

	for _, o := range []PublisherOptions{{LogBatches: -1}, {LogBytes: -1}, {Blocks: -1}, {Subscribers: -1}, {Replays: -1}, {Form: -1}, {Form: 4}, {Topic: string(make([]byte, 2000))}} {
		_, err := Listen(o)
		require.ErrorIs(t, err, ErrArgument{})
	}
	_, err := Listen(PublisherOptions{Events: "tcp://127.0.0.1:0", Replay: "x"})
	require.ErrorIs(t, err, ErrArgument{})
	_, err = Listen(PublisherOptions{Events: "x"})
	require.ErrorIs(t, err, ErrArgument{})
	used := of(listen(t, PublisherOptions{})).Replay
	_, err = Listen(PublisherOptions{Events: "tcp://127.0.0.1:0", Replay: used})
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorContains(t, err, "pubsub: Replay: ")
	require.ErrorContains(t, err, used)
	for _, o := range []SubscriberOptions{{Events: "tcp://*:1"}, {MessageBytes: -1}, {Replay: "udp://a:1"}} {
		_, err = follow(t, o).Next(t.Context())
		require.ErrorIs(t, err, ErrArgument{})
	}
}

// Close ends a Next that waits, and one that comes later; contexts end one without a loss.
func TestClose(t *testing.T) {
	p := listen(t, PublisherOptions{})
	for _, o := range []SubscriberOptions{of(p), {Events: "tcp://127.0.0.1:1"}, {Events: of(p).Replay}, {Events: of(p).Events, Replay: of(p).Events}} {
		s := follow(t, o)
		done := make(chan error)
		go func() {
			for {
				if _, err := s.Next(t.Context()); err != nil {
					done <- err
					return
				}
			}
		}()
		time.Sleep(50 * time.Millisecond)
		require.NoError(t, s.Close())
		require.Equal(t, ErrClosed, <-done)
		_, err := s.Next(t.Context())
		require.Equal(t, ErrClosed, err)
	}
	s := follow(t, SubscriberOptions{Events: of(p).Replay})
	require.Eventually(t, func() bool {
		_, err := s.Next(ended(t))
		return strings.Contains(err.Error(), `"ROUTER"`)
	}, time.Minute, time.Millisecond)
	require.NoError(t, s.Close())

	s = follow(t, of(p))
	f := &follower{}
	for n := uint64(1); f.next < 500; n++ {
		require.NoError(t, p.Publish(block(n, n-1)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n%7)*50*time.Microsecond)
		m, err := s.Next(ctx)
		cancel()
		if err == nil {
			require.NoError(t, f.take(m))
		} else {
			require.True(t, errors.Is(err, context.DeadlineExceeded), err)
		}
	}
	require.Equal(t, [4]int{0, 1, 0, 0}, f.resets)
	require.NoError(t, s.Close())
	require.NoError(t, p.Close())
	requireEnded(t)
}
