// A connection begins with a greeting of 64 bytes and a READY command from each side.

package zmtp

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"time"
)

// compatible are the types of the peers of a socket.
var compatible = map[string][]string{
	Pub:    {"SUB", "XSUB"},
	Sub:    {"PUB", "XPUB"},
	Router: {"DEALER", "REQ", "ROUTER"},
	Dealer: {"ROUTER", "REP", "DEALER"},
}

const (
	greetingBytes = 64
	readyBytes    = 4096 // most of a READY command
)

// greeting of version 3.1 and the mechanism NULL, of no server.
var greeting = func() (g [greetingBytes]byte) {
	g[0], g[9], g[10], g[11] = 0xff, 0x7f, 3, 1
	copy(g[12:32], "NULL")
	return g
}()

// Handshake makes a Conn of a connection, on either side. On an error the connection is the caller's to close.
func Handshake(raw net.Conn, o Options) (*Conn, error) {
	c := newConn(raw, o)
	if err := raw.SetDeadline(time.Now().Add(c.o.Handshake)); err != nil {
		return nil, err
	}
	if _, err := raw.Write(greeting[:]); err != nil {
		return nil, err
	}
	var g [greetingBytes]byte
	if _, err := io.ReadFull(c.in, g[:1]); err != nil {
		return nil, err
	}
	if g[0] != 0xff {
		return nil, broken("does not speak ZMTP")
	}
	if _, err := io.ReadFull(c.in, g[1:]); err != nil {
		return nil, err
	}
	switch mechanism := bytes.TrimRight(g[12:32], "\x00"); {
	case g[9]&1 == 0:
		return nil, broken("does not speak ZMTP")
	case g[10] < 3:
		return nil, broken("speaks ZMTP %d, not 3", g[10])
	case string(mechanism) != "NULL":
		return nil, broken("wants security mechanism %q; NULL is the only one here", mechanism)
	case g[10] == 3:
		c.minor = g[11]
	default:
		c.minor = 1
	}
	if _, err := raw.Write(c.ready()); err != nil {
		return nil, err
	}
	if err := c.readReady(); err != nil {
		return nil, err
	}
	return c, raw.SetDeadline(time.Time{})
}

func (c *Conn) ready() []byte {
	body := append([]byte{5}, "READY"...)
	body = property(body, "Socket-Type", []byte(c.o.Type))
	if c.o.Type == Router || c.o.Type == Dealer {
		body = property(body, "Identity", c.o.Identity)
	}
	return command(body)
}

func property(b []byte, name string, value []byte) []byte {
	b = append(append(b, byte(len(name))), name...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

// readReady reads the peer's READY and checks what it is.
func (c *Conn) readReady() error {
	if err := c.readHead(readyBytes); err != nil {
		return err
	}
	if c.flags&flagCommand == 0 {
		return broken("sends a message before READY")
	}
	if err := c.readBody(); err != nil {
		return err
	}
	name, data, err := parseCommand(c.buf)
	c.buf, c.inBody = c.buf[:0], false
	switch {
	case err != nil:
		return err
	case string(name) == "ERROR":
		return peerError(data)
	case string(name) != "READY":
		return broken("sends %q before READY", name)
	}
	for len(data) > 0 {
		n := int(data[0])
		if len(data) < 1+n+4 {
			return broken("sends a READY that is cut off")
		}
		key, rest := data[1:1+n], data[1+n:]
		size := binary.BigEndian.Uint32(rest)
		if rest = rest[4:]; uint64(size) > uint64(len(rest)) {
			return broken("sends a READY that is cut off")
		}
		if bytes.EqualFold(key, []byte("Socket-Type")) {
			if !slices.Contains(compatible[c.o.Type], string(rest[:size])) {
				reason := "Invalid socket type"
				c.raw.Write(command(append([]byte("\x05ERROR"), append([]byte{byte(len(reason))}, reason...)...)))
				return broken("is a socket of type %q, which a %s socket does not talk to; check the endpoint", rest[:size], c.o.Type)
			}
			return nil
		}
		data = rest[size:]
	}
	return broken("does not say the type of its socket")
}
