package chat

import (
	"slices"
	"strings"
)

// Stops ends a text before the first of some strings, which may come in several pieces. The zero value ends none.
type Stops struct {
	of   []string
	held string // the end of the text so far, which one of them may begin with
	over bool
}

// NewStops is for strings that are not empty.
func NewStops(of []string) *Stops { return &Stops{of: of} }

// Add is the text that is certain with another piece, and whether it ends there: of several strings the one that begins first counts.
func (s *Stops) Add(piece string) (text string, over bool) {
	if s.over {
		return "", true
	}
	text = s.held + piece
	first := len(text)
	for _, stop := range s.of {
		if at := strings.Index(text, stop); at >= 0 && at < first {
			first, s.over = at, true
		}
	}
	if s.over {
		s.held = ""
		return text[:first], true
	}
	s.held = text[len(text)-begun(text, s.of...):]
	return strings.TrimSuffix(text, s.held), false
}

// begun is how much of the end of a text one of some strings begins with.
func begun(text string, of ...string) (n int) {
	for _, stop := range of {
		for k := min(len(stop)-1, len(text)); k > n; k-- {
			if strings.HasSuffix(text, stop[:k]) {
				n = k
			}
		}
	}
	return n
}

// Rest is what is left when nothing follows.
func (s *Stops) Rest() string {
	text := s.held
	s.held = ""
	return text
}

// Empty reports whether a string is there that every text has.
func Empty(stops []string) bool { return slices.Contains(stops, "") }
