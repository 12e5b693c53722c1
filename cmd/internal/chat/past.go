package chat

import (
	"context"
	"slices"
	"strings"
	"unicode"
)

// Past is what a model has read and written of a conversation: the text, and the tokens that it consists of. Those of answers are the ones
// that the model chose, which others may spell the same text.
type Past struct {
	Text   string   `json:"text"`
	Tokens []uint32 `json:"tokens"`
	Marks  []Mark   `json:"marks"` // in order

	answer int // marks before the answer
}

// Mark is a place where a text, and its tokens, can go on in another way.
type Mark struct {
	Text   int `json:"text"`   // bytes before it
	Tokens int `json:"tokens"` // tokens before it
}

// Continue makes the past that of a text that a template rendered, the prompt of the next answer. It keeps the tokens up to the last mark
// at which the text is the same, and the rest is what encode makes of it; that of a new text begins.
func (p *Past) Continue(text string, encode func(text string, begins bool) []uint32) {
	n := len(p.Marks)
	for n > 0 && !strings.HasPrefix(text, p.Text[:p.Marks[n-1].Text]) {
		n--
	}
	var at Mark
	if n > 0 {
		at = p.Marks[n-1]
	}
	p.Tokens = append(p.Tokens[:at.Tokens:at.Tokens], encode(text[at.Text:], n == 0)...)
	p.Text = text
	p.Marks = append(p.Marks[:n:n], Mark{len(text), len(p.Tokens)})
	p.answer = len(p.Marks)
}

// Render is the text of a conversation that goes on from the past, whose answer is message last, and its messages as they were rendered. Where a
// template puts white space before answers, that one is taken without its own, if the text goes on from the past then.
func (p *Past) Render(ctx context.Context, t *Template, messages []Message, last int) (text string, as []Message, err error) {
	text, err = t.Render(ctx, messages, true)
	if err != nil || last < 0 || strings.HasPrefix(text, p.Text) {
		return text, messages, err
	}
	trimmed := slices.Clone(messages)
	answer := &trimmed[last].Content
	if cut := strings.TrimLeftFunc(*answer, unicode.IsSpace); cut != *answer {
		*answer = cut
		if other, err := t.Render(ctx, trimmed, true); err == nil && strings.HasPrefix(other, p.Text) {
			return other, trimmed, nil
		}
	}
	return text, messages, nil
}

// Add adds a token of the answer, and the text that it completed; whole says that this ends with a whole character.
func (p *Past) Add(token uint32, text string, whole bool) {
	p.Tokens, p.Text = append(p.Tokens, token), p.Text+text
	if whole {
		p.Marks = append(p.Marks, Mark{len(p.Text), len(p.Tokens)})
	}
}

// End ends the answer, of which the given number of bytes counts: the past keeps the tokens that are whole within them.
func (p *Past) End(bytes int) {
	most := p.Marks[p.answer-1].Text + bytes
	n := len(p.Marks)
	for p.Marks[n-1].Text > most {
		n--
	}
	at := p.Marks[n-1]
	p.Text, p.Tokens, p.Marks = p.Text[:at.Text], p.Tokens[:at.Tokens], p.Marks[:p.answer]
	if n > p.answer {
		p.Marks = append(p.Marks, at)
	}
}

// Valid reports whether the past, which was read from somewhere, is one.
func (p *Past) Valid(vocabulary int) bool {
	last := Mark{}
	for _, m := range p.Marks {
		if m.Text < last.Text || m.Tokens < last.Tokens {
			return false
		}
		last = m
	}
	for _, token := range p.Tokens {
		if uint64(token) >= uint64(vocabulary) {
			return false
		}
	}
	return last.Text <= len(p.Text) && last.Tokens <= len(p.Tokens)
}
