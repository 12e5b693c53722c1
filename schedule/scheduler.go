package schedule

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/metrics"
)

// Options are the limits of a Scheduler. The zero value has the defaults.
type Options struct {
	StepTokens int // most tokens of a step, at least MaxRunning; 0: 256, or MaxRunning where that is more
	MaxRunning int // most requests with a sequence; 0: the pool's Memory.MaxSeqs
	MaxWaiting int // most requests that wait for one; 0: 1024
	// Flush is how long the end of an answer waits at most until tiers have what it computed, so that another process finds it.
	Flush time.Duration
}

// Scheduler runs requests on one model and pool. Submit, Drain and Stats are safe for concurrent use.
type Scheduler[B backend.Buffer] struct {
	model    Model[B]
	pool     *kvcache.Pool[B]
	stream   backend.Stream
	opt      Options
	cfg      kvcache.Config // of the pool
	tiers    bool           // it has some
	measures measures
	wake     signal         // there is something for Run
	working  sync.WaitGroup // goroutines that wait for tiers

	mu      sync.Mutex
	inbox   []*request[B] // submitted, not in the queue yet
	refuses bool          // Submit does
	stats   Stats

	begun atomic.Bool // as what follows, Run's own
	ctx   context.Context
	queue []*request[B] // in order of arrival
	step  Step[B]
	ends  int // requests that ended, and one
}

// New makes a scheduler. It plans steps of the pool with batch on stream, which nobody else uses while Run runs; all of them stay the
// caller's and must outlive Run. Others may use the pool, too: a request that finds too few blocks because of them fails.
func New[B backend.Buffer](model Model[B], pool *kvcache.Pool[B], batch *kvcache.Batch[B], stream backend.Stream, opt Options) (*Scheduler[B], error) {
	if model == nil || pool == nil || batch == nil || stream == nil {
		return nil, argument("New", "the model, the pool, the batch or the stream is nil")
	}
	cfg := pool.Config()
	opt.MaxRunning = cmp.Or(opt.MaxRunning, cfg.Memory.MaxSeqs)
	opt.StepTokens = cmp.Or(opt.StepTokens, max(256, opt.MaxRunning))
	opt.MaxWaiting = cmp.Or(opt.MaxWaiting, 1024)
	if opt.MaxRunning < 1 || opt.MaxWaiting < 1 || opt.Flush < 0 || opt.StepTokens < opt.MaxRunning {
		return nil, argument("New", "%+v: need no negative number, and StepTokens of at least MaxRunning, since every running request has a token in a step", opt)
	}
	return &Scheduler[B]{
		model: model, pool: pool, stream: stream, opt: opt, cfg: cfg, tiers: len(pool.Tiers()) > 0,
		measures: measures{metrics.NewHistogram(1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192), seconds(), seconds(), seconds(), seconds(), seconds()},
		wake:     make(signal, 1), step: Step[B]{Batch: batch}, ends: 1,
	}, nil
}

func argument(op, format string, args ...any) error {
	return backend.ErrArgument{Package: "schedule", Op: op, What: fmt.Sprintf(format, args...)}
}

