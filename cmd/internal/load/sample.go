package load

import (
	"context"
	"time"
)

// Sample is what came of a request. Times are since the run began.
type Sample struct {
	Due, Start       time.Duration // when it should have been sent, and was
	First, Last, End time.Duration // when the first text came, when the last did or was said to have come, and the end
	Chunks           int           // pieces of text
	Gaps             []float32     // seconds between them
	Prompt, Output   int           // tokens by the server's account; 0: it gives none
	Cached           int           // of the prompt's, likewise; -1: it does not say
	Units, Shared    int           // words or tokens of the prompt, and those that an earlier one begins with too
	Kind             Kind          // why it failed; "": it did not
	Detail           string        // of the failure
}

// TTFT is the time from when the request was due to the first token. It counts what a busy sender adds: a server that
// holds up later requests by answering slowly would otherwise look better than to its users.
func (s *Sample) TTFT() float64 { return (s.First - s.Due).Seconds() }

// Latency is the time from when the request was due to the end of the answer.
func (s *Sample) Latency() float64 { return (s.End - s.Due).Seconds() }

// Late is by how much the request was sent too late.
func (s *Sample) Late() float64 { return (s.Start - s.Due).Seconds() }

// Tokens is how long the answer was: where the server does not count, its pieces.
func (s *Sample) Tokens() int {
	if s.Output > 0 {
		return s.Output
	}
	return s.Chunks
}

// TPOT is the time per output token after the first; ok is false where a single piece of text leaves no time to measure.
func (s *Sample) TPOT() (seconds float64, ok bool) {
	n := s.Tokens()
	if n < 2 || s.Chunks < 2 {
		return 0, false
	}
	return (s.Last - s.First).Seconds() / float64(n-1), true
}

// sample sends a request and waits for the end of its answer.
func (r *run) sample(ctx context.Context, q request, ready question) Sample {
	s := Sample{Due: q.due, Start: time.Since(r.begin), Units: q.units, Shared: q.shared, Cached: -1}
	limited, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	a, err := r.client.ask(limited, ready)
	s.End = time.Since(r.begin)
	if err != nil {
		failure := r.client.failure(err)
		if ctx.Err() != nil { // whatever it looks like, this is why
			failure = ErrRequest{Kind: Unfinished}
		}
		s.Kind, s.Detail = failure.Kind, failure.Detail
		return s
	}
	s.First, s.Last, s.End = a.first.Sub(r.begin), a.last.Sub(r.begin), a.end.Sub(r.begin)
	s.Chunks, s.Gaps = a.chunks, a.gaps
	s.Prompt, s.Output, s.Cached = a.usage.counts()
	return s
}
