package zmtp

import (
	"bytes"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// script is a connection that has bytes to read, in pieces between which deadlines pass, and keeps what is written.
type script struct {
	net.Conn
	in    []byte
	piece func() int // 0: a deadline passes
	out   bytes.Buffer
	read  int
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.in) == 0 {
		return 0, io.EOF
	}
	n := len(s.in)
	if s.piece != nil {
		if n = s.piece(); n == 0 {
			return 0, os.ErrDeadlineExceeded
		}
	}
	n = copy(p, s.in[:min(n, len(s.in))])
	s.in, s.read = s.in[n:], s.read+n
	return n, nil
}

func (s *script) Write(p []byte) (int, error)      { return s.out.Write(p) }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }
func (s *script) Close() error                     { return nil }

// peers are two Conns that are connected over TCP.
func peers(t testing.TB, a, b Options) (*Conn, *Conn) {
	l, err := Listen("tcp://127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	accepted := make(chan *Conn, 1)
	go func() {
		raw, err := l.Accept()
		if err != nil {
			accepted <- nil
			return
		}
		c, err := Handshake(raw, b)
		if err != nil {
			raw.Close()
		}
		accepted <- c
	}()
	c, err := Dial(t.Context(), Endpoint(l), a)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	d := <-accepted
	require.NotNil(t, d)
	t.Cleanup(func() { d.Close() })
	return c, d
}

func read(t testing.TB, c *Conn) [][]byte {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(30*time.Second)))
	m, err := c.ReadMessage()
	require.NoError(t, err)
	return m
}

func frames(parts ...string) [][]byte {
	out := [][]byte{}
	for _, p := range parts {
		out = append(out, []byte(p))
	}
	return out
}