// Submit puts a request into the queue. When ctx ends, so does the request. It returns ErrQueueFull, ErrDraining, or
// kvcache.ErrCapacity for a prompt that no sequence holds.
func (s *Scheduler[B]) Submit(ctx context.Context, r Request) (*Answer, error) {
	switch {
	case len(r.Prompt) == 0 || r.MaxTokens < 0:
		return nil, argument("Submit", "%d tokens, and MaxTokens=%d: need at least one, such as BOS, and 0 or more", len(r.Prompt), r.MaxTokens)
	case len(r.Prompt) > s.cfg.Memory.Capacity:
		return nil, kvcache.ErrCapacity{Have: len(r.Prompt), Max: s.cfg.Memory.Capacity}
	}
	for _, span := range r.Open.Spans {
		if most := s.opt.StepTokens - s.opt.MaxRunning + 1; span.End-span.Begin > most {
			return nil, argument("Submit", "a span of %d tokens, which one step computes: beside those of others it has room for %d; raise Options.StepTokens", span.End-span.Begin, most)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if waiting := s.stats.Waiting + len(s.inbox); s.refuses || waiting >= s.opt.MaxWaiting {
		if s.stats.Refused++; s.refuses {
			return nil, ErrDraining
		}
		return nil, ErrQueueFull{waiting}
	}
	text := append(make([]uint32, 0, len(r.Prompt)+min(cmp.Or(r.MaxTokens, 256), 1024)), r.Prompt...) // most need no more
	r.Prompt = text[:len(text):len(text)]
	a := &Answer{more: make(signal, 1), done: make(chan struct{})}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	context.AfterFunc(a.ctx, s.wake.send)
	s.inbox = append(s.inbox, &request[B]{Request: r, answer: a, text: text, arrived: time.Now()})
	s.wake.send()
	return a, nil
}

// Drain has Submit refuse, and Run return once the requests that it has are answered: what a server does on SIGTERM.
func (s *Scheduler[B]) Drain() {
	s.mu.Lock()
	s.refuses = true
	s.mu.Unlock()
	s.wake.send()
}

// Run computes until Drain, and then returns nil once all requests are answered. When ctx ends it cancels them and returns the cause.
// Errors of the device, or of a pool or batch that is closed, are those of requests: Run goes on. A panic of the model is not caught.
func (s *Scheduler[B]) Run(ctx context.Context) error {
	if s.model == nil || !s.begun.CompareAndSwap(false, true) {
		return ErrRunning
	}
	s.ctx = ctx
	defer context.AfterFunc(ctx, s.Drain)()
	for {
		over := ctx.Err() != nil
		s.collect()
		for _, r := range s.queue {
			if over {
				r.answer.cancel(context.Cause(ctx))
			}
			if r.answer.ctx.Err() != nil && r.state != opening { // whose wait ends by itself
				s.end(r, Cancelled, context.Cause(r.answer.ctx))
			}
		}
		before := s.ends
		if !over {
			s.admit()
		}
		if s.collect() && len(s.queue) == 0 { // others see how requests stand during the step
			s.working.Wait()
			return context.Cause(ctx) // nil, unless it ends now
		}
		if over || !s.advance() && s.ends == before {
			<-s.wake
		}
	}
}

// collect takes what others have for Run, drops what has ended, and reports whether that was all: Submit refuses.
func (s *Scheduler[B]) collect() (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(slices.DeleteFunc(s.queue, func(r *request[B]) bool { return r.state == ended }), s.inbox...)
	s.inbox = nil
	var in [ended + 1]int
	for _, r := range s.queue {
		if r.state == opening && r.open.CompareAndSwap(true, false) {
			r.state = opened
		}
		in[r.state]++
	}
	s.stats.Running, s.stats.Suspended, s.stats.Loading = in[running], in[suspended], in[opening]
	s.stats.Waiting = in[waiting] + in[opening] + in[opened]
	return s.refuses
}

// end ends a request, and gives back what it has.
func (s *Scheduler[B]) end(r *request[B], reason Reason, err error) {
	_ = r.seq.Release() // its blocks come back in any case, and what is wrong with the device the next step finds
	r.seq, r.state, s.ends = nil, ended, s.ends+1
	r.report.Reason, r.report.Err = reason, err
	flush := s.opt.Flush > 0 && s.tiers && err == nil
	finish := func() {
		if flush {
			ctx, cancel := context.WithTimeout(s.ctx, s.opt.Flush)
			defer cancel()
			begin := time.Now()
			_ = s.pool.Flush(ctx) // a tier that is slow costs what the next process finds
			r.report.Flushed = time.Since(begin)
			s.measures.flushed.Observe(r.report.Flushed.Seconds())
		}
		s.measures.whole.Observe(time.Since(r.arrived).Seconds())
		s.count(func(st *Stats) { st.Ended[reason]++ })
		r.answer.show(r.text[len(r.Prompt):], r.report)
	}
	if flush {
		s.working.Go(finish)
	} else {
		finish()
	}
}
