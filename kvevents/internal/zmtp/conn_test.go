package zmtp

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Messages of all sizes arrive as they were sent, however many are written together.
func TestMessages(t *testing.T) {
	a, b := peers(t, Options{Type: Dealer}, Options{Type: Router})
	random := rand.New(rand.NewPCG(1, 1))
	var want [][][]byte
	for range 300 {
		var m [][]byte
		for range 1 + random.IntN(5) {
			n := random.IntN(300)
			switch random.IntN(8) {
			case 0:
				n = random.IntN(200_000)
			case 1:
				n = 0
			}
			m = append(m, bytes.Repeat([]byte{byte(random.Uint32())}, n))
		}
		want = append(want, m)
	}
	done := make(chan error, 1)
	go func() {
		var err error
		for i, m := range want {
			if err == nil && i%3 == 0 {
				err = a.WriteMessage(m...)
			} else if err == nil {
				err = a.Append(m...)
			}
		}
		done <- errors.Join(err, a.Flush())
	}()
	for _, m := range want {
		got := read(t, b)
		require.Len(t, got, len(m))
		for i := range m {
			require.True(t, bytes.Equal(m[i], got[i]))
		}
	}
	require.NoError(t, <-done)
}

// Subscriptions are commands for a peer of 3.1 and messages for one of 3.0; a PING is answered.
func TestCommands(t *testing.T) {
	sub, pub := peers(t, Options{Type: Sub}, Options{Type: Pub})
	require.NoError(t, sub.Subscribe("kv@"))
	require.Equal(t, frames("\x01kv@"), read(t, pub))
	require.NoError(t, sub.subscription("CANCEL", 0, strings.Repeat("k", 300)))
	require.Equal(t, frames("\x00"+strings.Repeat("k", 300)), read(t, pub))
	sub.minor = 0
	require.NoError(t, sub.Subscribe("kv@"))
	require.Equal(t, frames("\x01kv@"), read(t, pub))
	asked, err := sub.Ping()
	require.NoError(t, err)
	require.False(t, asked)
	sub.minor = 1
	asked, err = sub.Ping()
	require.NoError(t, err)
	require.True(t, asked)
	require.NoError(t, sub.Subscribe("after"))
	require.Equal(t, frames("\x01after"), read(t, pub))
	require.Nil(t, read(t, sub), "a PONG")
	require.NoError(t, pub.send(command([]byte("\x05ERROR\x04gone"))))
	_, err = sub.ReadMessage()
	require.Equal(t, ErrPeer{"gone"}, err)
}

// A PING within a message is answered, and the message arrives whole.
func TestPingWithinMessage(t *testing.T) {
	in := "\x01\x01a" + "\x04\x09\x04PING\x00\x00xy" + "\x00\x01b"
	s := &script{in: []byte(in)}
	m, err := newConn(s, Options{Type: Sub}).ReadMessage()
	require.NoError(t, err)
	require.Equal(t, frames("a", "b"), m)
	require.Equal(t, "\x04\x07\x04PONGxy", s.out.String())
}

// What is wrong with a peer is an error that says so.
func TestHandshakeRefuses(t *testing.T) {
	g := string(greeting[:])
	ready := func(kind string) string {
		return string(command(property([]byte("\x05READY"), "socket-type", []byte(kind))))
	}
	for what, in := range map[string]string{
		"speak ZMTP":            "GET / HTTP/1.1\r\n",
		"speaks ZMTP 2":         g[:10] + "\x02" + g[11:],
		`mechanism "PLAIN"`:     g[:12] + "PLAIN" + g[17:],
		`of type "ROUTER"`:      g + ready("ROUTER"),
		"type of its socket":    g + "\x04\x06\x05READY",
		"READY that is cut off": g + "\x04\x0a\x05READY\x01a\x00\x00",
		"message before READY":  g + "\x00\x01a",
		`"PING" before READY`:   g + "\x04\x07\x04PING\x00\x00",
		"more than 4096 bytes":  g + "\x06\x00\x00\x00\x00\x00\x01\x00\x00",
		`"no"`:                  g + "\x04\x09\x05ERROR\x02no",
	} {
		_, err := Handshake(&script{in: []byte(in)}, Options{Type: Sub})
		require.ErrorContains(t, err, what)
	}
	for _, kind := range []string{"PUB", "XPUB"} {
		s := &script{in: []byte(g[:11] + "\x00" + g[12:] + ready(kind))}
		c, err := Handshake(s, Options{Type: Sub})
		require.NoError(t, err)
		require.Zero(t, c.minor)
	}
	for n := range len(g) + 10 {
		_, err := Handshake(&script{in: []byte((g + ready("PUB"))[:n])}, Options{Type: Sub})
		require.Error(t, err)
	}
}

