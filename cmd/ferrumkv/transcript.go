package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/llama"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/spf13/cobra"
)

// transcript turns tokens into text and shows it: a single prompt is streamed,
// several are shown one after the other once all are complete.
type transcript struct {
	out       io.Writer
	progress  *progress
	tokenizer *llama.Tokenizer
	texts     []*text
	maxTokens int
	capacity  int // tokens a sequence may have
	sampling  llama.Sampling
	stream    bool
	begun     bool // the stream
	json      bool
	emitted   int
	broken    bool // the output
}

// text is one prompt and what came of it.
type text struct {
	Prompt       string `json:"prompt"`
	Text         string `json:"text"`
	PromptTokens int    `json:"prompt_tokens"`
	Tokens       int    `json:"tokens"`
	Stop         string `json:"stop"` // end (of the text), length (max tokens), capacity (of the cache)

	prompt []uint32
	last   uint32
	pieces strings.Builder
}

func newTranscript(cmd *cobra.Command, f generateFlags, tokenizer *llama.Tokenizer, capacity int) *transcript {
	t := &transcript{out: cmd.OutOrStdout(), progress: &progress{}, tokenizer: tokenizer, maxTokens: f.maxTokens, capacity: capacity,
		sampling: f.sampling, stream: len(f.prompts) == 1 && !f.json, json: f.json}
	if !t.stream { // streamed text is progress enough
		t.progress = newProgress(cmd.ErrOrStderr())
	}
	for _, prompt := range f.prompts {
		tokens := tokenizer.Encode(prompt)
		t.texts = append(t.texts, &text{Prompt: prompt, PromptTokens: len(tokens), prompt: tokens, last: tokens[len(tokens)-1]})
	}
	return t
}

// checkPrompts is an error for a prompt that does not fit the cache. It says
// whether that is due to the model, which was made for context tokens.
func (t *transcript) checkPrompts(context int) error {
	limit := fmt.Sprintf("the capacity of %s, which %s sets", count(t.capacity, "token"), kvcache.EnvCapacity)
	if t.capacity == context {
		limit = fmt.Sprintf("the model's context of %s", count(context, "token"))
	}
	for i, text := range t.texts {
		if text.PromptTokens > t.capacity {
			return fmt.Errorf("--prompt %d of %d: its %s are more than %s", i+1, len(t.texts), count(text.PromptTokens, "token"), limit)
		}
	}
	return nil
}

// generate decodes all prompts as one batch.
func (t *transcript) generate(ctx context.Context, runner *llama.Runner[backend.AnyBuffer]) (llama.Report, error) {
	prompts := make([][]uint32, len(t.texts))
	for i, text := range t.texts {
		prompts[i] = text.prompt
	}
	defer t.progress.clear()
	return runner.Generate(ctx, prompts, t.maxTokens, t.sampling, t.emit)
}

func (t *transcript) emit(seq int, token uint32) error {
	text := t.texts[seq]
	piece := t.tokenizer.Decode(text.last, token)
	text.last = token
	text.Tokens++
	t.emitted++
	if t.stream {
		return t.write(piece)
	}
	text.pieces.WriteString(piece)
	t.progress.show("%d prompts, %d of at most %d tokens", len(t.texts), t.emitted, len(t.texts)*t.maxTokens)
	return nil
}

// write streams a piece of the only text, its prompt before the first one: a run
// that fails before that has printed nothing.
func (t *transcript) write(piece string) error {
	if !t.begun {
		t.begun = true
		piece = t.texts[0].Prompt + piece
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
		return t.write("\n")
	}
	for i, text := range t.texts {
		text.Text, text.Stop = text.pieces.String(), t.stop(text)
		var err error
		if t.json {
			err = writeJSON(t.out, text)
		} else {
			_, err = fmt.Fprintf(t.out, "== %d of %d\n%s%s\n", i+1, len(t.texts), text.Prompt, text.Text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stop is why a text has ended. The last token of it is not in the cache.
func (t *transcript) stop(text *text) string {
	switch {
	case text.Tokens == t.maxTokens:
		return "length"
	case text.PromptTokens+text.Tokens > t.capacity:
		return "capacity"
	}
	return "end"
}

// writeJSON writes v as one line.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
