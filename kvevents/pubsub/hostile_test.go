// Peers of a publisher that stall, lie and vanish.

package pubsub

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvevents"
	"github.com/ferrumkv/ferrumkv/kvevents/internal/zmtp"
)

// stalled is a peer that subscribes to all, or asks for all, and reads nothing more.
func stalled(t testing.TB, endpoint, kind string) net.Conn {
	raw, err := net.Dial("tcp", strings.TrimPrefix(endpoint, "tcp://"))
	require.NoError(t, err)
	t.Cleanup(func() { raw.Close() })
	require.NoError(t, raw.(*net.TCPConn).SetReadBuffer(4096))
	c, err := zmtp.Handshake(raw, zmtp.Options{Type: kind})
	require.NoError(t, err)
	if kind == zmtp.Sub {
		require.NoError(t, c.Subscribe(""))
		_, err = c.Ping()
		require.NoError(t, err)
		_, err = c.ReadMessage()
	} else {
		err = c.WriteMessage(nil, make([]byte, 8))
	}
	require.NoError(t, err)
	return raw
}

// large is an event of 8 KiB or so, in place of the one before.
func large(n int) []kvevents.Event {
	e := block(1, 0)
	e.CacheSalt, e.Kind = "", strings.Repeat(string(rune('a'+n%26)), 8<<10)
	return []kvevents.Event{e}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// heldMost is what a peer that stalls may hold of memory: what it took from the log, and buffers.
const heldMost = 2*chunkBytes + 32<<10

// 32 peers that stall on each socket hold no more than their bound, through epochs; a subscriber without a replay loses nothing.
func TestStalled(t *testing.T) {
	const peers, batches = 32, 2000
	p := listen(t, PublisherOptions{LogBytes: 2 << 20})
	events, replay := p.Endpoints()
	o := of(p)
	o.Replay = ""
	s := follow(t, o)
	connect(t, s, always)
	f := follower{}
	received := make(chan error, 1)
	go func() {
		for {
			m, err := s.Next(t.Context())
			if err == nil {
				err = f.take(m)
			}
			if err != nil || f.resets[Lost] > 1 { // the first message
				received <- err
				return
			}
			if strings.Contains(f.state["1 GPU 0 false"], "zzzzzzzz") {
				received <- nil
				return
			}
		}
	}()
	publish := func(i int) { require.NoError(t, p.Publish(large(i%25)...)) }
	for i := range batches {
		publish(i)
	}
	before := heap() - p.Stats().LogBytes
	for range peers {
		stalled(t, events, zmtp.Sub)
		stalled(t, replay, zmtp.Dealer)
	}
	require.Equal(t, peers, p.Stats().Replays)
	for i := range batches {
		publish(i)
	}
	held := (heap() - p.Stats().LogBytes - before) / (2 * peers)
	t.Logf("a peer that stalls holds %d bytes; the bound is %d", held, heldMost)
	require.Less(t, held, int64(heldMost))
	require.Greater(t, p.Stats().Epoch, uint64(5))
	require.Equal(t, peers+1, p.Stats().Subscribers)
	require.NoError(t, p.Publish(large(25)...))
	require.NoError(t, <-received)
	require.LessOrEqual(t, f.resets[Lost], 1)
	require.NoError(t, s.Close())
	require.NoError(t, p.Close())
	requireEnded(t)
}

// Peers that take nothing are cut off after a while, and their places are free again.
func TestCutOff(t *testing.T) {
	const peers = 4
	p := listen(t, PublisherOptions{LogBytes: 64 << 20, Subscribers: peers, Replays: peers, stall: 100 * time.Millisecond, replay: time.Second})
	events, replay := p.Endpoints()
	for i := range 3000 {
		require.NoError(t, p.Publish(large(i)...))
	}
	for range peers {
		stalled(t, events, zmtp.Sub)
		stalled(t, replay, zmtp.Dealer)
	}
	more, err := net.Dial("tcp", strings.TrimPrefix(events, "tcp://"))
	require.NoError(t, err)
	defer more.Close()
	require.Eventually(t, func() bool { return p.Stats().Refused > 0 }, time.Minute, time.Millisecond)
	for i := range 3000 {
		require.NoError(t, p.Publish(large(i)...))
	}
	require.Eventually(t, func() bool {
		s := p.Stats()
		return s.CutOff == 2*peers && s.Subscribers == 0 && s.Replays == 0
	}, time.Minute, 5*time.Millisecond)
	s := follow(t, of(p))
	m, err := s.Next(long(t))
	require.NoError(t, err)
	require.Equal(t, Joined, m.Reset)
}

// A replay that is slow ends where its epoch ends, and begins no other one.
func TestReplayOfAnOldEpoch(t *testing.T) {
	p := listen(t, PublisherOptions{})
	_, replay := p.Endpoints()
	for i := range 6000 {
		require.NoError(t, p.Publish(large(i)...))
	}
	raw, err := net.Dial("tcp", strings.TrimPrefix(replay, "tcp://"))
	require.NoError(t, err)
	defer raw.Close()
	c, err := zmtp.Handshake(raw, zmtp.Options{Type: zmtp.Dealer})
	require.NoError(t, err)
	require.NoError(t, c.WriteMessage(nil, make([]byte, 8)))
	m, err := c.ReadMessage()
	require.NoError(t, err)
	p.publishing.Lock()
	p.begin()
	p.publishing.Unlock()
	n := uint64(0)
	for ; binary.BigEndian.Uint64(m[2]) != endOfReplay; n++ {
		require.Equal(t, n, binary.BigEndian.Uint64(m[2]))
		m, err = c.ReadMessage()
		require.NoError(t, err)
	}
	require.Less(t, n, uint64(6000))
	require.Equal(t, [][]byte{{}, {}, {255, 255, 255, 255, 255, 255, 255, 255}, {}}, m)
}

// The time limit of a replay ends with it: a connection that stays open answers heartbeats afterwards.
func TestHeartbeatAfterReplay(t *testing.T) {
	p := listen(t, PublisherOptions{replay: 200 * time.Millisecond})
	_, replay := p.Endpoints()
	c, err := zmtp.Dial(t.Context(), replay, zmtp.Options{Type: zmtp.Dealer})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.WriteMessage(nil, make([]byte, 8)))
	for range 2 { // AllBlocksCleared, and the end
		_, err = c.ReadMessage()
		require.NoError(t, err)
	}
	time.Sleep(300 * time.Millisecond)
	_, err = c.Ping()
	require.NoError(t, err)
	m, err := c.ReadMessage()
	require.NoError(t, err)
	require.Nil(t, m, "a PONG")
}

