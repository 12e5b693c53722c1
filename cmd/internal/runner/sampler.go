package runner

import (
	"bytes"
	"cmp"
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Sampling says how the next token is chosen. The zero value is greedy. What is set applies in the order of the fields, which is that of
// llama.cpp's default chain: each looks at what those before it left.
type Sampling struct {
	// The logits of tokens that are among the last RepeatLast of the text (negative: all of it) are divided by RepeatPenalty where they are
	// positive, and multiplied where they are not; 0 or 1: none is.
	RepeatPenalty float64 `json:"repeat_penalty,omitempty"`
	RepeatLast    int     `json:"repeat_last_n,omitempty"`
	TopK          int     `json:"top_k,omitempty"` // keeps as many of the likeliest tokens; 0: all
	TopP          float64 `json:"top_p"`           // keeps the likeliest tokens that together reach this probability; 0 or 1: all
	MinP          float64 `json:"min_p,omitempty"` // keeps tokens with at least this part of the probability of the likeliest one
	Temperature   float64 `json:"temperature"`     // divides the logits; 0 takes the best one
	Seed          uint64  `json:"-"`
}

// Sampler chooses tokens for one sequence. Its choices depend on the seed, the
// stream, the logits and the text that it sees, not on what else is in the batch.
type Sampler struct {
	Sampling
	rng       *rand.Rand
	state     *rand.PCG
	order     []candidate // scratch
	penalized []float32   // scratch
}

type candidate struct {
	token uint32
	logit float64 // less that of the likeliest one
}

// NewSampler checks s; a kvcache.ErrConfig names the field that is out of range. Sequences of one seed draw from different streams.
func NewSampler(s Sampling, stream uint64) (_ *Sampler, err error) {
	defer caught(&err)
	accept(s.Temperature >= 0 && !math.IsInf(s.Temperature, 0), "Temperature", s.Temperature, "accepts finite numbers from 0")
	accept(s.TopK >= 0, "TopK", s.TopK, "accepts a number of tokens, or 0 for all")
	accept(s.TopP >= 0 && s.TopP <= 1, "TopP", s.TopP, "accepts 0 to 1")
	accept(s.MinP >= 0 && s.MinP <= 1, "MinP", s.MinP, "accepts 0 to 1")
	accept(s.RepeatPenalty >= 0 && !math.IsInf(s.RepeatPenalty, 0), "RepeatPenalty", s.RepeatPenalty, "accepts finite numbers from 0; 1 is none")
	s.TopP, s.RepeatPenalty = cmp.Or(s.TopP, 1), cmp.Or(s.RepeatPenalty, 1)
	state := rand.NewPCG(s.Seed, stream)
	return &Sampler{Sampling: s, rng: rand.New(state), state: state}, nil
}

// State is what the choices to come depend on besides Sampling, logits and text.
func (s *Sampler) State() []byte {
	b, _ := s.state.MarshalBinary() // never fails
	return b
}

// Restore has the sampler go on where another one had a state.
func (s *Sampler) Restore(state []byte) error { return s.state.UnmarshalBinary(state) }

// Greedy is the first token with the largest logit; NaN is never the largest.
func Greedy(logits []float32) uint32 {
	best := 0
	for i, l := range logits {
		if cmp.Less(logits[best], l) {
			best = i
		}
	}
	return uint32(best)
}

// Sample chooses the token that follows a text, from its logits [vocab].
func (s *Sampler) Sample(logits []float32, text []uint32) uint32 {
	logits = s.penalize(logits, text)
	best := Greedy(logits)
	top := float64(logits[best])
	if s.Temperature == 0 || math.IsInf(top, 0) || top != top {
		return best
	}
	s.order = s.order[:0]
	for i, l := range logits {
		if l := float64(l) - top; l > math.Inf(-1) { // nor NaN
			s.order = append(s.order, candidate{uint32(i), l})
		}
	}
	s.filter()
	weight := func(c candidate) float64 { return math.Exp(c.logit / s.Temperature) }
	total := 0.0
	for _, c := range s.order {
		total += weight(c)
	}
	at, last := s.rng.Float64()*total, best
	for _, c := range s.order {
		w := weight(c)
		if at -= w; at < 0 {
			return c.token
		}
		if w > 0 {
			last = c.token
		}
	}
	return last // rounding left a remainder
}

// penalize is the logits with those of tokens that the text has lately made worse.
func (s *Sampler) penalize(logits []float32, text []uint32) []float32 {
	if s.RepeatLast >= 0 {
		text = text[max(len(text)-s.RepeatLast, 0):]
	}
	if s.RepeatPenalty == 1 || len(text) == 0 {
		return logits
	}
	s.penalized = append(s.penalized[:0], logits...)
	for _, token := range text {
		if l := float64(logits[token]); l <= 0 {
			s.penalized[token] = float32(l * s.RepeatPenalty)
		} else {
			s.penalized[token] = float32(l / s.RepeatPenalty)
		}
	}
	return s.penalized
}

// filter leaves the candidates that top-k, top-p and min-p keep: at least the likeliest one.
func (s *Sampler) filter() {
	if s.TopK > 0 {
		kept := 0
		s.best(func(candidate) bool {
			kept++
			return kept == s.TopK
		})
	}
	if s.TopP < 1 {
		total := 0.0
		for _, c := range s.order {
			total += math.Exp(c.logit)
		}
		goal := s.TopP * total
		total = 0
		s.best(func(c candidate) bool {
			total += math.Exp(c.logit)
			return total >= goal
		})
	}
	if least := math.Log(s.MinP); s.MinP > 0 {
		s.order = slices.DeleteFunc(s.order, func(c candidate) bool { return c.logit < least })
	}
}

// best leaves the likeliest candidates up to the first that is enough, in their order: the first token of several that are equally likely. Few of a
// vocabulary are left as a rule, so the others are not sorted.
func (s *Sampler) best(enough func(candidate) bool) {
	rest := byLogit(s.order)
	heap.Init(&rest)
	for len(rest) > 0 {
		heap.Pop(&rest) // puts it after the rest
		if enough(s.order[len(rest)]) {
			break
		}
	}
	slices.Reverse(s.order[len(rest):])
	s.order = s.order[:copy(s.order, s.order[len(rest):])]
}

// byLogit is a heap (see container/heap) of candidates, the likeliest one first.
type byLogit []candidate

func (h byLogit) Len() int { return len(h) }
func (h byLogit) Less(i, j int) bool {
	return h[i].logit > h[j].logit || h[i].logit == h[j].logit && h[i].token < h[j].token
}
func (h byLogit) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *byLogit) Push(any)     { panic("runner: candidates are not added") }
func (h *byLogit) Pop() any {
	*h = (*h)[:len(*h)-1]
	return nil
}

// Prompt is a text to continue.
type Prompt struct {
	Tokens []uint32
	// Salt separates tenants: what prompts of one salt compute is not reused for those of another. nil is a salt of its own.
	Salt []byte
}

func (p Prompt) options() kvcache.OpenOptions {
	return kvcache.OpenOptions{Scope: prefix.Scope{Salt: p.Salt}}
}

// common is the number of tokens with which both prompts begin and that they may share.
func (p Prompt) common(o Prompt) (n int) {
	if (p.Salt == nil) != (o.Salt == nil) || !bytes.Equal(p.Salt, o.Salt) {
		return 0
	}
	for n < min(len(p.Tokens), len(o.Tokens)) && p.Tokens[n] == o.Tokens[n] {
		n++
	}
	return n
}

func (p Prompt) equal(o Prompt) bool {
	return len(p.Tokens) == len(o.Tokens) && p.common(o) == len(p.Tokens)
}
