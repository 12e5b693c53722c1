package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Options are the limits of a Scheduler. The zero value has the defaults.
type Options struct {
	StepTokens int // most tokens of a step, at least MaxRunning; 0: 256, or MaxRunning where that is more
	MaxRunning int // most requests with a sequence; 0: the pool's Memory.MaxSeqs
	MaxWaiting int // most requests that wait for one; 0: 1024
	// Flush is how long the end of an answer waits at most until the tiers have what it computed, so that another process finds it; 0:
	// it does not wait.
	Flush time.Duration
}

// Scheduler runs requests on one model and pool. Submit, Drain and Stats are safe for concurrent use.
type Scheduler[B backend.Buffer] struct {
	model    Model[B]
	pool     *kvcache.Pool[B]
	stream   backend.Stream
	opt      Options
	shape    shape
	measures measures

	wake    chan struct{}  // there is something for Run
	working sync.WaitGroup // goroutines that wait for tiers

	mu      sync.Mutex
	inbox   []*request[B] // submitted, not in the queue yet
	opened  []*request[B] // that opening is done with
	queued  int           // that wait: in inbox and queue
	refuses bool          // Submit does
	started bool
	stats   Stats

	queue []*request[B] // Run's, in order of arrival
	step  Step[B]
	parts []*request[B] // of the step
	freed bool          // blocks were, since a request last waited for some
}

// shape is what of a pool's configuration decides.
type shape struct {
	capacity, entry int // tokens of a sequence, and of what the cache finds as one
	block           int
	reuses, tiers   bool
}

// New makes a scheduler of requests on a model. It plans steps of the pool with batch on stream, which nobody else uses while Run runs;
// all of them stay the caller's and must outlive Run.
func New[B backend.Buffer](model Model[B], pool *kvcache.Pool[B], batch *kvcache.Batch[B], stream backend.Stream, opt Options) (*Scheduler[B], error) {
	if model == nil || pool == nil || batch == nil || stream == nil {
		return nil, backend.ErrArgument{Package: "schedule", Op: "New", What: "the model, the pool, the batch or the stream is nil"}
	}
	cfg := pool.Config()
	if opt.MaxRunning == 0 {
		opt.MaxRunning = cfg.Memory.MaxSeqs
	}
	if opt.StepTokens == 0 {
		opt.StepTokens = max(256, opt.MaxRunning)
	}
	if opt.MaxWaiting == 0 {
		opt.MaxWaiting = 1024
	}
	switch {
	case opt.MaxRunning < 1 || opt.MaxWaiting < 1 || opt.Flush < 0:
		return nil, backend.ErrArgument{Package: "schedule", Op: "New", What: "a negative option: need 0 or more"}
	case opt.StepTokens < opt.MaxRunning:
		return nil, backend.ErrArgument{Package: "schedule", Op: "New", What: "Options.StepTokens: every running request has a token in a step; need MaxRunning or more"}
	}
	return &Scheduler[B]{
		model: model, pool: pool, stream: stream, opt: opt, wake: make(chan struct{}, 1), step: Step[B]{Batch: batch},
		measures: newMeasures(),
		shape:    shape{capacity: cfg.Memory.Capacity, entry: cfg.EntryTokens(), block: cfg.BlockTokens(), reuses: cfg.Memory.Prefix != prefix.Off, tiers: len(pool.Tiers()) > 0},
	}, nil
}