// Peers that say anything, or vanish at any time, disturb nobody.
func TestLyingPeers(t *testing.T) {
	p := listen(t, PublisherOptions{LogBatches: 50, handshake: time.Second})
	events, replay := p.Endpoints()
	good := follow(t, of(p))
	f := follower{}
	stop := make(chan struct{})
	var running sync.WaitGroup
	for i := range 32 {
		running.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 3))
			for {
				select {
				case <-stop:
					return
				default:
				}
				lie(random, []string{events, replay}[i%2], []string{zmtp.Sub, zmtp.Dealer}[i%2])
			}
		})
	}
	for n := uint64(1); n < 2000; n++ {
		require.NoError(t, p.Publish(block(n%100, 0)))
		if n%4 == 0 {
			m, err := good.Next(long(t))
			require.NoError(t, err)
			require.NoError(t, f.take(m))
		}
	}
	close(stop)
	running.Wait()
	require.Eventually(t, func() bool {
		m, err := good.Next(long(t))
		require.NoError(t, err)
		require.NoError(t, f.take(m))
		s := p.Stats()
		return f.next == s.Sequence && len(f.state) == s.Blocks
	}, time.Minute, time.Microsecond)
	require.Zero(t, f.resets[Lost])
	require.NoError(t, good.Close())
	require.NoError(t, p.Close())
	requireEnded(t)
}

func lie(random *rand.Rand, endpoint, kind string) {
	raw, err := net.Dial("tcp", strings.TrimPrefix(endpoint, "tcp://"))
	if err != nil {
		return
	}
	defer raw.Close()
	noise := make([]byte, random.IntN(300))
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	if random.IntN(4) == 0 {
		raw.Write(noise)
		return
	}
	c, err := zmtp.Handshake(raw, zmtp.Options{Type: kind})
	if err != nil {
		return
	}
	for range random.IntN(20) {
		switch random.IntN(6) {
		case 0:
			raw.Write(noise)
			return
		case 1:
			raw.Write([]byte{2, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}) // a frame of that many bytes
			raw.Write(noise)
			return
		case 2:
			err = c.WriteMessage(noise)
		case 3:
			err = c.WriteMessage(nil, []byte{0, 0, 0, 0, 0, 0, byte(random.IntN(2)), byte(random.Uint32())})
		case 4:
			_, err = c.Ping()
		case 5:
			err = c.Subscribe(string(noise[:random.IntN(len(noise)+1)]))
		}
		if err != nil {
			return
		}
	}
}
