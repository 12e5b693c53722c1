package schedule

import "github.com/ferrumkv/ferrumkv/kvcache/metrics"

// Stats are the numbers of a scheduler: those of requests that have a state now, and what only grows.
type Stats struct {
	Running   int // computed in steps
	Waiting   int // for their turn, for blocks, or for one of the next two
	Loading   int // until tiers have brought what they know
	Suspended int // gave way to others

	Ended     [numReasons]int64 // requests, by Reason
	Refused   int64             // calls of Submit, for a full queue or while draining
	Preempted int64             // times that a request gave way to others
	Prompt    int64             // tokens of prompts whose answers have begun
	Cached    int64             // of those, tokens that were found
	Computed  int64             // tokens of prompts in steps
	Generated int64             // tokens of answers

	StepTokens    metrics.Distribution // tokens of each step
	Queued        metrics.Distribution // seconds from Submit to the first step
	FirstToken    metrics.Distribution // seconds from Submit to the first token
	BetweenTokens metrics.Distribution // seconds from one token to the next
	Whole         metrics.Distribution // seconds from Submit to the end
	Flushed       metrics.Distribution // seconds that an end waited for tiers
}

// measures are the histograms of a scheduler.
type measures struct {
	stepTokens, queued, firstToken, betweenTokens, whole, flushed *metrics.Histogram
}

func seconds() *metrics.Histogram {
	return metrics.NewHistogram(.0005, .001, .0025, .005, .01, .025, .05, .075, .1, .15, .2, .3, .5, .75, 1, 1.5, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560)
}

// Stats returns the scheduler's numbers.
func (s *Scheduler[B]) Stats() Stats {
	s.mu.Lock()
	stats, m := s.stats, &s.measures
	stats.Waiting += len(s.inbox)
	s.mu.Unlock()
	stats.StepTokens, stats.Queued, stats.FirstToken = m.stepTokens.Snapshot(), m.queued.Snapshot(), m.firstToken.Snapshot()
	stats.BetweenTokens, stats.Whole, stats.Flushed = m.betweenTokens.Snapshot(), m.whole.Snapshot(), m.flushed.Snapshot()
	return stats
}

func (s *Scheduler[B]) count(change func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.stats)
}
