package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/cmd/internal/tokenizer"
	"github.com/spf13/cobra"
)

// transcript turns tokens into text and shows it: a single conversation is streamed,
// several are shown one after the other once all are complete.
type transcript struct {
	bounds
	out           io.Writer
	progress      *progress
	tokenizer     *tokenizer.Tokenizer
	conversations []*conversation
	turns         []string // what each conversation goes on with
	sampling      samplingFlags
	stream        bool
	json          bool
	emitted       int
	broken        bool // the output
	files         *saves
}

// conversation is a prompt, its answer, and the same for every further turn.
type conversation struct {
	*answer
	Turns []*answer `json:"turns,omitempty"`

	current *answer
	tokens  []uint32 // so far
	decoder *tokenizer.Decoder
	stops   *chat.Stops
}

// answer is what came of a prompt, or of what a turn added to the text before it.
type answer struct {
	Prompt       string `json:"prompt"`
	Text         string `json:"text"`
	PromptTokens int    `json:"prompt_tokens"` // the earlier turns' included
	ReusedTokens int    `json:"reused_tokens"` // of the prompt's, not computed
	Tokens       int    `json:"tokens"`
	Stop         string `json:"stop"` // end (of the text), stop (string), length (max tokens), capacity (of the cache)

	begun   bool // to be streamed
	stopped bool // at a stop string
	pieces  strings.Builder
}

func newTranscript(cmd *cobra.Command, f *generateFlags, w writer) *transcript {
	t := &transcript{bounds: w.bounds, out: asItIs(cmd.OutOrStdout()), progress: &progress{}, tokenizer: w.tokenizer, turns: f.turns,
		sampling: f.sampling, stream: len(f.prompts) == 1 && !f.json, json: f.json, files: &f.files}
	if !t.stream { // streamed text is progress enough
		t.progress = newProgress(cmd.ErrOrStderr())
	}
	f.files.held = make([]*runner.Held[backend.AnyBuffer], len(f.prompts))
	for i, prompt := range f.prompts {
		tokens := w.tokenizer.Encode(prompt)
		if f.files.from != nil {
			tokens = f.files.from[i].Tokens
		}
		first := &answer{Prompt: prompt, PromptTokens: len(tokens)}
		t.conversations = append(t.conversations, &conversation{answer: first, current: first, tokens: tokens})
	}
	return t
}

// checkPrompts is an error for a prompt that does not fit the cache.
func (t *transcript) checkPrompts() error {
	for i, c := range t.conversations {
		if len(c.tokens) > t.capacity && t.files.from == nil { // what is resumed has its last token outside
			return fmt.Errorf("prompt %d of %d: its %s are more than %s", i+1, len(t.conversations), count(len(c.tokens), "token"), t.limit)
		}
	}
	return nil
}

// generate decodes all conversations as one batch, a turn after the other.
func (t *transcript) generate(ctx context.Context, model *runner.Runner[backend.AnyBuffer]) (runner.Report, error) {
	defer t.progress.clear()
	total, err := t.answer(ctx, model)
	for i, turn := range t.turns {
		if err != nil {
			break
		}
		for j, c := range t.conversations {
			c.say(turn, t.tokenizer.EncodeMore(turn))
			if len(c.tokens) > t.capacity {
				return total, fmt.Errorf("--turn %d of %d: conversation %d of %d has %s with it, more than %s",
					i+1, len(t.turns), j+1, len(t.conversations), count(len(c.tokens), "token"), t.limit)
			}
		}
		var r runner.Report
		r, err = t.answer(ctx, model)
		total.Add(r)
	}
	return total, err
}

// say goes on with a conversation.
func (c *conversation) say(text string, tokens []uint32) {
	c.tokens = append(c.tokens, tokens...)
	c.current = &answer{Prompt: text, PromptTokens: len(c.tokens)}
	c.Turns = append(c.Turns, c.current)
}

