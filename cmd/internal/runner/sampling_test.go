package runner

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/stretchr/testify/require"
)

// distribution is the probabilities with which s chooses after a text, filter by filter as they are defined.
func distribution(s Sampling, logits []float32, text []uint32) []float64 {
	l := make([]float64, len(logits))
	for i := range l {
		l[i] = float64(logits[i])
	}
	if s.RepeatPenalty != 0 {
		last := text
		if s.RepeatLast >= 0 {
			last = text[max(0, len(text)-s.RepeatLast):]
		}
		for i := range l {
			if slices.Contains(last, uint32(i)) {
				if l[i] > 0 {
					l[i] /= s.RepeatPenalty
				} else {
					l[i] *= s.RepeatPenalty
				}
			}
		}
	}
	kept := make([]int, len(l))
	for i := range kept {
		kept[i] = i
	}
	softmax := func(temperature float64) []float64 { // of those that are kept, in the order of kept
		p, total := make([]float64, len(kept)), 0.0
		for i, token := range kept {
			p[i] = math.Exp(l[token] / temperature)
			total += p[i]
		}
		for i := range p {
			p[i] /= total
		}
		return p
	}
	slices.SortStableFunc(kept, func(a, b int) int { return cmp.Compare(l[b], l[a]) })
	if s.TopK > 0 {
		kept = kept[:min(s.TopK, len(kept))]
	}
	if p := softmax(1); s.TopP > 0 && s.TopP < 1 {
		n, sum := 0, 0.0
		for sum < s.TopP && n < len(kept) {
			sum += p[n]
			n++
		}
		kept = kept[:n]
	}
	if p := softmax(1); s.MinP > 0 {
		n := 0
		for n < len(kept) && p[n] >= s.MinP*p[0] {
			n++
		}
		kept = kept[:n]
	}
	out := make([]float64, len(l))
	for i, p := range softmax(s.Temperature) {
		out[kept[i]] = p
	}
	return out
}

// Every filter, alone and with the others, leaves the distribution that its definition gives.
func TestSamplerAgainstDefinitions(t *testing.T) {
	const n = 20000
	logits := []float32{1.5, -0.5, 2, 0.25, -3, 1.1, 0, 1.75, -1}
	text := []uint32{7, 2, 2, 4, 0, 8}
	for i, s := range []Sampling{
		{Temperature: 1, TopK: 1}, {Temperature: 1, TopK: 3}, {Temperature: 2, TopK: 100}, {Temperature: 0.7, TopP: 0.7}, {Temperature: 3, TopP: 0.5},
		{Temperature: 1, MinP: 0.2}, {Temperature: 2.5, MinP: 0.6}, {Temperature: 1, MinP: 1}, {Temperature: 1, RepeatPenalty: 1.6, RepeatLast: -1},
		{Temperature: 1, RepeatPenalty: 1.6, RepeatLast: 3}, {Temperature: 1, RepeatPenalty: 1.6}, {Temperature: 1, RepeatPenalty: 0.5, RepeatLast: 100},
		{Temperature: 1.4, TopK: 5, TopP: 0.85, MinP: 0.3, RepeatPenalty: 1.3, RepeatLast: 64},
	} {
		s.Seed = uint64(i)
		sampler, err := NewSampler(s, 0)
		require.NoError(t, err)
		counts := make([]int, len(logits))
		for range n {
			counts[sampler.Sample(logits, text)]++
		}
		for token, p := range distribution(s, logits, text) {
			require.InDelta(t, n*p, counts[token], 5*math.Sqrt(n*p*(1-p)), "token %d of %+v", token, s)
		}
	}
	greedy, err := NewSampler(Sampling{RepeatPenalty: 2, RepeatLast: 64}, 0)
	require.NoError(t, err)
	require.EqualValues(t, 5, greedy.Sample(logits, text), "1.1: penalties count without a temperature, too")
	require.EqualValues(t, 2, logits[2], "the logits stay")
}

// emit ends one text of a batch, which is left where it said so; the others go on.
func TestEnough(t *testing.T) {
	for _, guesses := range []int{0, 8} {
		m, tok, _ := loadDemo(t)
		r := newRunner(t, openCPU(t), m, Options{Guesses: guesses})
		prompts := []Prompt{{Tokens: tok.Encode("Once upon a time")}, {Tokens: tok.Encode("The big dog")}}
		whole, texts := make([][]uint32, 2), make([][]uint32, 2)
		_, err := r.Generate(context.Background(), prompts, 40, Sampling{}, func(i int, token uint32) error {
			whole[i] = append(whole[i], token)
			return nil
		})
		require.NoError(t, err)
		_, err = r.GoOn(context.Background(), prompts, 40, Sampling{}, func(i int, token uint32) error {
			if texts[i] = append(texts[i], token); i == 1 && len(texts[1]) == 25 {
				return fmt.Errorf("a stop string: %w", ErrEnough)
			}
			return nil
		}, nil, func(i int, h Held[*cpu.Buffer]) error {
			require.Equal(t, len(prompts[i].Tokens)+len(texts[i])-1, h.Seq.Len())
			require.False(t, h.Over)
			return h.Seq.Release()
		})
		require.NoError(t, err)
		require.Equal(t, whole[0], texts[0])
		require.Equal(t, whole[1][:25], texts[1])
	}
}
