package load

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
)

// Limits of a stream. A server that never ends a line, or never ends, is an error before it takes memory.
const (
	maxEvent  = 1 << 20  // bytes of a line, and of an event's data
	maxStream = 64 << 20 // bytes
)

// event is a server-sent event, as the HTML standard has it, without what is for browsers.
type event struct{ name, data string }

// events reads a stream of them.
type events struct {
	lines *bufio.Scanner
	left  *io.LimitedReader
}

func newEvents(body io.Reader) *events {
	left := &io.LimitedReader{R: body, N: maxStream}
	lines := bufio.NewScanner(left)
	lines.Buffer(nil, maxEvent)
	return &events{lines, left}
}

// next is the next event that has data; io.EOF: there is none. The last one need not end with a blank line.
func (s *events) next() (e event, err error) {
	var data strings.Builder
	has := false
	for s.lines.Scan() {
		line := s.lines.Text() // without a carriage return at its end
		if line == "" {
			if has {
				return event{e.name, data.String()}, nil
			}
			e.name = ""
			continue
		}
		field, value, _ := strings.Cut(line, ":") // a comment has no name
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			e.name = value
		case "data":
			if data.Len()+len(value) > maxEvent {
				return e, ErrRequest{TooLarge, "an event has no end"}
			}
			if has {
				data.WriteByte('\n')
			}
			data.WriteString(value)
			has = true
		}
	}
	switch err := s.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return e, ErrRequest{TooLarge, "a line has no end"}
	case s.left.N <= 0:
		return e, ErrRequest{TooLarge, "the stream has no end"}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return e, ErrRequest{Broken, "the connection ended in the middle of the stream"}
	case err != nil:
		return e, broken(err)
	case has:
		return event{e.name, data.String()}, nil
	}
	return e, io.EOF
}

// broken is the error of a connection that ended while it was read. That of a request whose time is over stays as it is.
func broken(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	return ErrRequest{Broken, err.Error()}
}
