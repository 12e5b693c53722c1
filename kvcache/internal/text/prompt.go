package text

import "fmt"

// ErrPrompt is an Add that does not go on where a prompt's tokens in the cache end. The
// usual cause is adding the whole prompt after Open found a part. In a prompt that repeats exactly that
// part, the rest begins like the whole: adding the whole is then its rest and more, and not an error.
type ErrPrompt struct {
	Have     int    // tokens of the prompt that the sequence has
	Prompt   int    // tokens of the prompt
	Position int    // the first token that differs
	Want     uint32 // the prompt's token there
	Got      uint32 // the one that was to be added
}

func (e ErrPrompt) Error() string {
	return fmt.Sprintf("kvcache: token %d is %d, the prompt's is %d: the sequence has the first %d of the %d tokens that it was opened with; after Open add prompt[match.Cached:], now prompt[%d:], or open it with nil",
		e.Position, e.Got, e.Want, e.Have, e.Prompt, e.Have)
}

// Is matches the same error and the zero value.
func (e ErrPrompt) Is(target error) bool {
	t, ok := target.(ErrPrompt)
	return ok && (t == e || t == ErrPrompt{})
}

// Expect makes a sequence of so many tokens wait for the part of a prompt that it does not have.
func (t *Text) Expect(prompt []uint32, have int) {
	if have < len(prompt) {
		t.tokens, t.prompt = append(t.tokens[:0], prompt...), len(prompt)
	}
}

// Continues is ErrPrompt unless tokens continue the prompt after the tokens that the
// sequence has. They may go on after its end. Nothing else is compared: where the prompt repeats itself, tokens that
// are also its beginning are its rest.
func (t *Text) Continues(tokens []uint32, have int) error {
	if have >= t.prompt { // or there is none
		return nil
	}
	for i, want := range t.tokens[have:min(have+len(tokens), t.prompt)] {
		if tokens[i] != want {
			return ErrPrompt{Have: have, Prompt: t.prompt, Position: have + i, Want: want, Got: tokens[i]}
		}
	}
	return nil
}

// Note keeps the tokens of a step that was added: after those that the sequence has, or gets in
// the step before them, for the blocks that it will publish.
func (t *Text) Note(tokens []uint32, have int) {
	if t.prompt > have { // Continues has compared them
		tokens = tokens[min(len(tokens), t.prompt-have):]
		t.tokens = append(t.tokens[:t.prompt], tokens...)
	} else if len(t.tokens) >= have { // else not all are known, nor will be
		t.tokens = append(t.tokens[:have], tokens...)
	}
}

// Pick makes of the tokens that were noted from one on those that nodes names, in rising order: the others were
// guesses that are wrong.
func (t *Text) Pick(from int, nodes []int) {
	if len(t.tokens) <= from {
		return
	}
	for i, node := range nodes {
		t.tokens[from+i] = t.tokens[from+node]
	}
	t.tokens = t.tokens[:from+len(nodes)]
}

// Whole is how many of the next n tokens to give a step so that it cuts no span of the prompt: more than n where it would
// begin with one that is longer.
func (t *Text) Whole(have, n int) int {
	for _, s := range t.Spans {
		if end := have + n; s.End > have && s.Begin < end && end < s.End {
			if s.Begin > have {
				return s.Begin - have
			}
			return s.End - have
		}
	}
	return n
}

// Computed ends the wait for a prompt that the sequence has by now.
func (t *Text) Computed(have int) {
	if t.prompt > 0 && have >= t.prompt {
		t.forgetPrompt()
	}
}

// forgetPrompt is for a sequence that has its prompt, or was changed and need not go on
// with it.
func (t *Text) forgetPrompt() {
	t.prompt, t.Spans = 0, nil
}
