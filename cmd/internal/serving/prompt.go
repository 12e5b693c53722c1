package serving

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
)

// Prompt is a text to continue, in tokens.
type Prompt struct {
	Tokens []uint32
	Salt   []byte // of its tenant; nil: none
	// Diverged is where it left the tokens of the conversation that it goes on from, because the template rendered that in another way; nil: it did not.
	Diverged *Divergence

	talk *talk // nil: it is no conversation
}

// Divergence is how many tokens are the same, of how many.
type Divergence struct {
	At int `json:"at"`
	Of int `json:"of"`
}

func (d Divergence) String() string { return fmt.Sprintf("diverged at token %d of %d", d.At, d.Of) }

// Complete is the prompt of a text.
func (e *Engine) Complete(text string, salt []byte) (Prompt, error) {
	return e.Continue(e.tokenizer.Encode(text), salt)
}

// Continue is the prompt of tokens.
func (e *Engine) Continue(tokens []uint32, salt []byte) (Prompt, error) {
	for i, token := range tokens {
		if uint64(token) >= uint64(e.model.Vocab) {
			return Prompt{}, ErrPrompt{fmt.Sprintf("token %d of the prompt is %d: the vocabulary has %d", i, token, e.model.Vocab)}
		}
	}
	if len(tokens) == 0 {
		return Prompt{}, ErrPrompt{"the prompt has no tokens"}
	}
	return Prompt{Tokens: tokens, Salt: salt}, nil
}

// voice is the voice of the answer.
func (e *Engine) voice(p Prompt, stop []string) *voice {
	v := &voice{stops: chat.NewStops(stop)}
	if p.talk == nil {
		v.decoder = e.tokenizer.Decoder(p.Tokens...)
		return v
	}
	past := p.talk.past
	v.parts, v.past, v.prompt = chat.NewParts(past.Text), &past, len(past.Text)
	v.decoder = e.tokenizer.Spoken().Decoder(p.Tokens...)
	return v
}
