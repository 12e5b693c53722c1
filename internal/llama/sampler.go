package llama

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"

	"github.com/ferrumkv/ferrumkv/backend"
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
	order []candidateToken // scratch
}

type candidateToken struct {
	token  uint32
	weight float64
}

// NewSampler checks s; an ErrShape says what is out of range. Sequences of one seed draw from different streams.
func NewSampler(s Sampling, stream uint64) (*Sampler, error) {
	if !(s.Temperature >= 0) || math.IsInf(s.Temperature, 0) {
		return nil, backend.ErrShape{Op: "sampling", What: fmt.Sprintf("temperature: have %v, need a finite number from 0", s.Temperature)}
	}
	if !(s.TopP >= 0 && s.TopP <= 1) {
		return nil, backend.ErrShape{Op: "sampling", What: fmt.Sprintf("top-p: have %v, need 0 to 1", s.TopP)}
	}
	if s.TopP == 0 {
		s.TopP = 1
	}
	return &Sampler{Sampling: s, rng: rand.New(rand.NewPCG(s.Seed, stream))}, nil
}

// Greedy is the first token with the largest logit; NaN is never the largest.
func Greedy(logits []float32) uint32 {
	best := 0
	for i, l := range logits {
		if l > logits[best] || logits[best] != logits[best] && l == l {
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
		w := math.Exp((float64(l) - top) / s.Temperature)
		if w > 0 { // neither underflow nor NaN
			s.order = append(s.order, candidateToken{uint32(i), w})
			total += w
		}
	}
	if s.TopP < 1 {
		sort.SliceStable(s.order, func(i, j int) bool { return s.order[i].weight > s.order[j].weight })
		kept := 0.0
		for i, c := range s.order {
			if kept += c.weight; kept >= s.TopP*total {
				s.order, total = s.order[:i+1], kept
				break
			}
		}
	}
	at := s.rng.Float64() * total
	for _, c := range s.order {
		if at -= c.weight; at < 0 {
			return c.token
		}
	}
	return s.order[len(s.order)-1].token // rounding left a remainder
}
