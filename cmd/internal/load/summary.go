package load

import (
	"cmp"
	"slices"
)

// Failures are the requests that failed in one way.
type Failures struct {
	Kind    Kind   `json:"kind"`
	Count   int    `json:"count"`
	Example string `json:"example,omitempty"` // the detail of the first that has one
}

// Summary is what samples say together. Rates are by the second of the whole run.
type Summary struct {
	Sent, Succeeded, Failed, Unfinished int // requests
	Failures                            []Failures

	PromptTokens, OutputTokens int
	CountedByServer            bool // output tokens; otherwise one is counted for each piece of text, of some requests at least
	CachedTokens               int
	HitRate                    float64 // of the prompts' tokens
	HitRateKnown               bool    // the server says it
	PossibleHitRate            float64 // of a cache that begins empty and keeps every prompt from when it was sent, in whole blocks of the trace

	Throughput, OutputRate, PromptRate float64
	Goodput, GoodputShare              float64 // the share is of requests that ended

	TTFT, TPOT, Gap, Latency Quantiles // of requests that succeeded, in seconds
	Late                     Quantiles // of all that were sent, likewise
}

// Summarize counts.
func Summarize(r Result, o Objective) Summary {
	s := Summary{Sent: len(r.Samples), CountedByServer: true}
	failures := map[Kind]*Failures{}
	var ttft, tpot, gaps, latency, late []float64
	met, units, shared := 0, 0, 0
	for i := range r.Samples {
		x := &r.Samples[i]
		late = append(late, x.Late())
		if x.Kind != "" {
			s.fail(x, failures)
			continue
		}
		s.Succeeded++
		s.PromptTokens += x.Prompt
		s.OutputTokens += x.Tokens()
		s.CountedByServer = s.CountedByServer && (x.Output > 0 || x.Chunks == 0)
		s.CachedTokens += max(x.Cached, 0)
		s.HitRateKnown = s.HitRateKnown || x.Cached >= 0
		units, shared = units+x.Units, shared+x.Shared
		ttft, latency = append(ttft, x.TTFT()), append(latency, x.Latency())
		if seconds, ok := x.TPOT(); ok {
			tpot = append(tpot, seconds)
		}
		for _, g := range x.Gaps {
			gaps = append(gaps, float64(g))
		}
		if o.met(x) {
			met++
		}
	}
	for _, f := range failures {
		s.Failures = append(s.Failures, *f)
	}
	slices.SortFunc(s.Failures, func(a, b Failures) int { return cmp.Or(b.Count-a.Count, cmp.Compare(a.Kind, b.Kind)) })
	// Servers such as vLLM say nothing of a prompt of which nothing was cached, so that all count once one says something.
	s.HitRate, s.PossibleHitRate = share(s.CachedTokens, s.PromptTokens), share(shared, units)
	s.GoodputShare = share(met, s.Succeeded+s.Failed)
	if seconds := r.Elapsed.Seconds(); seconds > 0 {
		s.Throughput, s.Goodput = float64(s.Succeeded)/seconds, float64(met)/seconds
		s.OutputRate, s.PromptRate = float64(s.OutputTokens)/seconds, float64(s.PromptTokens)/seconds
	}
	s.TTFT, s.TPOT, s.Gap, s.Latency, s.Late = quantilesOf(ttft), quantilesOf(tpot), quantilesOf(gaps), quantilesOf(latency), quantilesOf(late)
	return s
}

func (s *Summary) fail(x *Sample, failures map[Kind]*Failures) {
	if x.Kind == Unfinished {
		s.Unfinished++
		return
	}
	s.Failed++
	f := failures[x.Kind]
	if f == nil {
		f = &Failures{Kind: x.Kind}
		failures[x.Kind] = f
	}
	f.Count++
	f.Example = cmp.Or(f.Example, x.Detail)
}

// share is a part of all, 0 of none.
func share(part, all int) float64 {
	if all == 0 {
		return 0
	}
	return float64(part) / float64(all)
}
