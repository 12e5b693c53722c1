package main

import (
	"io"
	"strings"

	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
)

// speech prints an answer as it comes, but with --json: what the model says to standard output, what it thinks to standard error.
type speech struct {
	*dialogue
	parts         *chat.Parts
	stops         *chat.Stops // of what the model says
	said, thought strings.Builder
	heard         int  // bytes of what the model said, with those of a stop string and after it
	over          bool // at a stop string
	thinks        bool // a thought is on the screen that has not ended
}

// listen begins the answer to a prompt.
func (d *dialogue) listen(prompt string) *speech {
	return &speech{dialogue: d, parts: chat.NewParts(prompt), stops: chat.NewStops(d.sampling.stop)}
}

// hear prints what is certain of the next parts.
func (s *speech) hear(parts []chat.Part) error {
	for _, part := range parts {
		text := part.Text
		if !part.Thought {
			s.heard += len(text)
			text, s.over = s.stops.Add(text)
		}
		if err := s.print(part.Thought, text); err != nil {
			return err
		}
	}
	return nil
}

func (s *speech) print(thought bool, text string) (err error) {
	to, all := s.out, &s.said
	if thought {
		to, all = s.notes, &s.thought
	}
	all.WriteString(text)
	switch {
	case s.json:
		return nil
	case !thought:
		s.endThought()
	case !s.thinks:
		s.thinks, text = true, "[thinks: "+text
	}
	_, err = io.WriteString(to, text)
	return err
}

// endThought ends a thought on the screen.
func (s *speech) endThought() {
	if s.thinks {
		_, _ = io.WriteString(s.notes, "]\n") // as notes are
	}
	s.thinks = false
}

// end prints what is left when no token follows, after the rest of a character.
func (s *speech) end(rest string) error {
	if err := s.hear(s.parts.Add(rest, false)); err != nil {
		return err
	}
	if err := s.hear(s.parts.Rest()); err != nil {
		return err
	}
	err := s.print(false, s.stops.Rest())
	s.endThought()
	return err
}

// cut is how many bytes of what the model said do not count, as a stop string begins there.
func (s *speech) cut() int { return s.heard - s.said.Len() }
