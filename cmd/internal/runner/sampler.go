package runner

import (
	"bytes"
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Sampling says how the next token is chosen. The zero value is greedy.
type Sampling struct {
	Temperature float64 // divides the logits; 0 takes the best one
	TopP        float64 // keeps the likeliest tokens that together reach this probability; 0 or 1: all
	Seed        uint64
}

// Sampler chooses tokens for one sequence. Its choices depend on the seed, the
// stream and the logits it sees, not on what else is in the batch.
type Sampler struct {
	Sampling
	rng   *rand.Rand
	state *rand.PCG
	order []candidate // scratch
}

type candidate struct {
	token  uint32
	weight float64
}

// NewSampler checks s; a kvcache.ErrConfig names the field that is out of range. Sequences of one seed draw from different streams.
func NewSampler(s Sampling, stream uint64) (_ *Sampler, err error) {
	defer caught(&err)
	accept(s.Temperature >= 0 && !math.IsInf(s.Temperature, 0), "Temperature", s.Temperature, "accepts finite numbers from 0")
	accept(s.TopP >= 0 && s.TopP <= 1, "TopP", s.TopP, "accepts 0 to 1")
	s.TopP = cmp.Or(s.TopP, 1)
	state := rand.NewPCG(s.Seed, stream)
	return &Sampler{Sampling: s, rng: rand.New(state), state: state}, nil
}

// State is what the choices to come depend on besides Sampling and logits.
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

// Sample chooses the token that follows, from its logits [vocab].
func (s *Sampler) Sample(logits []float32) uint32 {
	best := Greedy(logits)
	top := float64(logits[best])
	if s.Temperature == 0 || math.IsInf(top, 0) || top != top {
		return best
	}
	s.order = s.order[:0]
	total := 0.0
	for i, l := range logits {
		if w := math.Exp((float64(l) - top) / s.Temperature); w > 0 { // neither underflow nor NaN
			s.order = append(s.order, candidate{uint32(i), w})
			total += w
		}
	}
	if s.TopP < 1 {
		slices.SortStableFunc(s.order, func(a, b candidate) int { return cmp.Compare(b.weight, a.weight) })
		goal, kept := s.TopP*total, 0
		for total = 0; total < goal && kept < len(s.order); kept++ {
			total += s.order[kept].weight
		}
		s.order = s.order[:max(kept, 1)]
	}
	at := s.rng.Float64() * total
	for _, c := range s.order {
		if at -= c.weight; at < 0 {
			return c.token
		}
	}
	return s.order[len(s.order)-1].token // rounding left a remainder
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
