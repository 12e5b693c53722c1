package quality

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	_ "github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/internal/testutil/external"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	modeldata "github.com/ferrumkv/ferrumkv/testdata/model"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type anyBackend = backend.Backend[backend.AnyBuffer]

func openCPU(t testing.TB) anyBackend {
	be, err := backend.Open("cpu")
	require.NoError(t, err)
	t.Cleanup(func() {
		require.Zero(t, be.Info().Buffers, "buffers that were not freed")
		require.NoError(t, be.Close())
	})
	return be
}

// stories260K is the model that reference points were published for, with its texts.
func stories260K(t testing.TB) *Meter[backend.AnyBuffer] {
	m, tok, err := runner.Load(external.Path(t, "model", "stories260K.bin"), external.Path(t, "model", "tok512.bin"), nil)
	require.NoError(t, err)
	text, err := os.ReadFile(external.Path(t, "text", "tinystories_sample.txt"))
	require.NoError(t, err)
	texts, err := Texts(string(text), m, tok)
	require.NoError(t, err)
	return NewMeter(openCPU(t), m, texts, 0)
}

func measure(t testing.TB, m *Meter[backend.AnyBuffer], format string, policy Policy) Score {
	f, err := ParseFormat(format)
	require.NoError(t, err)
	s, err := m.Measure(context.Background(), f, policy)
	require.NoError(t, err, "%s under %s", format, policy.Name)
	require.Equal(t, m.Tokens(), s.Tokens)
	require.Equal(t, []any{format, policy.Name, policy.Budget}, []any{s.Format, s.Policy, s.Budget})
	t.Logf("%-13s %-9s nll %.5f kl %.5f top1 %.4f bytes %d", format, policy.Name, s.NLL, s.KL, s.Top1, s.Bytes)
	return s
}

func everything() Policy { return Policies()[0] }

// What other code measured on stories260K, with keys and values rounded after RoPE.
func TestReferencePoints(t *testing.T) {
	if race.Enabled {
		t.Skip("the numbers are of all texts, which take minutes under the race detector")
	}
	m := stories260K(t)
	f32 := measure(t, m, "f32", everything())
	require.Equal(t, 1804, f32.Tokens)
	require.InDelta(t, 1.2664, f32.NLL, 5e-4)
	require.Zero(t, f32.KL)
	require.Equal(t, 1., f32.Top1)
	require.InDelta(t, 1.2665, measure(t, m, "f16", everything()).NLL, 5e-4)
	require.InDelta(t, 1.2670, measure(t, m, "int8", everything()).NLL, 1e-3)
	int4 := measure(t, m, "int4", everything())
	require.Less(t, int4.NLL, 2.2048-0.4, "int4 with one scale for a token and head, symmetric")
	kivi := measure(t, m, "kivi4", everything())
	require.InDelta(t, f32.NLL, kivi.NLL, 0.05, "the aim for 4 bits")
	require.Less(t, kivi.KL, int4.KL/100)
	require.Less(t, kivi.Bytes, f32.Bytes*2/5)
}

// Less room costs more, none is exceeded, and one with room for all costs nothing.
func TestBudgets(t *testing.T) {
	m := stories260K(t)
	m.texts = m.texts[:2]
	if race.Enabled {
		m.texts = [][]uint32{m.texts[0][:96]}
	}
	perToken := int64(2 * 5 * 4 * 8 * 4) // layers, heads, dim, f32
	for _, p := range Policies()[1:] {
		t.Run(p.Name, func(t *testing.T) {
			all := measure(t, m, "f32", p.Under(800)) // pyramidkv: half of that in the last layer
			require.Less(t, all.KL, 1e-6)
			require.Equal(t, 1., all.Top1)
			if race.Enabled {
				return
			}
			half, few := measure(t, m, "f32", p.Under(128)), measure(t, m, "f32", p.Under(32))
			require.Greater(t, few.KL, half.KL)
			require.Greater(t, few.NLL, half.NLL)
			// Blocks of 16: up to one that is not full in each layer, and one while they move.
			// Scores take 4 bytes a token, head and layer.
			require.LessOrEqual(t, few.Bytes, (32+16)*(perToken+4*5*4))
			require.Less(t, few.Bytes, half.Bytes)
		})
	}
}

