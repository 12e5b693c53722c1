// A publisher that lies, live and in replays.

package pubsub

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvevents/internal/zmtp"
)

// Whatever a publisher sends, what Next returns between resets has no gaps, and a Next returns when its context ends.
func TestLyingPublisher(t *testing.T) {
	payloads := [][]byte{{0x93, 0, 0x90, 0}, {0x93, 1, 0x90, 0}, {0x93, 2, 0x90, 0}}
	resets := [4]int{}
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 9))
		f := newFake(t, 0, seed%2 == 0, anyPort, anyPort)
		f.lies(func(c *zmtp.Conn, start uint64) bool {
			random := rand.New(rand.NewPCG(start, seed))
			at := start
			if random.IntN(4) == 0 {
				at = random.Uint64N(start + 5)
			}
			for range random.IntN(20) {
				if f.answer(c, "kv@x", at, payloads[random.IntN(3)]) != nil {
					return true
				}
				if at++; random.IntN(8) == 0 {
					at += random.Uint64N(3)
				}
			}
			switch random.IntN(6) {
			case 0:
				c.Close()
			case 1:
				c.WriteMessage([]byte("what"))
			default:
				f.answer(c, "", endOfReplay, nil)
			}
			return true
		})
		o := f.options()
		o.times = soon
		o.times.stall, o.times.mostIdle = 50*time.Millisecond, 30*time.Millisecond
		s := follow(t, o)
		stop := make(chan struct{})
		f.running.Go(func() {
			for at := uint64(0); ; at++ {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Microsecond):
				}
				switch random.IntN(20) {
				case 0:
					at = 0
				case 1:
					at += random.Uint64N(4)
				case 2:
					at -= min(at, random.Uint64N(4))
				case 3:
					if random.IntN(20) == 0 {
						f.cut()
					}
				}
				message := [][]byte{[]byte("kv@x"), binary.BigEndian.AppendUint64(nil, at), payloads[random.IntN(3)]}
				if random.IntN(50) == 0 {
					message = message[:random.IntN(3)+1]
				}
				f.mu.Lock()
				for _, c := range f.subs {
					c.WriteMessage(message...)
				}
				f.mu.Unlock()
			}
		})
		// Not take of a follower: liars may begin anywhere, and join again.
		var at uint64
		first := true
		for end := time.Now().Add(150 * time.Millisecond); time.Now().Before(end); {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			m, err := s.Next(ctx)
			cancel()
			if err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				continue
			}
			require.True(t, m.Reset != 0 || m.Sequence == at && !first, "%d after %d", m.Sequence, at)
			require.True(t, m.Reset == 0 || m.Reset == Lost || m.Sequence == 0)
			at, first = m.Sequence+1, false
			resets[m.Reset]++
		}
		close(stop)
		require.NoError(t, s.Close())
		f.close()
	}
	t.Logf("messages in order, joined, restarted and lost: %v", resets)
	require.NotZero(t, resets[0])
	requireEnded(t)
}
