// Package load sends the requests of a trace to a server with OpenAI's HTTP interface, and measures what it does: time to the
// first token, time per token, hit rate of its prefix cache, errors.
//
// A [Client] is the server, a [Plan] what is sent and when, and [Run] sends it. What came of each request is a [Sample], and a
// [Summary] is what these say together.
package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// maxInFlight is how many requests are waited for at a time, where no number of callers says it: a server that does not
// answer must not take all of this machine's memory and ports. A request beyond it waits here, and the time counts.
const maxInFlight = 4096

// watchEvery is how often progress is shown.
const watchEvery = 200 * time.Millisecond

// Progress is how far a run is.
type Progress struct {
	Elapsed               time.Duration
	Running, Done, Failed int // requests; those that failed are done, too
}

// Result is what came of a run.
type Result struct {
	Samples []Sample // in the order of the plan; requests that were not sent have none
	Began   time.Time
	Elapsed time.Duration
}

// Run sends the requests of a plan and waits for their answers, each at most for timeout. It returns early, with what was
// measured, if ctx ends; requests that had no whole answer by then are [Unfinished].
func Run(ctx context.Context, c *Client, p *Plan, timeout time.Duration, watch func(Progress)) Result {
	r := run{client: c, plan: p, timeout: timeout, begin: time.Now(), ended: make(chan numbered)}
	go r.send(ctx)
	samples := make(map[int]Sample, len(p.requests))
	failed := 0
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case s, more := <-r.ended:
			if !more {
				return r.result(samples)
			}
			samples[s.number] = s.Sample
			if s.Kind != "" {
				failed++
			}
		case <-tick.C:
		}
		watch(Progress{time.Since(r.begin), int(r.running.Load()), len(samples), failed})
	}
}

// run is one that goes on.
type run struct {
	client  *Client
	plan    *Plan
	timeout time.Duration
	begin   time.Time
	running atomic.Int64
	ended   chan numbered
}

// numbered is what came of a request, by its number in the plan.
type numbered struct {
	number int
	Sample
}

func (r *run) result(samples map[int]Sample) Result {
	out := Result{Began: r.begin, Elapsed: time.Since(r.begin)}
	for i := range r.plan.requests {
		if s, sent := samples[i]; sent {
			out.Samples = append(out.Samples, s)
		}
	}
	return out
}

// send sends each request when it is due, and ends when all have ended.
func (r *run) send(ctx context.Context) {
	var senders sync.WaitGroup
	defer close(r.ended)
	defer senders.Wait()
	slots := make(chan struct{}, r.plan.inFlight)
	for i, q := range r.plan.requests {
		ready, err := r.client.question(r.plan.prompts.dialect, r.plan.prompt(i), q.output) // before it is due
		if err != nil || !r.wait(ctx, q.due) {
			return
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		if r.plan.Concurrency > 0 {
			q.due = time.Since(r.begin)
			if r.plan.Duration > 0 && q.due >= r.plan.Duration {
				return
			}
		}
		r.running.Add(1)
		senders.Go(func() {
			s := r.sample(ctx, q, ready)
			r.running.Add(-1)
			<-slots
			r.ended <- numbered{i, s}
		})
	}
}

// wait waits until a time since the run began; false: the run ends before it.
func (r *run) wait(ctx context.Context, due time.Duration) bool {
	timer := time.NewTimer(due - time.Since(r.begin))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
