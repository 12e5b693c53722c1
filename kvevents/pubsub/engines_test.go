// Publishers that are those of engines: a ring of batches, and no epochs.

package pubsub

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvevents/internal/zmtp"
)

// engines runs a test with the replays of vLLM and those of SGLang.
func engines(t *testing.T, most int, test func(t *testing.T, f *fake)) {
	for name, topics := range map[string]bool{"vllm": true, "sglang": false} {
		t.Run(name, func(t *testing.T) { test(t, newFake(t, most, topics, anyPort, anyPort)) })
	}
	requireEnded(t)
}

// quiet is times in which nothing is asked for want of messages.
func quiet(o SubscriberOptions) SubscriberOptions {
	o.times = soon
	o.times.idle, o.times.mostIdle = time.Hour, time.Hour
	return o
}

func TestEngineGap(t *testing.T) {
	engines(t, 1000, func(t *testing.T, f *fake) {
		f.late = 50 * time.Millisecond // what is said before the subscription arrives is in the replay
		f.say(1, true)
		f.say(2, true)
		s := follow(t, quiet(f.options()))
		require.Equal(t, "joined 0 +1", next(t, s))
		require.Equal(t, "1 +2", next(t, s))
		f.say(3, true)
		require.Equal(t, "2 +3", next(t, s))
		f.say(4, false) // what a full queue drops
		f.say(5, false)
		f.say(6, true)
		require.Equal(t, "3 +4", next(t, s))
		require.Equal(t, "4 +5", next(t, s))
		require.Equal(t, "5 +6", next(t, s))
		f.cut()
		f.say(7, true)
		require.Equal(t, "6 +7", next(t, s))
		f.say(8, true)
		require.Equal(t, "7 +8", next(t, s))
	})
}

// A replay may be far ahead of what is live.
func TestEngineAhead(t *testing.T) {
	engines(t, 5000, func(t *testing.T, f *fake) {
		s := follow(t, quiet(f.options()))
		f.connect(s)
		for n := range uint64(2 * seenBatches) {
			f.say(n+1, n == 0)
		}
		require.Equal(t, "joined 0 +1", next(t, s))
		for n := 1; n < 2*seenBatches; n++ {
			require.Equal(t, fmt.Sprintf("%d +%d", n, n+1), next(t, s))
		}
		f.say(7, true)
		require.Equal(t, fmt.Sprintf("%d +7", 2*seenBatches), next(t, s))
	})
}

// An engine's ROUTER socket drops what exceeds its queue: the rest of an answer with its end, or a part in the middle. Nothing is lost.
func TestEngineReplayQueue(t *testing.T) {
	const batches = 100
	for _, name := range []string{"rest", "middle"} {
		engines(t, batches+1, func(t *testing.T, f *fake) {
			o := quiet(f.options())
			o.times.pause = 20 * time.Millisecond
			s := follow(t, o)
			f.connect(s)
			for n := range uint64(batches) {
				f.say(n+1, false)
			}
			f.say(batches+1, true)
			kept := f.kept
			f.lies(func(c *zmtp.Conn, start uint64) bool {
				for n := start; n <= batches; n++ {
					if n < start+10 || name == "middle" && (n > start+20 || start > batches/2) {
						f.answer(c, "", n, kept[n])
					}
				}
				if name == "middle" || start+10 > batches {
					f.answer(c, "", endOfReplay, nil)
				}
				return true
			})
			require.Equal(t, "joined 0 +1", next(t, s))
			for n := 1; n <= batches; n++ {
				require.Equal(t, fmt.Sprintf("%d +%d", n, n+1), next(t, s))
			}
		})
	}
}

// What was dropped last is asked for when nothing comes.
func TestEngineIdle(t *testing.T) {
	engines(t, 1000, func(t *testing.T, f *fake) {
		s := follow(t, f.options())
		f.say(1, true)
		require.Equal(t, "joined 0 +1", next(t, s))
		f.say(2, false)
		require.Equal(t, "1 +2", next(t, s))
		f.say(3, true)
		require.Equal(t, "2 +3", next(t, s))
	})
}

// An engine has the last batches only: what is older is lost, at the start and after a gap.
func TestEngineRing(t *testing.T) {
	engines(t, 3, func(t *testing.T, f *fake) {
		for n := range uint64(5) {
			f.say(n+1, true)
		}
		s := follow(t, quiet(f.options()))
		require.Equal(t, "lost 2 +3", next(t, s))
		require.Equal(t, "3 +4", next(t, s))
		require.Equal(t, "4 +5", next(t, s))
		f.say(6, true)
		require.Equal(t, "5 +6", next(t, s))
		for n := range uint64(5) {
			f.say(n+7, n == 4)
		}
		require.Equal(t, "lost 8 +9", next(t, s))
		require.Equal(t, "9 +10", next(t, s))
		require.Equal(t, "10 +11", next(t, s))
		f.say(12, true)
		require.Equal(t, "11 +12", next(t, s))
	})
}

func TestEngineRestarts(t *testing.T) {
	for _, topics := range []bool{true, false} {
		for _, batches := range []uint64{1, 2, 3, 5} { // fewer than were known, as many, more
			f := newFake(t, 1000, topics, anyPort, anyPort)
			s := follow(t, quiet(f.options()))
			f.say(1, true)
			f.say(2, true)
			require.Equal(t, "joined 0 +1", next(t, s))
			require.Equal(t, "1 +2", next(t, s))
			o := f.options()
			f.close()
			f = newFake(t, 1000, topics, o.Events, o.Replay)
			for n := range batches {
				f.say(n+11, true)
			}
			require.Equal(t, "restarted 0 +11", next(t, s))
			for n := uint64(1); n < batches; n++ {
				require.Equal(t, fmt.Sprintf("%d +%d", n, n+11), next(t, s))
			}
			f.say(99, true)
			require.Equal(t, fmt.Sprintf("%d +99", batches), next(t, s))
			f.close()
			require.NoError(t, s.Close())
		}
	}
}

