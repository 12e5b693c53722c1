package planner

import (
	"math"
	"math/bits"
	"time"
)

const (
	decay = 0.7 // the weight that an observation keeps when another one comes
	// By how much slower or faster than expected an observation ends what was known: the tier is another one now.
	sudden    = 2
	recovered = 4
)

// estimate is what is known of a tier: took = latency + bytes / bandwidth, fitted to what was observed by least squares with
// exponentially decaying weights.
type estimate struct {
	n, x, y, xx, xy float64 // decayed sums; x is bytes, y seconds
	last            time.Time
}

// observe adds a load of so many bytes.
func (e *estimate) observe(bytes int64, took time.Duration, now time.Time) {
	x, y := float64(bytes), took.Seconds()
	if want := e.seconds(bytes); e.known() && (y > sudden*want || recovered*y < want) {
		*e = estimate{}
	}
	e.n = e.n*decay + 1
	e.x = e.x*decay + x
	e.y = e.y*decay + y
	e.xx = e.xx*decay + x*x
	e.xy = e.xy*decay + x*y
	e.last = now
}

func (e *estimate) known() bool { return e.n > 0 }

// single tells whether no more than one load is known.
func (e *estimate) single() bool { return e.n <= 1 }

// line is the latency in seconds and the seconds a byte. Where sizes were too alike to tell them apart, all is bandwidth: that is right
// for these sizes, and careful for larger ones.
func (e *estimate) line() (latency, perByte float64) {
	if e.x == 0 {
		return e.y / e.n, 0
	}
	spread := e.n*e.xx - e.x*e.x
	if spread < 1e-3*e.n*e.xx {
		return 0, e.y / e.x
	}
	perByte = min(max((e.n*e.xy-e.x*e.y)/spread, 0), e.y/e.x)
	return max((e.y-perByte*e.x)/e.n, 0), perByte
}

// seconds is what a load of so many bytes is expected to take; 0 when nothing is known.
func (e *estimate) seconds(bytes int64) float64 {
	if !e.known() {
		return 0
	}
	latency, perByte := e.line()
	return latency + perByte*float64(bytes)
}

// prefill is the seconds a token that the runner computed took, by the length of what was before it: attention makes later ones
// dearer. A class is the contexts from a power of two to the next, the last one all that are longer.
type prefill struct{ seconds, weight [40]float64 }

func class(context int) int {
	return min(bits.Len(uint(max(context, 0))), len(prefill{}.weight)-1)
}

// plus adds the tokens of a context and of what follows it, neither negative.
func plus(context, tokens int) int {
	if context > math.MaxInt-tokens {
		return math.MaxInt
	}
	return context + tokens
}

func (p *prefill) observe(context, tokens int, took time.Duration) {
	c := class(plus(context, tokens/2))
	p.seconds[c] = p.seconds[c]*decay + took.Seconds()
	p.weight[c] = p.weight[c]*decay + float64(tokens)
}

// perToken is that of the class of a context, or of the nearest one that is known; 0: none is.
func (p *prefill) perToken(context int) float64 {
	c := class(context)
	for d := range len(p.weight) {
		for _, i := range [2]int{c - d, c + d} {
			if i >= 0 && i < len(p.weight) && p.weight[i] > 0 {
				return p.seconds[i] / p.weight[i]
			}
		}
	}
	return 0
}
