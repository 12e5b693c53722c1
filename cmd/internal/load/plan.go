package load

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/ferrumkv/ferrumkv/cmd/internal/replay"
)

// unknownOutput is how many tokens are asked for where a trace does not say it.
const unknownOutput = 128

// farthest is when the last request may be due, in seconds: what a trace says beyond it is no time.
const farthest = 1e9

// Arrivals say when requests are due: at the trace's times, at random, Rate a second on average (a Poisson process), or when one
// of Concurrency callers has its answer. At most one of Rate and Concurrency is set.
type Arrivals struct {
	Speed       float64 // of the trace's time; 2 is twice as fast
	Rate        float64
	Concurrency int
}

// Workload says what of a trace is sent, and when.
type Workload struct {
	Arrivals
	Requests  int           // at most; 0: all
	Duration  time.Duration // no request begins later; 0: no end
	Scale     float64       // of the prompts' lengths
	MaxPrompt int           // tokens of a prompt, at most; 0: no bound
	MaxOutput int           // tokens of an answer, at most; 0: no bound
	Seed      uint64
}

// Plan is the requests of a run, in the order in which they are sent. The same trace, workload and dialect make the same plan.
type Plan struct {
	Workload
	prompts  prompts
	requests []request
	inFlight int // requests that are waited for at a time, at most
}

// request is one of a plan.
type request struct {
	due    time.Duration // since the run began; 0 for callers that wait for answers
	output int           // tokens to ask for, at least 1
	units  int           // words or tokens of the prompt
	shared int           // of these, in whole pieces that an earlier prompt has too
}

// NewPlan plans a run. The prompts are in a server's dialect.
func NewPlan(t *replay.Trace, w Workload, d Dialect) *Plan {
	p := &Plan{Workload: w, prompts: newPrompts(t, w, d), inFlight: cmp.Or(w.Concurrency, maxInFlight)}
	n := t.Requests()
	if w.Requests > 0 {
		n = min(n, w.Requests)
	}
	arrivals := rand.New(rand.NewPCG(w.Seed, arrivalStream))
	seen := map[uint32]bool{}
	due := 0.0
	for i := range n {
		switch {
		case w.Rate > 0:
			due += arrivals.ExpFloat64() / w.Rate
		case w.Concurrency == 0:
			due = (t.At(i) - t.At(0)) / w.Speed
		}
		due = min(due, farthest)
		if w.Duration > 0 && due >= w.Duration.Seconds() {
			break
		}
		r := request{due: time.Duration(due * float64(time.Second)), output: t.Output(i), units: p.prompts.units(i)}
		if r.output == 0 {
			r.output = unknownOutput
		}
		if w.MaxOutput > 0 {
			r.output = min(r.output, w.MaxOutput)
		}
		r.shared = p.prompts.shared(i, r.units, seen)
		p.requests = append(p.requests, r)
	}
	return p
}

// Requests is how many requests there are; a run of callers that wait for answers may end before the last.
func (p *Plan) Requests() int { return len(p.requests) }

// prompt is what a request sends: a text, or a list of tokens.
func (p *Plan) prompt(i int) any {
	units := p.requests[i].units
	if p.prompts.dialect.Vocabulary > 0 {
		return p.prompts.ids(i, units)
	}
	return p.prompts.text(i, units)
}
