package serving

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"math/rand/v2"

	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/schedule"
)

// Settings say how a prompt is continued.
type Settings struct {
	ID                string // of the request, for the log
	MaxTokens         int    // 0: Usual
	Usual             int    // as far as the context has room; 0: all of that
	Temperature, TopP float64
	Seed              *uint64 // nil: another one each time
	Stop              []string
}

// End is how an answer ended, and what it took.
type End struct {
	Reason   string      // stop or length
	Prompt   int         // tokens
	Cached   int         // of these, tokens that were found
	Tokens   int         // of the answer
	Diverged *Divergence // the prompt's
}

// Submit has a prompt continued until ctx ends, and returns its pieces, each when it is there; the last has the End. They can be read once. It fails
// with ErrContext, schedule.ErrQueueFull or schedule.ErrDraining.
func (e *Engine) Submit(ctx context.Context, p Prompt, s Settings) (iter.Seq2[Piece, error], error) {
	room := e.Context() - len(p.Tokens)
	if room < max(s.MaxTokens, 1) {
		return nil, ErrContext{len(p.Tokens), s.MaxTokens, e.Context()}
	}
	if s.MaxTokens == 0 {
		s.MaxTokens = min(room, cmp.Or(s.Usual, room))
	}
	seed := rand.Uint64()
	if s.Seed != nil {
		seed = *s.Seed
	}
	v := e.voice(p, s.Stop)
	var err error
	if v.sampler, err = runner.NewSampler(runner.Sampling{Temperature: s.Temperature, TopP: s.TopP, Seed: seed}, 0); err != nil {
		return nil, err
	}
	e.salts.note(p.Salt)
	answer, err := e.scheduler.Submit(ctx, schedule.Request{Prompt: p.Tokens, MaxTokens: s.MaxTokens, State: v,
		Open: kvcache.OpenOptions{Scope: prefix.Scope{Salt: p.Salt}}})
	if err != nil {
		return nil, err
	}
	go e.note(s.ID, p, answer)
	return func(yield func(Piece, error) bool) {
		for _, err := range answer.Tokens() {
			if err != nil {
				yield(Piece{}, err)
				return
			}
			if !yield(v.take(), nil) {
				return
			}
		}
		report := answer.Report()
		last := v.rest()
		last.End = &End{Reason: report.Reason.String(), Prompt: len(p.Tokens), Cached: report.Match.Cached, Tokens: report.Tokens, Diverged: p.Diverged}
		e.remember(p, v)
		yield(last, nil)
	}, nil
}

// note writes the line of a request once it has ended.
func (e *Engine) note(id string, p Prompt, answer *schedule.Answer) {
	<-answer.Done()
	r := answer.Report()
	attrs := []any{"id", id, "prompt", len(p.Tokens), "cached", r.Match.Cached, "computed", len(p.Tokens) - r.Match.Cached, "tokens", r.Tokens,
		"reason", r.Reason.String(), "queued", r.Queued, "prefill", r.Prefill, "decode", r.Decode}
	for i, n := range r.Match.Tiers {
		if n > 0 {
			attrs = append(attrs, slog.Int("from_"+e.runner.Pool().Tiers()[i].Name, n))
		}
	}
	if p.Diverged != nil {
		attrs = append(attrs, "path", p.Diverged.String())
	}
	if r.Reason == schedule.Failed {
		attrs = append(attrs, "error", r.Err)
	}
	e.log.Info("request", attrs...)
}
