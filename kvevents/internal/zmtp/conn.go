// Package zmtp implements the part of ZMTP 3.1, the protocol of ZeroMQ, that PUB, SUB, ROUTER and DEALER sockets need with the NULL mechanism: see
// https://rfc.zeromq.org/spec/37. A Conn is one connection; there are no sockets that hide several.
package zmtp

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// Types of sockets that a Conn can be of.
const (
	Pub    = "PUB"
	Sub    = "SUB"
	Router = "ROUTER"
	Dealer = "DEALER"
)

// Options of a Conn. Zero values have defaults, but for Type.
type Options struct {
	Type      string        // Pub, Sub, Router or Dealer
	Identity  []byte        // at most 255 bytes
	Frames    int           // most frames of a message; 0: 16
	Bytes     int           // most bytes of a message or command; 0: 64 MiB
	Buffer    int           // bytes of the read buffer; 0: 4096
	Handshake time.Duration // most time for connecting and the handshake; 0: 5 s
	Stall     time.Duration // a write that makes no progress for this long, or twice at most, fails; 0: 30 s
}

func (o Options) filled() Options {
	if o.Frames == 0 {
		o.Frames = 16
	}
	if o.Bytes == 0 {
		o.Bytes = 64 << 20
	}
	if o.Buffer == 0 {
		o.Buffer = 4096
	}
	if o.Handshake == 0 {
		o.Handshake = 5 * time.Second
	}
	if o.Stall == 0 {
		o.Stall = 30 * time.Second
	}
	return o
}

// Conn is a connection after its handshake. One goroutine may read while another one writes; Close may be called by any.
type Conn struct {
	raw   net.Conn
	o     Options
	minor byte // of the version that the peer speaks

	// Of the reader. A read that a deadline ended goes on where it was.
	in     *bufio.Reader
	inBody bool
	flags  byte
	left   int    // bytes of the body that have not come
	start  int    // of the body in buf
	buf    []byte // bodies of a message's frames
	ends   []int  // of the frames in buf
	frames [][]byte
	whole  bool // frames were returned

	// Of the writer.
	out     []byte   // headers and small frames, which never moves
	vec     [][]byte // what is to be written, parts of out among it
	waiting int      // bytes of vec
	tail    bool     // the last of vec ends where out ends
	until   time.Time

	writing sync.Mutex // a write, which may be an answer of the reader
	bufs    net.Buffers
}

func newConn(raw net.Conn, o Options) *Conn {
	o = o.filled()
	return &Conn{raw: raw, o: o, in: bufio.NewReaderSize(raw, o.Buffer)}
}

// Close ends reads and writes.
func (c *Conn) Close() error { return c.raw.Close() }

// SetReadDeadline is that of a net.Conn. ReadMessage can be called again after a deadline: nothing is lost.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.raw.SetReadDeadline(t) }

// SetWriteLimit makes writes fail after a time, even if they make progress; the zero time: never. Only the goroutine that writes may call it.
func (c *Conn) SetWriteLimit(t time.Time) { c.until = t }
