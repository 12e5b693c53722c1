// Messages are read into a buffer that grows with the bytes that came, never with the length that a peer claims.

package zmtp

import (
	"encoding/binary"
	"io"
)

const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

// firstRoom is what the buffer has for the first bytes of a body.
const firstRoom = 1024

// ReadMessage returns the frames of the next message, which are valid until the next call. It returns none and no error after a PONG. PINGs are
// answered on the way. For a Pub, a subscription is a message of one frame: 1 and a prefix; 0 and the prefix ends it.
func (c *Conn) ReadMessage() ([][]byte, error) {
	if c.whole {
		c.buf, c.ends, c.whole = c.buf[:0], c.ends[:0], false
	}
	for {
		if !c.inBody {
			if err := c.readHead(c.o.Bytes); err != nil {
				return nil, err
			}
		}
		if err := c.readBody(); err != nil {
			return nil, err
		}
		c.inBody = false
		if c.flags&flagCommand != 0 {
			message, pong, err := c.obey(c.buf[c.start:])
			c.buf = c.buf[:c.start]
			if message != nil || pong || err != nil {
				return message, err
			}
			continue
		}
		c.ends = append(c.ends, len(c.buf))
		if c.flags&flagMore == 0 {
			c.whole = true
			return c.split(), nil
		}
	}
}

// split is the frames of a message that has come.
func (c *Conn) split() [][]byte {
	c.frames = c.frames[:0]
	start := 0
	for _, end := range c.ends {
		c.frames = append(c.frames, c.buf[start:end:end])
		start = end
	}
	return c.frames
}

// readHead reads the flags and the length of a frame. Either all of it is taken from the stream or nothing.
func (c *Conn) readHead(limit int) error {
	head, err := c.in.Peek(2)
	if err != nil {
		return c.ended(err)
	}
	flags, size := head[0], uint64(head[1])
	n := 2
	if flags&flagLong != 0 {
		if head, err = c.in.Peek(9); err != nil {
			return c.ended(err)
		}
		n, size = 9, binary.BigEndian.Uint64(head[1:])
	}
	switch {
	case flags&^(flagMore|flagLong|flagCommand) != 0 || flags&flagCommand != 0 && flags&flagMore != 0:
		return broken("sends a frame with flags %#x", flags)
	case size > uint64(limit-len(c.buf)):
		return broken("sends a message of more than %d bytes", limit)
	case flags&flagCommand == 0 && len(c.ends) == c.o.Frames:
		return broken("sends a message of more than %d frames", c.o.Frames)
	}
	if _, err := c.in.Discard(n); err != nil {
		return err
	}
	c.flags, c.left, c.start, c.inBody = flags, int(size), len(c.buf), true
	return nil
}

// readBody appends what the frame has to buf.
func (c *Conn) readBody() error {
	for c.left > 0 {
		if len(c.buf) == cap(c.buf) { // at most as much again as has come
			c.buf = append(make([]byte, 0, 2*len(c.buf)+min(c.left, firstRoom)), c.buf...)
		}
		room := c.buf[len(c.buf):min(cap(c.buf), len(c.buf)+c.left)]
		n, err := c.in.Read(room)
		c.buf, c.left = c.buf[:len(c.buf)+n], c.left-n
		if err != nil && c.left > 0 {
			return c.ended(err)
		}
	}
	return nil
}

// ended is the error of a stream that ends: within a message it is not io.EOF.
func (c *Conn) ended(err error) error {
	if err == io.EOF && (c.inBody || len(c.ends) > 0 || c.in.Buffered() > 0) {
		return io.ErrUnexpectedEOF
	}
	return err
}
