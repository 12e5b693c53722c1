package kvcache

import (
	"fmt"
	"slices"
)

// A sequence that was opened with a prompt knows the whole of it until it is computed, so
// that tokens which are there already are not added again: the text would have them twice,
// and nothing else would tell. Sequence.tokens has it, from the first token on.

// ErrPrompt is an Add that does not go on where a prompt's tokens in the cache end. The
// usual cause is the whole prompt, of which Open found a part. Where all tokens of a prompt
// are equal, pieces of it that are there already are not told from new ones, and an Add of the
// rest with as many equal tokens after it is taken for the whole.
type ErrPrompt struct {
	Have     int    // tokens of the prompt that the sequence has
	Prompt   int    // tokens of the prompt
	Position int    // the first token that differs; 0: the whole prompt was added again
	Want     uint32 // the prompt's token there
	Got      uint32 // the one that was to be added
}

func (e ErrPrompt) Error() string {
	what := fmt.Sprintf("token %d is %d, the prompt's is %d", e.Position, e.Got, e.Want)
	if e.Position == 0 && e.Have > 0 {
		what = "the whole prompt once more"
	}
	return fmt.Sprintf("kvcache: add: %s: the sequence has the first %d of the %d tokens that it was opened with; after Open add prompt[match.Matched:], now prompt[%d:], or open it with nil",
		what, e.Have, e.Prompt, e.Have)
}

// Is matches the same error and the zero value.
func (e ErrPrompt) Is(target error) bool {
	t, ok := target.(ErrPrompt)
	return ok && (t == e || t == ErrPrompt{})
}

// expect makes the sequence wait for the part of a prompt that it does not have.
func (s *Sequence[B]) expect(prompt []uint32) {
	if s.Len() < len(prompt) {
		s.tokens, s.prompt = append(s.tokens[:0], prompt...), len(prompt)
	}
}

// continues is ErrPrompt unless tokens go on with what is left of the prompt. They may go
// on behind its end.
func (s *Sequence[B]) continues(tokens []uint32) error {
	if s.prompt == 0 {
		return nil
	}
	have := s.Len()
	err := ErrPrompt{Have: have, Prompt: s.prompt}
	prompt := s.tokens[:s.prompt]
	for i, want := range prompt[have:min(have+len(tokens), len(prompt))] {
		if tokens[i] != want {
			err.Position, err.Want, err.Got = have+i, want, tokens[i]
			return err
		}
	}
	// A prompt that repeats itself goes on as it begins: the whole of it is told by its length,
	// pieces are not told.
	if have > 0 && len(tokens) >= len(prompt) && slices.Equal(tokens[:len(prompt)], prompt) {
		return err
	}
	return nil
}

// note keeps the tokens of a step that was added: behind those that the sequence has, for
// the blocks that it will publish.
func (s *Sequence[B]) note(tokens []uint32) {
	if s.prompt > 0 { // continues has compared them
		tokens = tokens[min(len(tokens), s.prompt-s.Len()):]
		s.tokens = append(s.tokens[:s.prompt], tokens...)
	} else if s.pool.tree != nil {
		s.tokens = append(s.tokens[:s.len], tokens...)
	}
}

// computed ends the wait for a prompt that the sequence has by now.
func (s *Sequence[B]) computed() {
	if s.prompt > 0 && s.Len() >= s.prompt {
		s.forgetPrompt()
	}
}

// forgetPrompt is for a sequence that has its prompt, or was changed and need not go on
// with it.
func (s *Sequence[B]) forgetPrompt() {
	s.prompt = 0
	if s.pool.tree == nil {
		s.tokens = nil
	}
}
