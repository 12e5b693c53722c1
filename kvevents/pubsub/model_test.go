// Random histories of a publisher that restarts, and subscribers over networks that fail.

package pubsub

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvevents"
)

// world is a publisher, one process after another, and what it has said.
type world struct {
	t       *testing.T
	o       PublisherOptions
	p       *Publisher
	process int
	state   state
	said    map[string]string // of payloads: the process and the epoch
	epoch   uint64            // up to which they are recorded
	n       int
}

func (w *world) start() {
	w.process++
	w.p, w.state, w.epoch, w.n = listen(w.t, w.o), state{}, 0, 0
	w.record()
}

func (w *world) publish(events ...kvevents.Event) {
	require.NoError(w.t, w.p.Publish(events...))
	for _, e := range events {
		w.state.apply(e)
	}
	w.record()
}

func (w *world) record() {
	l := &w.p.log
	if w.epoch != l.epoch { // nobody else writes it
		w.epoch, w.n = l.epoch, 0
	}
	for ; w.n < len(l.payloads); w.n++ {
		w.said[string(l.payloads[w.n])] = fmt.Sprint(w.process, ".", l.epoch)
	}
}

// reader follows by its own goroutine, and keeps what it received.
type reader struct {
	follower
	s            *Subscriber
	live, replay *proxy
	mu           sync.Mutex
	err          error
	received     []Message
	slow         time.Duration
	done         chan struct{}
}

func (w *world) reader(withReplay bool) *reader {
	r := &reader{live: newProxy(w.t, ""), replay: newProxy(w.t, ""), done: make(chan struct{})}
	w.aim(r)
	o := SubscriberOptions{Events: r.live.endpoint()}
	if withReplay {
		o.Replay = r.replay.endpoint()
	}
	r.s = follow(w.t, o)
	go func() {
		defer close(r.done)
		for {
			m, err := r.s.Next(w.t.Context())
			if err != nil {
				return
			}
			r.mu.Lock()
			if r.err == nil {
				r.err = r.take(m)
			}
			m.Payload = []byte(string(m.Payload))
			r.received = append(r.received, m)
			slow := r.slow
			r.mu.Unlock()
			time.Sleep(slow)
		}
	}()
	return r
}

func (w *world) aim(r *reader) {
	events, replay := w.p.Endpoints()
	r.live.aim(strings.TrimPrefix(events, "tcp://"))
	r.replay.aim(strings.TrimPrefix(replay, "tcp://"))
}

// inOneEpoch checks that what follows without a reset is of the same epoch.
func (r *reader) inOneEpoch(t *testing.T, w *world) {
	epoch := ""
	for _, m := range r.received {
		of, ok := w.said[string(m.Payload)]
		require.True(t, ok, "a batch that was not published")
		if m.Reset != 0 {
			epoch = of
		}
		require.Equal(t, epoch, of, "sequence %d", m.Sequence)
	}
}

func TestModel(t *testing.T) {
	histories := 60
	if testing.Short() {
		histories = 10
	}
	resets := [4]int{}
	epochs := uint64(0)
	for seed := range uint64(histories) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r, e := history(t, seed)
			epochs += e
			for i := range resets {
				resets[i] += r[i]
			}
		})
	}
	t.Logf("%d epochs; subscribers joined %d times, saw %d restarts and %d losses", epochs, resets[Joined], resets[Restarted], resets[Lost])
	requireEnded(t)
}

func history(t *testing.T, seed uint64) (resets [4]int, epochs uint64) {
	random := rand.New(rand.NewPCG(seed, 7))
	w := &world{t: t, said: map[string]string{}, o: PublisherOptions{LogBatches: 3 + random.IntN(60), Topic: "kv@a@m"}}
	if random.IntN(4) == 0 {
		w.o.LogBytes = 1000
	}
	w.o.Form = kvevents.Form(random.IntN(2)) * kvevents.VLLMArrays // whose replays have no topic
	w.start()
	var readers []*reader
	blocks := 1 + random.Uint64N(100)
	for range 100 + random.IntN(300) {
		switch n := random.IntN(100); {
		case n < 3 && len(readers) < 4:
			readers = append(readers, w.reader(true))
		case n < 20 && len(readers) > 0:
			r := readers[random.IntN(len(readers))]
			x := []*proxy{r.live, r.replay}[random.IntN(2)]
			switch random.IntN(5) {
			case 0, 1:
				x.cut()
			case 2:
				x.set(random.IntN(2) == 0, random.IntN(2) == 0)
			case 3:
				x.set(false, false)
			case 4:
				r.mu.Lock()
				r.slow = time.Duration(random.IntN(3)) * time.Millisecond
				r.mu.Unlock()
			}
		case n < 22:
			epochs += w.epoch
			require.NoError(t, w.p.Close())
			w.start()
			for _, r := range readers {
				w.aim(r)
				if random.IntN(2) == 0 { // else the old connections end by themselves
					r.live.cut()
				}
			}
		case n < 40:
			time.Sleep(time.Duration(random.IntN(4000)) * time.Microsecond)
		default:
			var events []kvevents.Event
			for range 1 + random.IntN(3) {
				events = append(events, randomEvent(random, blocks))
			}
			w.publish(events...)
		}
	}
	if len(readers) == 0 {
		readers = append(readers, w.reader(true))
	}
	for _, r := range readers {
		r.live.set(false, false)
		r.replay.set(false, false)
		r.mu.Lock()
		r.slow = 0
		r.mu.Unlock()
	}
	for i, r := range readers {
		settled := func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.err != nil || r.joined && !r.partial && maps.Equal(r.state, w.state)
		}
		for end := time.Now().Add(time.Minute); !settled(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				r.mu.Lock()
				defer r.mu.Unlock()
				require.Equal(t, w.state, r.state, "subscriber %d: sequence %d, partial: %v; %+v", i, r.next, r.partial, w.p.Stats())
				require.False(t, r.partial)
			}
		}
		require.NoError(t, r.s.Close())
		<-r.done
		require.NoError(t, r.err)
		r.inOneEpoch(t, w)
		for i := range resets {
			resets[i] += r.resets[i]
		}
	}
	require.NoError(t, w.p.Close())
	return resets, epochs + w.epoch
}
