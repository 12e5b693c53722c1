// Commands are frames with a name and data: subscriptions, pings and errors.

package zmtp

import (
	"encoding/binary"
	"net"
)

// command is the frame of a command.
func command(body []byte) []byte {
	if len(body) < 256 {
		return append([]byte{flagCommand, byte(len(body))}, body...)
	}
	frame := binary.BigEndian.AppendUint64([]byte{flagCommand | flagLong}, uint64(len(body)))
	return append(frame, body...)
}

func parseCommand(body []byte) (name, data []byte, err error) {
	if len(body) == 0 || len(body) < 1+int(body[0]) {
		return nil, nil, broken("sends a command without a name")
	}
	n := 1 + int(body[0])
	return body[1:n], body[n:], nil
}

func peerError(data []byte) error {
	if len(data) > 0 && len(data) > int(data[0]) {
		data = data[1 : 1+int(data[0])]
	}
	return ErrPeer{string(data)}
}

// Subscribe asks a PUB peer for messages that begin with a prefix.
func (c *Conn) Subscribe(prefix string) error { return c.subscription("SUBSCRIBE", 1, prefix) }

func (c *Conn) subscription(name string, old byte, prefix string) error {
	if c.minor == 0 { // 3.0 has messages for it
		return c.WriteMessage(append([]byte{old}, prefix...))
	}
	return c.send(command(append(append([]byte{byte(len(name))}, name...), prefix...)))
}

// Ping asks the peer for a PONG, which ReadMessage reports, and returns false for a peer of version 3.0, which knows none.
func (c *Conn) Ping() (bool, error) {
	if c.minor == 0 {
		return false, nil
	}
	return true, c.send(command([]byte("\x04PING\x00\x00")))
}

// send writes a frame from any goroutine, between messages or within one.
func (c *Conn) send(frame []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	bufs := net.Buffers{frame}
	return c.write(&bufs)
}

// obey does what a command says. The message is one that it stands for.
func (c *Conn) obey(body []byte) (message [][]byte, pong bool, err error) {
	name, data, err := parseCommand(body)
	if err != nil {
		return nil, false, err
	}
	switch string(name) {
	case "PING":
		if len(data) < 2 || len(data) > 2+16 {
			return nil, false, broken("sends a PING of %d bytes", len(data))
		}
		return nil, false, c.send(command(append([]byte("\x04PONG"), data[2:]...)))
	case "PONG":
		return nil, true, nil
	case "ERROR":
		return nil, false, peerError(data)
	case "SUBSCRIBE", "CANCEL":
		if c.o.Type != Pub {
			return nil, false, broken("subscribes to a %s socket", c.o.Type)
		}
		if len(c.ends) > 0 {
			return nil, false, broken("sends %s within a message", name)
		}
		m := body[len(name):] // the last letter becomes the first byte of a message of version 3.0
		m[0] = 0
		if len(name) == len("SUBSCRIBE") {
			m[0] = 1
		}
		c.frames = append(c.frames[:0], m)
		return c.frames, false, nil
	}
	return nil, false, nil // JOIN, LEAVE and what versions to come have
}