// A quantized cache can be evicted from, too; one with a window of exact tokens by policies
// that need no scores.
func TestFormatsUnderPolicies(t *testing.T) {
	m := stories260K(t)
	m.texts = [][]uint32{m.texts[2][:64]}
	if race.Enabled {
		m.texts[0] = m.texts[0][:32]
	}
	for _, f := range Formats() {
		for _, p := range Policies()[1:] {
			p = p.Under(24)
			if f.residual > 0 && p.Name != "recency" && p.Name != "sliding" {
				_, err := m.Measure(context.Background(), f, p)
				require.EqualError(t, err, "format "+f.Name+" under policy "+p.Name+": a cache with a window of exact tokens keeps no attention scores")
				continue
			}
			s := measure(t, m, f.Name, p)
			require.Positive(t, s.KL)
			require.False(t, math.IsNaN(s.NLL) || math.IsInf(s.NLL, 0))
		}
	}
}

// Greedy decoding in int8 says the same as in f32 nearly always: under teacher forcing, on the
// texts that the embedded model brings and on those it writes itself.
func TestInt8AgreesWithF32(t *testing.T) {
	model, tok, err := runner.LoadFS(modeldata.Files, ".")
	require.NoError(t, err)
	stories, err := modeldata.Files.ReadFile("stories.txt")
	require.NoError(t, err)
	texts, err := Texts(string(stories), model, tok)
	require.NoError(t, err)
	require.Len(t, texts, 9)
	var expected struct {
		Cases []struct{ Prompt, Text string }
	}
	written, err := modeldata.Files.ReadFile("expected.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(written, &expected))
	require.Len(t, expected.Cases, 3)
	if race.Enabled {
		texts = nil
		expected.Cases[0].Text = expected.Cases[0].Text[:64]
		expected.Cases = expected.Cases[:1]
	}
	for _, c := range expected.Cases {
		texts = append(texts, tok.Encode(c.Prompt+c.Text))
	}
	s := measure(t, NewMeter(openCPU(t), model, texts, 0), "int8", everything())
	require.GreaterOrEqual(t, s.Top1, 0.97)
	require.Less(t, s.KL, 1e-3)
}

// The sums of a score are those of the definitions.
func TestScoreAdd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "vocabulary")
		logits := rapid.SliceOfN(rapid.Float32Range(-60, 60), n, n)
		want, got := logits.Draw(t, "want"), logits.Draw(t, "got")
		token := uint32(rapid.IntRange(0, n-1).Draw(t, "token"))
		p, q := softmax(want), softmax(got)
		var s Score
		s.add(want, got, token)
		require.Equal(t, 1, s.Tokens)
		require.InDelta(t, -math.Log(q[token]), s.NLL, 1e-9)
		kl := 0.
		for i := range p {
			kl += p[i] * math.Log(p[i]/q[i])
		}
		require.InDelta(t, kl, s.KL, 1e-9)
		require.GreaterOrEqual(t, s.KL, -1e-9)
		require.Equal(t, first(want) == first(got), s.Top1 == 1)

		s.add(want, want, token)
		require.InDelta(t, kl, s.KL, 1e-9, "nothing is added by the reference itself")
		require.InDelta(t, -math.Log(q[token])-math.Log(p[token]), s.NLL, 1e-9)
		require.Equal(t, 2, s.Tokens)
	})
}

func softmax(logits []float32) []float64 {
	out, sum := make([]float64, len(logits)), 0.
	for i, x := range logits {
		out[i] = math.Exp(float64(x))
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// first is the first of the largest.
func first(logits []float32) (best int) {
	for i, x := range logits {
		if x > logits[best] {
			best = i
		}
	}
	return best
}

// A measurement ends when it is cancelled, and leaves no buffers (see openCPU).
func TestMeasureIsCancelled(t *testing.T) {
	model, tok, err := runner.LoadFS(modeldata.Files, ".")
	require.NoError(t, err)
	m := NewMeter(openCPU(t), model, [][]uint32{tok.Encode("Once upon a time")}, 1)
	ctx, cancel := context.WithCancel(context.Background())
	told := 0
	m.Progress = func(tokens int) {
		told += tokens
		cancel()
	}
	f, err := ParseFormat("f16")
	require.NoError(t, err)
	_, err = m.Measure(ctx, f, everything())
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 16, told)
	s, err := m.Measure(context.Background(), f, everything())
	require.NoError(t, err, "the next one starts anew")
	require.Equal(t, 16, s.Tokens)
}
