// A publisher that behaves as those of engines do, and lies where tests have it lie.

package pubsub

import (
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvevents"
	"github.com/ferrumkv/ferrumkv/kvevents/internal/zmtp"
)

// fake is an engine's publisher: it has the last batches, and no epochs.
type fake struct {
	t              testing.TB
	events, replay net.Listener
	topics         bool          // in replays, as vLLM from 0.26 on
	most           int           // batches for replays
	late           time.Duration // before a subscription is read

	mu      sync.Mutex
	next    uint64
	kept    [][]byte
	subs    []*zmtp.Conn
	conns   []net.Conn
	asked   []uint64
	lie     func(c *zmtp.Conn, start uint64) bool // true: instead of an answer
	running sync.WaitGroup
}

func newFake(t testing.TB, most int, topics bool, events, replay string) *fake {
	f := &fake{t: t, most: most, topics: topics}
	var err error
	f.events, err = zmtp.Listen(events)
	require.NoError(t, err)
	f.replay, err = zmtp.Listen(replay)
	require.NoError(t, err)
	f.running.Go(func() { f.accept(f.events, zmtp.Pub, f.subscriber) })
	f.running.Go(func() { f.accept(f.replay, zmtp.Router, f.replays) })
	t.Cleanup(f.close)
	return f
}

const anyPort = "tcp://127.0.0.1:0"

func (f *fake) options() SubscriberOptions {
	return SubscriberOptions{Events: zmtp.Endpoint(f.events), Replay: zmtp.Endpoint(f.replay)}
}

func (f *fake) close() {
	f.events.Close()
	f.replay.Close()
	f.cut()
	f.running.Wait()
}

// cut ends all connections.
func (f *fake) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.Close()
	}
	f.conns, f.subs = nil, nil
}

func (f *fake) accept(l net.Listener, kind string, serve func(*zmtp.Conn)) {
	for {
		raw, err := l.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		f.conns = append(f.conns, raw)
		f.mu.Unlock()
		f.running.Go(func() {
			defer raw.Close()
			if c, err := zmtp.Handshake(raw, zmtp.Options{Type: kind}); err == nil {
				serve(c)
			}
		})
	}
}

func (f *fake) subscriber(c *zmtp.Conn) {
	time.Sleep(f.late)
	for {
		m, err := c.ReadMessage()
		if err != nil {
			return
		}
		if len(m) == 1 && m[0][0] == 1 {
			f.mu.Lock()
			f.subs = append(f.subs, c)
			f.mu.Unlock()
		}
	}
}

func (f *fake) replays(c *zmtp.Conn) {
	for {
		m, err := c.ReadMessage()
		if err != nil || len(m) != 2 {
			return
		}
		start := binary.BigEndian.Uint64(m[1])
		f.mu.Lock()
		f.asked = append(f.asked, start)
		lie, kept, next := f.lie, f.kept, f.next
		f.mu.Unlock()
		if lie != nil && lie(c, start) {
			continue
		}
		for i, payload := range kept {
			if n := next - uint64(len(kept)) + uint64(i); n >= start {
				f.answer(c, "kv@a@m", n, payload)
			}
		}
		f.answer(c, "", endOfReplay, nil)
	}
}

func (f *fake) answer(c *zmtp.Conn, topic string, sequence uint64, payload []byte) error {
	frames := [][]byte{nil, []byte(topic), binary.BigEndian.AppendUint64(nil, sequence), payload}
	if !f.topics {
		frames = append(frames[:1], frames[2:]...)
	}
	return c.WriteMessage(frames...)
}

// say publishes a batch that stores a block; live: subscribers receive it.
func (f *fake) say(number uint64, live bool) {
	payload := kvevents.VLLM.AppendBatch(nil, kvevents.Batch{Time: float64(number)}, block(number, 0))
	f.mu.Lock()
	defer f.mu.Unlock()
	sequence := binary.BigEndian.AppendUint64(nil, f.next)
	f.next++
	if f.kept = append(f.kept, payload); len(f.kept) > f.most {
		f.kept = f.kept[1:]
	}
	for _, c := range f.subs {
		if live {
			c.WriteMessage([]byte("kv@a@m"), sequence, payload)
		}
	}
}

// connect waits for a subscriber, which is the only one.
func (f *fake) connect(s *Subscriber) {
	f.t.Helper()
	connect(f.t, s, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.subs) == 1
	})
}

func (f *fake) lies(lie func(c *zmtp.Conn, start uint64) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lie = lie
}