// answer generates what follows in every conversation. What the cache still has of
// the turns before is not computed again: see runner.Runner.Generate.
func (t *transcript) answer(ctx context.Context, model *runner.Runner[backend.AnyBuffer]) (runner.Report, error) {
	prompts := make([]runner.Prompt, len(t.conversations))
	for i, c := range t.conversations {
		prompts[i].Tokens = slices.Clip(c.tokens) // emit appends
		c.decoder, c.stops = t.tokenizer.Decoder(c.tokens...), chat.NewStops(t.sampling.stop)
	}
	report, err := model.GoOn(ctx, prompts, t.maxTokens, t.sampling.Sampling, t.emit, t.files.from, t.files.keep())
	for i, c := range t.conversations {
		c.current.ReusedTokens = report.Matches[i].Cached
		rest := c.rest()
		c.current.pieces.WriteString(rest)
		if t.stream && err == nil {
			err = t.write(rest) // also where the answer is empty
		}
		if c.current.stopped { // turns go on from what is shown
			c.tokens = append(c.tokens[:c.current.PromptTokens], t.tokenizer.EncodeMore(c.current.pieces.String())...)
		}
	}
	return report, err
}

func (t *transcript) emit(seq int, token uint32) error {
	c := t.conversations[seq]
	piece, over := c.stops.Add(c.decoder.Add(token))
	c.tokens = append(c.tokens, token)
	c.current.Tokens++
	t.emitted++
	c.current.pieces.WriteString(piece)
	if c.current.stopped = over; t.stream {
		if err := t.write(piece); err != nil {
			return err
		}
	}
	if over {
		return runner.ErrEnough
	}
	if t.stream {
		return nil
	}
	t.progress.show("%d prompts, %d of at most %d tokens", len(t.conversations), t.emitted, len(t.conversations)*(1+len(t.turns))*t.maxTokens)
	return nil
}

// rest is the end of an answer that is certain once no token follows.
func (c *conversation) rest() string {
	text, over := c.stops.Add(c.decoder.Rest())
	c.current.stopped = over
	return text + c.stops.Rest()
}

// write streams a piece of the only conversation, what was said to it before the
// first one: a run that fails before that has printed nothing.
func (t *transcript) write(piece string) error {
	if a := t.conversations[0].current; !a.begun {
		a.begun = true
		piece = a.Prompt + piece
	}
	_, err := io.WriteString(t.out, piece)
	t.broken = err != nil
	return err
}

// presentable reports whether the text of a generation that failed is shown: by
// people a part is read, but what reads JSON gets all or nothing.
func (t *transcript) presentable() bool { return t.emitted > 0 && !t.json && !t.broken }

// finish shows what is not streamed.
func (t *transcript) finish() error {
	if t.stream {
		_, err := io.WriteString(t.out, "\n")
		return err
	}
	for i, c := range t.conversations {
		var shown strings.Builder
		for _, a := range append([]*answer{c.answer}, c.Turns...) {
			a.Text, a.Stop = a.pieces.String(), t.why(a.stopped, a.PromptTokens, a.Tokens)
			shown.WriteString(a.Prompt + a.Text)
		}
		var err error
		if t.json {
			err = writeJSON(t.out, c)
		} else {
			_, err = fmt.Fprintf(t.out, "== %d of %d\n%s\n", i+1, len(t.conversations), shown.String())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// endings says in words why all answers have ended.
func (t *transcript) endings() string {
	var order []string
	answers, times := 0, map[string]int{}
	for _, c := range t.conversations {
		for _, a := range append([]*answer{c.answer}, c.Turns...) {
			why := t.words(t.why(a.stopped, a.PromptTokens, a.Tokens), "at the end of the text")
			if times[why] == 0 {
				order = append(order, why)
			}
			times[why]++
			answers++
		}
	}
	for i, why := range order {
		switch {
		case answers == 1:
			order[i] = why
		case len(order) == 1:
			order[i] = fmt.Sprintf("all %d %s", answers, why)
		default:
			order[i] = fmt.Sprintf("%d %s", times[why], why)
		}
	}
	return strings.Join(order, ", ")
}

// writeJSON writes v as one line.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