// Submit puts a request into the queue. When ctx ends, so does the request. It returns ErrQueueFull, ErrDraining, or
// kvcache.ErrCapacity for a prompt that no sequence holds.
func (s *Scheduler[B]) Submit(ctx context.Context, r Request) (*Answer, error) {
	switch {
	case len(r.Prompt) == 0:
		return nil, backend.ErrArgument{Package: "schedule", Op: "Submit", What: "the prompt has no tokens, not even BOS"}
	case r.MaxTokens < 0:
		return nil, backend.ErrArgument{Package: "schedule", Op: "Submit", What: "MaxTokens is negative: need 0 or more"}
	case len(r.Prompt) > s.shape.capacity:
		return nil, kvcache.ErrCapacity{Have: len(r.Prompt), Max: s.shape.capacity}
	}
	for _, span := range r.Open.Spans {
		if most := s.opt.StepTokens - s.opt.MaxRunning + 1; span.End-span.Begin > most {
			return nil, backend.ErrArgument{Package: "schedule", Op: "Submit", What: fmt.Sprintf("a span of %d tokens, which one step computes: at most %d beside the other requests; raise Options.StepTokens", span.End-span.Begin, most)}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.refuses:
		s.stats.Refused++
		return nil, ErrDraining
	case s.queued >= s.opt.MaxWaiting:
		s.stats.Refused++
		return nil, ErrQueueFull{s.queued}
	}
	r.Prompt = slices.Clone(r.Prompt)
	q := &request[B]{Request: r, answer: newAnswer(ctx), text: slices.Clip(r.Prompt), arrived: time.Now()}
	context.AfterFunc(q.answer.ctx, s.poke)
	s.inbox, s.queued = append(s.inbox, q), s.queued+1
	s.poke()
	return q.answer, nil
}

// Drain has Submit refuse, and Run return once the requests that it has are answered: what a server does on SIGTERM.
func (s *Scheduler[B]) Drain() {
	s.mu.Lock()
	s.refuses = true
	s.mu.Unlock()
	s.poke()
}

// poke has Run look for what is new.
func (s *Scheduler[B]) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run computes until Drain, and then returns nil once all requests are answered. When ctx ends it cancels them and returns the cause.
// Errors of the device are those of requests: Run goes on. A pool or batch that is closed meanwhile fails all requests with
// kvcache.ErrClosed.
func (s *Scheduler[B]) Run(ctx context.Context) error {
	s.mu.Lock()
	again := s.started
	s.started = true
	s.mu.Unlock()
	if again {
		return ErrRunning
	}
	defer context.AfterFunc(ctx, s.poke)()
	for {
		over := ctx.Err() != nil
		if over {
			s.Drain()
		}
		left := s.collect()
		for _, r := range s.queue {
			switch {
			case r.state == opening && (over || r.answer.ctx.Err() != nil):
				r.answer.cancel() // ends its wait
			case over:
				s.end(r, Cancelled, context.Cause(ctx))
			case r.answer.ctx.Err() != nil:
				s.end(r, Cancelled, context.Cause(r.answer.ctx))
			}
		}
		s.sweep()
		if left == 0 && len(s.queue) == 0 {
			s.working.Wait()
			return context.Cause(ctx)
		}
		if !over {
			s.admit()
		}
		if over || !s.advance() && !s.freed {
			<-s.wake
		}
		s.sweep()
	}
}

// collect takes what others have for Run, and reports how much may still come: 0 if Submit refuses and nothing is being opened.
func (s *Scheduler[B]) collect() (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, s.inbox...)
	s.inbox = s.inbox[:0]
	for _, r := range s.opened {
		r.state = waitingForBlocks
	}
	s.opened = s.opened[:0]
	if !s.refuses {
		return 1
	}
	return 0
}

// sweep drops what has ended from the queue.
func (s *Scheduler[B]) sweep() {
	s.queue = slices.DeleteFunc(s.queue, func(r *request[B]) bool { return r.state == ended })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.survey()
	s.queued = s.stats.Waiting + len(s.inbox)
}

// end ends a request, and gives back what it has.
func (s *Scheduler[B]) end(r *request[B], reason Reason, err error) {
	if r.seq != nil {
		if failed := r.seq.Release(); failed != nil && reason != Cancelled {
			reason, err = Failed, errors.Join(err, failed)
		}
		r.seq = nil
	}
	r.state, s.freed = ended, true
	r.report.Reason, r.report.Err = reason, err
	if r.generated() > 0 {
		r.report.Decode = r.latest.Sub(r.first)
	}
	if s.opt.Flush == 0 || !s.shape.tiers || reason != Stopped && reason != Length {
		s.answer(r)
		return
	}
	s.working.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.opt.Flush)
		defer cancel()
		begin := time.Now()
		_ = s.pool.Flush(ctx) // a tier that is slow costs what the next process finds
		r.report.Flushed = time.Since(begin)
		s.answer(r)
	})
}

// answer tells the caller that all is done.
func (s *Scheduler[B]) answer(r *request[B]) {
	r.report.Tokens = r.generated()
	s.counted(r)
	r.answer.end(r.report)
}
