package runner

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestGreedy(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		logits []float32
		want   uint32
	}{
		{[]float32{1, 3, 3, 2}, 1}, {[]float32{-inf, -inf}, 0}, {[]float32{nan, -5, nan, -4}, 3},
		{[]float32{nan, nan}, 0}, {[]float32{0, inf, inf}, 1}, {[]float32{7}, 0},
	} {
		require.Equal(t, c.want, Greedy(c.logits), "%v", c.logits)
		for _, s := range []Sampling{{}, {TopP: 0.5}} {
			sampler, err := NewSampler(s, 0)
			require.NoError(t, err)
			require.Equal(t, c.want, sampler.Sample(c.logits, nil))
		}
	}
}

func TestSamplingParameters(t *testing.T) {
	for _, s := range []Sampling{
		{Temperature: -1}, {Temperature: math.NaN()}, {Temperature: math.Inf(1)}, {TopP: -0.1}, {TopP: 1.1}, {TopP: math.NaN()}, {TopK: -1},
		{MinP: -0.1}, {MinP: 1.1}, {MinP: math.NaN()}, {RepeatPenalty: -1}, {RepeatPenalty: math.NaN()}, {RepeatPenalty: math.Inf(1)},
	} {
		_, err := NewSampler(s, 0)
		require.ErrorIs(t, err, kvcache.ErrConfig{}, "%+v", s)
	}
}

func draws(t require.TestingT, s Sampling, stream uint64, logits []float32, n int) []uint32 {
	sampler, err := NewSampler(s, stream)
	require.NoError(t, err)
	out := make([]uint32, n)
	for i := range out {
		out[i] = sampler.Sample(logits, nil)
	}
	return out
}

func TestSamplerIsSeeded(t *testing.T) {
	logits := []float32{1, 2, 3, 2, 1}
	s := Sampling{Temperature: 1, Seed: 7}
	require.Equal(t, draws(t, s, 0, logits, 100), draws(t, s, 0, logits, 100))
	require.NotEqual(t, draws(t, s, 0, logits, 100), draws(t, s, 1, logits, 100), "sequences draw differently")
	s.Seed = 8
	require.NotEqual(t, draws(t, s, 0, logits, 100), draws(t, Sampling{Temperature: 1, Seed: 7}, 0, logits, 100))
}

func TestSamplerFollowsTheDistribution(t *testing.T) {
	const n = 20000
	p := []float64{0.5, 0.1, 0.25, 0.15}
	logits := make([]float32, len(p))
	for _, temperature := range []float64{0.5, 1, 2} {
		total := 0.0
		for i := range p {
			logits[i] = float32(math.Log(p[i]))
			total += math.Pow(p[i], 1/temperature)
		}
		counts := make([]int, len(p))
		for _, token := range draws(t, Sampling{Temperature: temperature, Seed: 1}, 0, logits, n) {
			counts[token]++
		}
		for i := range p {
			want := math.Pow(p[i], 1/temperature) / total
			sigma := math.Sqrt(n * want * (1 - want))
			require.InDelta(t, n*want, counts[i], 5*sigma, "token %d at temperature %v", i, temperature)
		}
	}
	for _, c := range []struct {
		topP float64
		kept []uint32
	}{{1e-9, []uint32{0}}, {0.49, []uint32{0}}, {0.6, []uint32{0, 2}}, {0.8, []uint32{0, 2, 3}}, {1, []uint32{0, 1, 2, 3}}} {
		seen := map[uint32]bool{}
		for i := range p {
			logits[i] = float32(math.Log(p[i]))
		}
		for _, token := range draws(t, Sampling{Temperature: 1, TopP: c.topP, Seed: 3}, 0, logits, 500) {
			seen[token] = true
		}
		require.Len(t, seen, len(c.kept), "top-p %v", c.topP)
		for _, token := range c.kept {
			require.True(t, seen[token])
		}
	}
}

// Any logits, also infinite ones and NaN, give a token of the vocabulary.
func TestSamplerStaysInTheVocabulary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := rapid.SliceOfN(rapid.OneOf(rapid.Float32(), rapid.Just(float32(math.NaN()))), 1, 20).Draw(t, "logits")
		s := Sampling{Temperature: rapid.Float64Range(0, 1e30).Draw(t, "temperature"), TopP: rapid.Float64Range(0, 1).Draw(t, "top-p")}
		for _, token := range draws(t, s, 0, logits, 3) {
			require.Less(t, int(token), len(logits))
			if best := logits[Greedy(logits)]; best == best {
				require.False(t, math.IsNaN(float64(logits[token])), "a logit that is NaN was chosen")
			}
		}
	})
}

// What is left of the candidates has the order of a stable sort of all of them, with ties inside and at the end, whatever is kept.
func TestFilterIsThatOfAStableSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		order := make([]candidate, rapid.IntRange(1, 300).Draw(t, "candidates"))
		different := rapid.IntRange(1, 40).Draw(t, "different")
		for i := range order {
			order[i] = candidate{uint32(i), -float64(rapid.IntRange(0, different-1).Draw(t, "logit")) / 8}
		}
		s := Sampler{Sampling: Sampling{TopK: rapid.IntRange(0, 310).Draw(t, "k"), TopP: rapid.Float64Range(0.01, 1).Draw(t, "p")}, order: slices.Clone(order)}
		s.filter()
		total := func() (sum float64) {
			for _, c := range order {
				sum += math.Exp(c.logit)
			}
			return sum
		}
		sorted := func() {
			slices.SortStableFunc(order, func(a, b candidate) int { return cmp.Compare(b.logit, a.logit) })
		}
		if s.TopK > 0 {
			sorted()
			order = order[:min(s.TopK, len(order))]
		}
		if s.TopP < 1 {
			goal, sum, kept := s.TopP*total(), 0.0, 0
			sorted()
			for ; sum < goal && kept < len(order); kept++ {
				sum += math.Exp(order[kept].logit)
			}
			order = order[:kept]
		}
		require.Equal(t, order, s.order)
	})
}

// BenchmarkSample is one token of a vocabulary such as Qwen's.
func BenchmarkSample(b *testing.B) {
	logits := make([]float32, 152_000)
	for i := range logits {
		logits[i] = float32(math.Sin(float64(i)*1e3)) * 12
	}
	for name, s := range map[string]Sampling{"k=40": {Temperature: 1, TopK: 40}, "p=0.9": {Temperature: 1, TopP: 0.9}, "all": {Temperature: 1}} {
		b.Run(name, func(b *testing.B) {
			sampler, err := NewSampler(s, 0)
			require.NoError(b, err)
			for range b.N {
				sampler.Sample(logits, nil)
			}
		})
	}
}
