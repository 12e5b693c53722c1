package serving

import (
	"cmp"
	"sync"

	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/cmd/internal/tokenizer"
)

// Piece is what an answer has with another token: text of whole characters, and what the model thinks apart from what it says.
type Piece struct {
	Text, Thought string
	End           *End // of the last piece
}

// voice makes text of the tokens of an answer. The scheduler's goroutine hears tokens, the caller's takes pieces.
type voice struct {
	sampler *runner.Sampler
	decoder *tokenizer.Decoder
	parts   *chat.Parts // nil: all is said
	stops   *chat.Stops
	past    *chat.Past // of a conversation
	prompt  int        // bytes of its text before the answer
	heard   int        // bytes of what was said, with a stop string and after it
	said    []byte
	over    bool // at a stop string

	mu     sync.Mutex
	pieces []Piece // that were not taken
}

// hear takes a token, and reports whether a stop string ends the text. The model's last token is no text.
func (v *voice) hear(token uint32, last bool) (over bool) {
	var piece Piece
	if !last {
		text, name := v.decoder.Add(token), ""
		if v.parts != nil {
			name = v.decoder.Control(token)
			v.past.Add(token, text+name, v.decoder.Whole())
		}
		v.say(&piece, cmp.Or(name, text), name != "")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.pieces = append(v.pieces, piece)
	return v.over
}

// say adds text to a piece.
func (v *voice) say(to *Piece, text string, control bool) {
	if v.parts == nil {
		v.part(to, chat.Part{Text: text})
		return
	}
	for _, part := range v.parts.Add(text, control) {
		v.part(to, part)
	}
}

func (v *voice) part(to *Piece, part chat.Part) {
	if part.Thought {
		to.Thought += part.Text
		return
	}
	v.heard += len(part.Text)
	part.Text, v.over = v.stops.Add(part.Text)
	to.Text, v.said = to.Text+part.Text, append(v.said, part.Text...)
}

// take is the piece of the next token.
func (v *voice) take() Piece {
	v.mu.Lock()
	defer v.mu.Unlock()
	piece := v.pieces[0]
	v.pieces = v.pieces[1:]
	return piece
}

// rest is what is left of an answer that has ended.
func (v *voice) rest() (piece Piece) {
	if v.over {
		return piece
	}
	v.say(&piece, v.decoder.Rest(), false)
	if v.parts != nil {
		for _, part := range v.parts.Rest() {
			v.part(&piece, part)
		}
	}
	text := v.stops.Rest()
	piece.Text, v.said = piece.Text+text, append(v.said, text...)
	return piece
}

// cut is how many bytes of what was said do not count, as a stop string begins there.
func (v *voice) cut() int { return v.heard - len(v.said) }
