package serving

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/cmd/internal/tokenizer"
	"github.com/ferrumkv/ferrumkv/kvcache/metrics"
	"github.com/ferrumkv/ferrumkv/schedule"
)

// Options of an Engine. The zero value has defaults.
type Options struct {
	Schedule schedule.Options
	// Template makes prompts of conversations; nil: they are refused.
	Template *chat.Template
	// Memory is the most bytes of conversations that are remembered; 0: 64 MiB.
	Memory int
	// Log receives a line for each request, without texts, tokens or salts; nil: none.
	Log *slog.Logger
}

// Engine continues texts. Its methods are safe for concurrent use.
type Engine struct {
	runner    *runner.Runner[backend.AnyBuffer]
	model     *runner.Model
	tokenizer *tokenizer.Tokenizer
	scheduler *schedule.Scheduler[backend.AnyBuffer]
	template  *chat.Template
	memory    *memory
	rendering chan struct{} // of processes that render templates
	log       *slog.Logger
	drains    atomic.Bool
	salts     salts
}

// renderers is how many templates are rendered at a time, each in a process that may take half a GiB.
const renderers = 4

// New makes an engine of a runner, whose steps hold Schedule.StepTokens. All of them stay the caller's and must outlive Run.
func New(r *runner.Runner[backend.AnyBuffer], m *runner.Model, t *tokenizer.Tokenizer, opt Options) (*Engine, error) {
	if opt.Memory == 0 {
		opt.Memory = 64 << 20
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	s, err := schedule.New(&model{runner: r, stops: m.Stops}, r.Pool(), r.Batch(), r.Stream(), opt.Schedule)
	if err != nil {
		return nil, err
	}
	return &Engine{runner: r, model: m, tokenizer: t, scheduler: s, template: opt.Template, memory: newMemory(opt.Memory),
		rendering: make(chan struct{}, renderers), log: opt.Log}, nil
}

// Run computes until Drain, and then until all requests are answered. When ctx ends it cancels them.
func (e *Engine) Run(ctx context.Context) error { return e.scheduler.Run(ctx) }

// Drain has Submit refuse, and Run return once the requests are answered.
func (e *Engine) Drain() {
	e.drains.Store(true)
	e.scheduler.Drain()
}

// Ready reports whether Submit takes requests.
func (e *Engine) Ready() bool { return !e.drains.Load() }

// Context is the most tokens of a prompt and its answer.
func (e *Engine) Context() int { return e.runner.Pool().Config().Memory.Capacity }

// The tables of metrics.
var (
	ofScheduler = schedule.Metrics()
	ofPool      = metrics.Pool()
)

// Metrics are those of the scheduler and of the pool.
func (e *Engine) Metrics() ([]metrics.Family, error) {
	stats, err := e.runner.Pool().Stats()
	return slices.Concat(
		metrics.Of(ofScheduler, e.scheduler.Stats()),
		metrics.Of(ofPool, stats),
	), err
}

// ErrContext is a prompt, or a prompt and its MaxTokens, that the context has no room for.
type ErrContext struct{ Prompt, MaxTokens, Context int }

func (e ErrContext) Error() string {
	if e.MaxTokens == 0 {
		return fmt.Sprintf("the context is %d tokens, and the prompt has %d: shorten it, so that there is room for an answer", e.Context, e.Prompt)
	}
	return fmt.Sprintf("the context is %d tokens, and the prompt has %d and the answer up to %d: shorten one of them", e.Context, e.Prompt, e.MaxTokens)
}

// ErrPrompt is a prompt that no model takes.
type ErrPrompt struct{ Why string }

func (e ErrPrompt) Error() string { return e.Why }

// ErrNoTemplate is a conversation for a model without a chat template.
type ErrNoTemplate struct{}

func (ErrNoTemplate) Error() string {
	return "the model has no chat template: use /v1/completions, or start the server with --template FILE"
}
