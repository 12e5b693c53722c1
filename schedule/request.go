package schedule

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache"
)

// Request is a prompt to continue. What its slices point to must not change before it ends.
type Request struct {
	Prompt    []uint32            // at least one token; Submit copies it
	MaxTokens int                 // most new tokens; 0: until the model ends the text, or the sequence has the pool's Memory.Capacity
	Open      kvcache.OpenOptions // salt, adapter, images and retention
	State     any                 // the model's own, such as a sampler
}

// ErrQueueFull is a Submit while Options.MaxWaiting requests wait: try again later.
type ErrQueueFull struct{ Waiting int }

func (e ErrQueueFull) Error() string {
	return fmt.Sprintf("schedule: %d requests are waiting, and no more may; try again later", e.Waiting)
}

var (
	// ErrDraining is a Submit after Drain, or after Run has returned.
	ErrDraining = errors.New("schedule: no more requests are taken; submit to another scheduler")
	// ErrRunning is a second Run of a scheduler, or one that New has not made.
	ErrRunning = errors.New("schedule: Run was called before; make another scheduler with New")
)

// Reason says why an answer ended.
type Reason uint8

const (
	Unended   Reason = iota
	Stopped          // the model ended it
	Length           // it has MaxTokens tokens, or the sequence is full
	Cancelled        // its context or that of Run ended, or Tokens was left
	Failed           // see Report.Err
	numReasons
)

// String is the name that vLLM's metrics have: stop, length, abort or error.
func (r Reason) String() string {
	return [...]string{"unended", "stop", "length", "abort", "error"}[min(r, Failed)]
}

// Report is what became of a request, and what it cost.
type Report struct {
	Reason    Reason
	Err       error         // with Cancelled and Failed
	Match     kvcache.Match // what of the prompt was found before the first step
	Tokens    int           // of the answer
	Suspended int           // times that it gave way to others
	Queued    time.Duration // from Submit to the first step
	Prefill   time.Duration // from there to the first token
	Decode    time.Duration // from there to the last token
	Flushed   time.Duration // that the end waited for tiers
}

// Answer is what follows a prompt, while it is computed. A caller that reads slowly delays nobody.
type Answer struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	more   signal // there is something to read
	done   chan struct{}
	mu     sync.Mutex
	tokens []uint32
	report Report
}

// Tokens are the answer's tokens from the first on, each once it is there. An answer that was cancelled or failed ends with an error.
// To leave the loop early cancels the request. One goroutine reads at a time.
func (a *Answer) Tokens() iter.Seq2[uint32, error] {
	return func(yield func(uint32, error) bool) {
		defer a.Cancel()
		for read := 0; a.ctx != nil; {
			gone := a.ctx.Err() != nil // it has ended, or will
			a.mu.Lock()
			tokens, report := a.tokens[read:], a.report
			a.mu.Unlock()
			for _, token := range tokens {
				if !yield(token, nil) {
					return
				}
			}
			if read += len(tokens); gone && len(tokens) == 0 {
				if report.Reason == Unended { // nobody runs the scheduler, or it is in a step
					report.Err = context.Cause(a.ctx)
				}
				if report.Err != nil {
					yield(0, report.Err)
				}
				return
			}
			select {
			case <-a.more:
			case <-a.ctx.Done():
			}
		}
	}
}

// Cancel ends the request, unless it has ended. Its blocks are given back before the next step.
func (a *Answer) Cancel() {
	if a.cancel != nil {
		a.cancel(nil)
	}
}

// Done is closed when the answer has ended, and all that it held is given back.
func (a *Answer) Done() <-chan struct{} { return a.done }

// Report is what is known of the request; all of it after Done.
func (a *Answer) Report() Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.report
}

// show has the caller see the tokens so far and, once there is a reason, the end.
func (a *Answer) show(tokens []uint32, r Report) {
	a.mu.Lock()
	a.tokens, a.report = tokens, r
	a.mu.Unlock()
	if a.more.send(); r.Reason != Unended {
		a.cancel(nil)
		close(a.done)
	}
}

// signal wakes a goroutine that waits for it, or will.
type signal chan struct{}

func (c signal) send() {
	select {
	case c <- struct{}{}:
	default:
	}
}
