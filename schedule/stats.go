package schedule

import (
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/metrics"
)

// Stats are the numbers of a scheduler. Those of requests that have a state now come first; the others only grow.
type Stats struct {
	Running   int // computed in steps
	Waiting   int // for their turn, for blocks, or for tiers
	Held      int // of these, those whose beginning another request is computing
	Suspended int // gave way to others

	Ended     [numReasons]int64 // requests, by Reason
	Refused   int64             // calls of Submit, for a full queue or while draining
	Preempted int64             // suspensions, and requests that are computed again for lack of host memory
	Steps     int64
	Prompt    int64 // tokens of the prompts of requests that ended
	Cached    int64 // of those, tokens that were found
	Computed  int64 // tokens of prompts that steps computed
	Generated int64 // tokens of answers

	StepTokens    metrics.Distribution // tokens of each step
	Queued        metrics.Distribution // seconds from Submit to the first step
	Prefill       metrics.Distribution // seconds from there to the first token
	Decode        metrics.Distribution // seconds from there to the last token
	FirstToken    metrics.Distribution // seconds from Submit to the first token
	BetweenTokens metrics.Distribution // seconds from one token to the next
	Whole         metrics.Distribution // seconds from Submit to the end
	Flushed       metrics.Distribution // seconds that an end waited for tiers
}

// measures are the histograms of a scheduler.
type measures struct {
	stepTokens, queued, prefill, decode, firstToken, betweenTokens, whole, flushed *metrics.Histogram
}

func newMeasures() measures {
	seconds := func() *metrics.Histogram {
		return metrics.NewHistogram(.0005, .001, .0025, .005, .01, .025, .05, .075, .1, .15, .2, .3, .5, .75, 1, 1.5, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560)
	}
	return measures{
		stepTokens: metrics.NewHistogram(1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384),
		queued:     seconds(), prefill: seconds(), decode: seconds(), firstToken: seconds(), betweenTokens: seconds(), whole: seconds(), flushed: seconds(),
	}
}

// Stats returns the scheduler's numbers.
func (s *Scheduler[B]) Stats() Stats {
	s.mu.Lock()
	stats := s.stats
	stats.Waiting += len(s.inbox)
	s.mu.Unlock()
	m := &s.measures
	stats.StepTokens, stats.Queued, stats.Prefill, stats.Decode = m.stepTokens.Snapshot(), m.queued.Snapshot(), m.prefill.Snapshot(), m.decode.Snapshot()
	stats.FirstToken, stats.BetweenTokens = m.firstToken.Snapshot(), m.betweenTokens.Snapshot()
	stats.Whole, stats.Flushed = m.whole.Snapshot(), m.flushed.Snapshot()
	return stats
}

// survey counts the queue. The caller holds the lock.
func (s *Scheduler[B]) survey() {
	st := &s.stats
	st.Running, st.Waiting, st.Held, st.Suspended = 0, 0, 0, 0
	for _, r := range s.queue {
		switch r.state {
		case running:
			st.Running++
		case suspended:
			st.Suspended++
		case ended:
		default:
			st.Waiting++
			if r.state == waiting && r.held {
				st.Held++
			}
		}
	}
}

// counted counts a request that has ended.
func (s *Scheduler[B]) counted(r *request[B]) {
	m, report := &s.measures, &r.report
	m.whole.Observe(time.Since(r.arrived).Seconds())
	if !r.begun.IsZero() {
		m.queued.Observe(report.Queued.Seconds())
	}
	if r.generated() > 0 {
		m.prefill.Observe(report.Prefill.Seconds())
		m.decode.Observe(report.Decode.Seconds())
	}
	if report.Flushed > 0 {
		m.flushed.Observe(report.Flushed.Seconds())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Ended[report.Reason]++
	s.stats.Prompt += int64(len(r.Prompt))
	s.stats.Cached += int64(report.Match.Cached)
}