// Without a replay each gap, and each connection, is a loss; one that begins at 0 is complete.
func TestEngineWithoutReplay(t *testing.T) {
	engines(t, 1000, func(t *testing.T, f *fake) {
		o := quiet(f.options())
		o.Replay = ""
		s := follow(t, o)
		f.connect(s)
		f.say(1, true)
		require.Equal(t, "joined 0 +1", next(t, s))
		f.say(2, true)
		require.Equal(t, "1 +2", next(t, s))
		f.say(3, false)
		f.say(4, true)
		require.Equal(t, "lost 3 +4", next(t, s))
		f.cut()
		f.connect(s)
		f.say(5, true)
		require.Equal(t, "lost 4 +5", next(t, s))
		f.mu.Lock()
		f.next = 0
		f.mu.Unlock()
		f.cut()
		f.connect(s)
		f.say(6, true)
		require.Equal(t, "restarted 0 +6", next(t, s))
		require.Empty(t, f.asked)
	})
}

// A replay that lies or hangs is left alone, and what is live goes on; when it answers again, what is missing is fetched.
func TestReplayLies(t *testing.T) {
	lies := map[string]func(f *fake) func(c *zmtp.Conn, start uint64) bool{
		"closes": func(*fake) func(c *zmtp.Conn, start uint64) bool {
			return func(c *zmtp.Conn, _ uint64) bool { c.Close(); return true }
		},
		"hangs": func(*fake) func(c *zmtp.Conn, start uint64) bool {
			return func(*zmtp.Conn, uint64) bool { return true }
		},
		"other frames": func(*fake) func(c *zmtp.Conn, start uint64) bool {
			return func(c *zmtp.Conn, _ uint64) bool { return c.WriteMessage([]byte("a"), []byte("b")) == nil }
		},
		"short number": func(*fake) func(c *zmtp.Conn, start uint64) bool {
			return func(c *zmtp.Conn, _ uint64) bool { return c.WriteMessage(nil, []byte("b"), nil) == nil }
		},
		"huge": func(*fake) func(c *zmtp.Conn, start uint64) bool {
			return func(c *zmtp.Conn, _ uint64) bool { return c.WriteMessage(nil, make([]byte, 2<<20), nil) != nil || true }
		},
		"before the start, for ever": func(f *fake) func(c *zmtp.Conn, start uint64) bool {
			return func(c *zmtp.Conn, start uint64) bool {
				for n := uint64(0); ; n++ {
					if f.answer(c, "", 0, nil) != nil {
						return true
					}
				}
			}
		},
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, 1000, true, anyPort, anyPort)
			o := f.options()
			o.times, o.MessageBytes = soon, 1<<20
			if name == "hangs" {
				o.times.stall = 300 * time.Millisecond
			}
			s := follow(t, o)
			f.say(1, true)
			require.Equal(t, "joined 0 +1", next(t, s))
			f.say(2, true)
			require.Equal(t, "1 +2", next(t, s))
			f.lies(lie(f))
			f.say(3, false)
			f.say(4, true)
			require.Equal(t, "lost 3 +4", next(t, s))
			f.say(5, true)
			require.Equal(t, "4 +5", next(t, s))
			f.lies(nil)
			require.Equal(t, "restarted 0 +1", next(t, s))
			for n := 1; n < 5; n++ {
				require.Equal(t, fmt.Sprintf("%d +%d", n, n+1), next(t, s))
			}
			f.say(6, true)
			require.Equal(t, "5 +6", next(t, s))
		})
	}
	requireEnded(t)
}

// A replay that never ends is left after a number of batches.
func TestReplayEndless(t *testing.T) {
	f := newFake(t, 1000, false, anyPort, anyPort)
	o := quiet(f.options())
	o.times.replayMessages = 100
	s := follow(t, o)
	f.say(1, true)
	require.Equal(t, "joined 0 +1", next(t, s))
	f.say(2, true)
	require.Equal(t, "1 +2", next(t, s))
	payload := f.kept[0]
	f.lies(func(c *zmtp.Conn, start uint64) bool {
		for n := start; f.answer(c, "", n, payload) == nil; n++ {
		}
		return true
	})
	f.say(3, false)
	f.say(4, true)
	received := 0
	for {
		m, err := s.Next(long(t))
		require.NoError(t, err)
		if m.Topic != "" && m.Sequence == 3 {
			break
		}
		received++
		require.Less(t, received, 1000)
	}
}

// A replay that knows nothing, as of a socket in front of another engine, does not stop what is live.
func TestReplayEmpty(t *testing.T) {
	f := newFake(t, 0, true, anyPort, anyPort)
	s := follow(t, f.options())
	f.connect(s)
	for n := uint64(1); n < 50; n++ {
		f.say(n, n != 20)
		if n == 20 {
			continue
		}
		m, err := s.Next(long(t))
		require.NoError(t, err)
		require.Equal(t, n-1, m.Sequence)
		require.Equal(t, n == 21, m.Reset == Lost)
		if n%10 == 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
}
