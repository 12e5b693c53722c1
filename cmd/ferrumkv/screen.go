package main

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// screen is what the program writes to, for people and for programs that read JSON. Text from a file, a model or an error
// may contain commands to a terminal: control characters other than new lines and tabs, and those that change the direction
// of text, are escaped as in JSON, and invalid UTF-8 as in Go.
type screen struct {
	to   io.Writer
	rest []byte // the beginning of a character whose end is in the next piece
}

func (s *screen) Write(text []byte) (int, error) {
	in := text
	if len(s.rest) > 0 {
		in = append(s.rest, text...)
	}
	out := make([]byte, 0, len(in))
	for len(in) > 0 && utf8.FullRune(in) {
		r, n := utf8.DecodeRune(in)
		switch {
		case r == utf8.RuneError && n == 1:
			out = fmt.Appendf(out, `\x%02x`, in[0])
		case command(r):
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = append(out, in[:n]...)
		}
		in = in[n:]
	}
	s.rest = bytes.Clone(in)
	if _, err := s.to.Write(out); err != nil {
		return 0, err
	}
	return len(text), nil
}

// command reports whether a terminal may do more with a character than show it.
func command(r rune) bool {
	return r != '\n' && r != '\t' && unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// asItIs is an output for text that is data: escaped if it goes to a terminal, and unchanged elsewhere.
func asItIs(out io.Writer) io.Writer {
	if s, ok := out.(*screen); ok && !isTerminal(s.to) {
		return s.to
	}
	return out
}
