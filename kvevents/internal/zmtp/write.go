// Messages are written together where several wait: small frames in one buffer, large ones from where they are.

package zmtp

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"time"
)

const (
	outBytes   = 16 << 10 // of headers and small frames
	smallFrame = 2 << 10
	mostVec    = 64
	mostWait   = 64 << 10 // bytes that are not written yet
)

// WriteMessage writes a message.
func (c *Conn) WriteMessage(frames ...[]byte) error {
	if err := c.Append(frames...); err != nil {
		return err
	}
	return c.Flush()
}

// Append adds a message to those that Flush writes, and may write some. Large frames stay the caller's and must not change before Flush.
func (c *Conn) Append(frames ...[]byte) error {
	for i, frame := range frames {
		var head [9]byte
		n := 2
		if i < len(frames)-1 {
			head[0] = flagMore
		}
		if len(frame) < 256 {
			head[1] = byte(len(frame))
		} else {
			head[0] |= flagLong
			binary.BigEndian.PutUint64(head[1:], uint64(len(frame)))
			n = 9
		}
		if err := c.copied(head[:n], nil); err != nil {
			return err
		}
		if err := c.add(frame); err != nil {
			return err
		}
	}
	if c.waiting >= mostWait {
		return c.Flush()
	}
	return nil
}

func (c *Conn) add(frame []byte) error {
	if len(frame) <= smallFrame {
		return c.copied(nil, frame)
	}
	if len(c.vec) >= mostVec {
		if err := c.Flush(); err != nil {
			return err
		}
	}
	c.vec, c.tail = append(c.vec, frame), false
	c.waiting += len(frame)
	return nil
}

// copied adds a header or a small frame.
func (c *Conn) copied(head, frame []byte) error {
	n := len(head) + len(frame)
	if n == 0 {
		return nil
	}
	if c.out == nil {
		c.out = make([]byte, 0, outBytes)
	}
	if len(c.out)+n > cap(c.out) || len(c.vec) >= mostVec {
		if err := c.Flush(); err != nil {
			return err
		}
	}
	start := len(c.out)
	c.out = append(append(c.out, head...), frame...)
	if c.tail {
		last := &c.vec[len(c.vec)-1]
		*last = c.out[start-len(*last) : len(c.out)]
	} else {
		c.vec, c.tail = append(c.vec, c.out[start:]), true
	}
	c.waiting += n
	return nil
}

// Flush writes what waits.
func (c *Conn) Flush() error {
	if len(c.vec) == 0 {
		return nil
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	c.bufs = c.vec
	err := c.write(&c.bufs)
	clear(c.vec) // which would keep large frames
	c.bufs, c.vec, c.out, c.waiting, c.tail = nil, c.vec[:0], c.out[:0], 0, false
	return err
}

// write has a deadline, which a write that makes progress moves.
func (c *Conn) write(bufs *net.Buffers) error {
	for {
		deadline := time.Now().Add(c.o.Stall)
		limited := !c.until.IsZero() && c.until.Before(deadline)
		if limited {
			deadline = c.until
		}
		if err := c.raw.SetWriteDeadline(deadline); err != nil {
			return err
		}
		n, err := bufs.WriteTo(c.raw)
		if err == nil || n == 0 || limited || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
}