// A peer that says nothing costs the time of a handshake.
func TestHandshakeTimeout(t *testing.T) {
	l, err := Listen("tcp://127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, err = Dial(t.Context(), Endpoint(l), Options{Type: Sub, Handshake: 50 * time.Millisecond})
	require.ErrorContains(t, err, "does not finish the handshake within 50ms")
}

func TestLimits(t *testing.T) {
	for what, in := range map[string]string{
		"more than 3 frames":    strings.Repeat("\x01\x00", 5),
		"more than 1000 bytes":  "\x02\xff\xff\xff\xff\xff\xff\xff\xff",
		"of more than 1000":     "\x03\x00\x00\x00\x00\x00\x00\x03\xe8" + strings.Repeat("a", 1000) + "\x00\x01a",
		"flags 0x8":             "\x08\x00",
		"flags 0x5":             "\x05\x00",
		"command without":       "\x04\x00",
		"PING of 19 bytes":      "\x04\x18\x04PING" + strings.Repeat("a", 19),
		"subscribes to a SUB":   "\x04\x0a\x09SUBSCRIBE",
		io.EOF.Error():          "",
		"unexpected EOF":        "\x01\x00",
		"unexpected EOF ":       "\x00",
		"unexpected EOF\x00   ": "\x00\x03a",
	} {
		_, err := newConn(&script{in: []byte(in)}, Options{Type: Sub, Frames: 3, Bytes: 1000}).ReadMessage()
		require.ErrorContains(t, err, strings.TrimRight(what, "\x00 "))
	}
}

func TestEndpoints(t *testing.T) {
	for _, endpoint := range []string{"", "tcp://", "tcp://host", "tcp://*:1", "tcp://:1", "ipc://", "inproc://x", "udp://a:1"} {
		_, err := Dial(t.Context(), endpoint, Options{Type: Sub})
		require.ErrorAs(t, err, new(ErrEndpoint), endpoint)
	}
	path := "ipc://" + t.TempDir() + "/s"
	l, err := Listen(path)
	require.NoError(t, err)
	_, err = Listen(path)
	require.Error(t, err, "another one listens")
	require.Equal(t, path, Endpoint(l))
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
	l, err = Listen(path)
	require.NoError(t, err, "the file of a process that ended")
	require.NoError(t, l.Close())
	l, err = Listen("tcp://*:*")
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

// Listen replaces no file but the socket of a process that ended.
func TestListenKeepsFiles(t *testing.T) {
	path := t.TempDir() + "/precious"
	require.NoError(t, os.WriteFile(path, []byte("data"), 0o600))
	l, err := Listen("ipc://" + path)
	if err == nil {
		l.Close()
	}
	require.Error(t, err)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "data", string(data))
}

// A peer that does not read ends a write after a while; one that reads slowly does not.
func TestStall(t *testing.T) {
	a, b := peers(t, Options{Type: Dealer, Stall: 300 * time.Millisecond}, Options{Type: Router})
	big := make([]byte, 32<<20)
	require.ErrorIs(t, a.WriteMessage(big), os.ErrDeadlineExceeded)
	_ = b

	a, b = peers(t, Options{Type: Dealer, Stall: 2 * time.Second}, Options{Type: Router})
	done := make(chan error, 1)
	go func() { done <- a.WriteMessage(big) }()
	for got := 0; got < len(big); {
		time.Sleep(50 * time.Millisecond)
		n, err := io.CopyN(io.Discard, b.in, 1<<20)
		got += int(n)
		require.NoError(t, err)
	}
	require.NoError(t, <-done)

	a.SetWriteLimit(time.Now().Add(100 * time.Millisecond))
	require.ErrorIs(t, a.WriteMessage(big), os.ErrDeadlineExceeded)
}

// FuzzRead reads any bytes in any pieces, with deadlines between them: what comes is the same, and memory stays in proportion to what came.
func FuzzRead(f *testing.F) {
	f.Add([]byte("\x01\x01a\x00\x01b\x04\x07\x04PING\x00\x00"), uint64(1))
	f.Add([]byte("\x04\x0b\x09SUBSCRIBEa\x04\x05\x04PONG\x02\x00\x00\x00\x00\x00\x00\x01\x00"), uint64(2))
	f.Add([]byte("\x06\xff\xff\xff\xff\xff\xff\x01\x00\x04\x00"), uint64(3))
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		o := Options{Type: Pub, Frames: 4, Bytes: 1 << 20, Buffer: 64}
		all := func(s *script) (messages [][][]byte, err error) {
			c := newConn(s, o)
			for {
				m, err := c.ReadMessage()
				require.LessOrEqual(t, cap(c.buf), 4*s.read+2*firstRoom)
				if errors.Is(err, os.ErrDeadlineExceeded) {
					continue
				}
				if err != nil {
					return messages, err
				}
				kept := [][]byte{}
				for _, frame := range m {
					kept = append(kept, bytes.Clone(frame))
				}
				messages = append(messages, kept)
			}
		}
		random := rand.New(rand.NewPCG(seed, 0))
		whole, pieces := &script{in: in}, &script{in: in, piece: func() int { return random.IntN(5) }}
		want, wantErr := all(whole)
		got, err := all(pieces)
		require.Equal(t, want, got)
		require.Equal(t, wantErr, err)
		require.Equal(t, whole.out.String(), pieces.out.String())
	})
}
