package runner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/cmd/internal/tokenizer"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// remote is the CPU as a device whose memory the host does not see.
type remote struct{ backend.Backend[*cpu.Buffer] }

func openCPU(t testing.TB) backend.Backend[*cpu.Buffer] {
	be, err := cpu.Open(cpu.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, be.Close()) })
	return be
}

// newRunner checks at the end of the test that no block, sequence or buffer is left.
func newRunner[B backend.Buffer](t testing.TB, be backend.Backend[B], m *Model, opt Options) *Runner[B] {
	before := be.Info().Buffers
	r, err := New(be, m, opt)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.stream.Sync()) // until then the device may hold the last step's blocks
		stats, err := r.Pool().Stats()
		require.NoError(t, err)
		require.Zero(t, stats.Held)
		require.Zero(t, stats.Sequences)
		require.NoError(t, r.Pool().Check())
		require.NoError(t, r.Close())
		require.Equal(t, before, be.Info().Buffers)
	})
	return r
}

// texts generates greedily and decodes.
func texts[B backend.Buffer](t testing.TB, r *Runner[B], tok *tokenizer.Tokenizer, n int, s Sampling, prompts ...string) ([]string, Report) {
	encoded, out, decoders := []Prompt{}, make([]string, len(prompts)), make([]*tokenizer.Decoder, len(prompts))
	for i, p := range prompts {
		tokens := tok.Encode(p)
		encoded, decoders[i] = append(encoded, Prompt{Tokens: tokens}), tok.Decoder(tokens...)
	}
	report, err := r.Generate(context.Background(), encoded, n, s, func(seq int, token uint32) error {
		out[seq] += decoders[seq].Add(token)
		return nil
	})
	require.NoError(t, err)
	for i, d := range decoders {
		out[i] += d.Rest()
	}
	return out, report
}

var layouts = []kvcache.Layout{kvcache.Contiguous, kvcache.Paged}

// The published text of stories260K, byte for byte.
func TestStoriesText(t *testing.T) {
	be := openCPU(t)
	for _, ext := range []string{".bin", ".gguf"} {
		m, tok := loadStories(t, ext)
		for _, layout := range layouts {
			for _, dt := range []backend.DType{backend.F32, backend.F16, backend.BF16} {
				t.Run(fmt.Sprint(ext[1:], "/", layout, "/", dt), func(t *testing.T) {
					r := newRunner(t, be, m, Options{Cache: kvcache.Config{Storage: kvcache.Storage{K: dt}, Memory: kvcache.Memory{Layout: layout, Capacity: 256, MaxSeqs: 1}}})
					for _, n := range []int{200, 256} {
						want, err := os.ReadFile(stories(t, fmt.Sprintf("expected_greedy_n%d.txt", n)))
						require.NoError(t, err)
						if race.Enabled {
							n = 16
						}
						got, report := texts(t, r, tok, n, Sampling{}, "")
						if race.Enabled {
							want = want[:len(got[0])]
						}
						// n256 is what a program printed, with a line end after the text.
						require.Equal(t, strings.TrimSuffix(string(want), "\n"), got[0])
						require.Equal(t, 1, report.PrefillTokens)
						require.Equal(t, n-1, report.DecodeTokens)
					}
				})
			}
		}
	}
}

// The published logits, computed in one step and token by token.
func TestStoriesLogits(t *testing.T) {
	be := openCPU(t)
	m, _ := loadStories(t, ".bin")
	golden := goldenStory(t)
	var tokens []uint32
	for _, s := range golden.Steps {
		tokens = append(tokens, s.Tok)
	}
	for _, layout := range layouts {
		r := newRunner(t, be, m, Options{Cache: kvcache.Config{Storage: kvcache.Storage{K: backend.F32}, Memory: kvcache.Memory{Layout: layout, Capacity: 256}}})
		for _, chunk := range []int{256, 100, 1} {
			seq, _, err := r.Pool().Open(tokens, kvcache.OpenOptions{NoReuse: true}) // all logits are wanted
			require.NoError(t, err)
			for rest := tokens; len(rest) > 0; {
				k := min(chunk, len(rest))
				at := seq.Len()
				logits, err := r.Forward([]Work[*cpu.Buffer]{{Seq: seq, Tokens: rest[:k]}}, true)
				require.NoError(t, err)
				for i, s := range golden.Steps[at : at+k] {
					row := logits.Row(i)
					require.Equal(t, s.Next, Greedy(row), "position %d", s.Pos)
					require.InDelta(t, s.Top1, row[s.Next], 1e-3)
					require.InDelta(t, s.Top2, row[s.Top2ID], 1e-3)
				}
				rest = rest[k:]
			}
			require.NoError(t, seq.Release())
		}
	}
}

// randomModel has weights of a size that keeps activations near 1.
func randomModel(c Config, seed uint64) *Model {
	rng := rand.New(rand.NewPCG(seed, 0))
	vector := func(n int, scale float64) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64() * scale)
		}
		return v
	}
	linear := func(rows, cols int) Matrix {
		return dense{shape: []int{rows, cols}, dtype: backend.F32, data: vector(rows*cols, 0.3)}.pack(dense{})
	}
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	m := &Model{Config: c, Embed: linear(c.Vocab, c.Dim).Matrix, Output: linear(c.Vocab, c.Dim).Matrix, Norm: vector(c.Dim, 1)}
	for range c.Layers {
		m.Layers = append(m.Layers, Layer{
			AttnNorm: vector(c.Dim, 1), FFNNorm: vector(c.Dim, 1),
			Q: linear(q, c.Dim), K: linear(kv, c.Dim), V: linear(kv, c.Dim), O: linear(c.Dim, q),
			FFN: FeedForward{Gate: linear(c.Hidden, c.Dim), Up: linear(c.Hidden, c.Dim), Down: linear(c.Dim, c.Hidden)},
		})
	}
	return m
}

// Any model, cut into any steps, on any kind of device, gives the logits of the
// plain forward pass, also after a fork and after a truncation.
func TestRunnerAgreesWithNaive(t *testing.T) {
	be := openCPU(t)
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, from, to int) int { return rapid.IntRange(from, to).Draw(t, name) }
		kv := draw("KV heads", 1, 3)
		m := randomModel(Config{
			Dim: draw("dim", 1, 40), Layers: draw("layers", 1, 3), Vocab: 11, Context: 64, Eps: 1e-5, Block: Block{
				Hidden: draw("hidden", 1, 40), KVHeads: kv, Heads: kv * draw("group", 1, 3), HeadDim: 2 * draw("head dim", 1, 9), Act: "silu",
				RoPE: backend.RoPE{Pairing: backend.Pairing(draw("pairing", 0, 1))},
			},
		}, uint64(draw("seed", 0, 1000)))
		opt := Options{Chunk: 40, Threads: draw("threads", 1, 3),
			Cache: kvcache.Config{
				Storage: kvcache.Storage{K: backend.F32},
				Memory:  kvcache.Memory{Layout: layouts[draw("layout", 0, 1)], Capacity: 40, MaxSeqs: 4},
			}}
		if opt.Cache.Memory.Layout == kvcache.Paged {
			opt.Cache.Memory.BlockSize = 1 << draw("block", 0, 5)
		}
		a := rapid.SliceOfN(rapid.Uint32Range(0, 10), 2, 20).Draw(t, "a")
		b := rapid.SliceOfN(rapid.Uint32Range(0, 10), 1, 20).Draw(t, "b")
		cut := draw("cut", 1, len(a)-1)
		switch draw("device", 0, 2) {
		case 0:
			compare(t, be, m, opt, a, b, cut)
		case 1:
			compare(t, backend.Erase(be), m, opt, a, b, cut)
		case 2:
			compare(t, backend.Erase[*cpu.Buffer](remote{be}), m, opt, a, b, cut)
		}
	})
}

func compare[B backend.Buffer](t *rapid.T, be backend.Backend[B], m *Model, opt Options, a, b []uint32, cut int) {
	r, err := New(be, m, opt)
	require.NoError(t, err)
	want := func(tokens ...uint32) (logits []float64) {
		n := newNaive(m)
		for _, token := range tokens {
			logits = n.step(token)
		}
		return logits
	}
	check := func(want []float64, logits Logits, row int) {
		for i, w := range want {
			require.InDelta(t, w, logits.Row(row)[i], 2e-3, "token %d", i)
		}
	}
	forward := func(all bool, work ...Work[B]) Logits {
		logits, err := r.Forward(work, all)
		require.NoError(t, err)
		return logits
	}
	seq := make([]*kvcache.Sequence[B], 3)
	for i := range 2 {
		seq[i], _, err = r.Pool().Open(nil, kvcache.OpenOptions{})
		require.NoError(t, err)
	}
	check(want(a[:cut]...), forward(false, Work[B]{Seq: seq[0], Tokens: a[:cut]}), 0)
	all := forward(true, Work[B]{Seq: seq[1], Tokens: b}, Work[B]{Seq: seq[0], Tokens: a[cut:]})
	require.Equal(t, len(b)+len(a)-cut, all.Rows)
	check(want(b[0]), all, 0)
	check(want(b...), all, len(b)-1)
	check(want(a...), all, all.Rows-1)

	seq[2], err = seq[0].Fork()
	require.NoError(t, err)
	require.NoError(t, seq[0].Truncate(cut))
	last := forward(false, Work[B]{Seq: seq[0], Tokens: []uint32{3}}, Work[B]{Seq: seq[1], Tokens: []uint32{5}}, Work[B]{Seq: seq[2], Tokens: []uint32{7, 9}})
	check(want(append(slices.Clone(a[:cut]), 3)...), last, 0)
	check(want(append(slices.Clone(b), 5)...), last, 1)
	check(want(append(slices.Clone(a), 7, 9)...), last, 2)

	_, err = r.Forward([]Work[B]{{Seq: seq[0], Tokens: []uint32{1}}, {Seq: seq[1], Tokens: []uint32{11}}}, false)
	require.ErrorIs(t, err, backend.ErrArgument{}, "a token beyond the vocabulary")
	require.Equal(t, cut+1, seq[0].Len(), "a failed step changes nothing")
	for _, s := range seq {
		require.NoError(t, s.Release())
	}
	require.NoError(t, r.Pool().Check())
	require.NoError(t, r.Close())
}

func TestGenerateEndsCleanly(t *testing.T) {
	be := openCPU(t)
	m, tok, cases := loadDemo(t)
	r := newRunner(t, be, m, Options{Cache: kvcache.Config{Memory: kvcache.Memory{Layout: kvcache.Paged, BlockSize: 8, Capacity: 64, MaxSeqs: 2}}})
	prompt := Prompt{Tokens: tok.Encode(cases[0].Prompt)}
	none := func(int, uint32) error { return nil }

	ctx, cancel := context.WithCancel(context.Background())
	count := 0
	report, err := r.Generate(ctx, []Prompt{prompt, prompt}, 100, Sampling{}, func(int, uint32) error {
		if count++; count == 11 {
			cancel()
		}
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 12, count, "the step in which it was cancelled is the last")
	require.Equal(t, 10, report.DecodeTokens)
	_, err = r.Generate(ctx, []Prompt{prompt}, 100, Sampling{}, none)
	require.ErrorIs(t, err, context.Canceled)

	broken := errors.New("broken pipe")
	_, err = r.Generate(context.Background(), []Prompt{prompt, prompt}, 100, Sampling{}, func(int, uint32) error { return broken })
	require.ErrorIs(t, err, broken)

	got, report := texts(t, r, tok, 1000, Sampling{}, cases[0].Prompt)
	require.Equal(t, cases[0].Text[:64-len(prompt.Tokens)+1], got[0], "the capacity ends the text: its last token needs no room")
	require.Equal(t, 8, report.Cache.Held)
	got, _ = texts(t, r, tok, 0, Sampling{}, cases[0].Prompt)
	require.Equal(t, "", got[0])

	var alphabet []Prompt
	for token := range uint32(6) {
		alphabet = append(alphabet, Prompt{Tokens: []uint32{token}})
	}
	for _, c := range []struct {
		prompts []Prompt
		s       Sampling
		want    error
	}{
		{[]Prompt{prompt, {}}, Sampling{}, backend.ErrArgument{}},
		{[]Prompt{prompt, {Tokens: []uint32{1, 259}}}, Sampling{}, backend.ErrArgument{}},
		{[]Prompt{prompt, {Tokens: make([]uint32, 65)}}, Sampling{}, kvcache.ErrCapacity{Have: 65, Max: 64}},
		{[]Prompt{prompt}, Sampling{TopP: 2}, kvcache.ErrConfig{Name: "TopP", Value: "2", Why: "accepts 0 to 1"}},
		{alphabet, Sampling{}, kvcache.ErrOutOfBlocks{}},
	} {
		_, err := r.Generate(context.Background(), c.prompts, 60, c.s, none)
		require.ErrorIs(t, err, c.want)
	}
	_, err = r.Generate(context.Background(), nil, 100, Sampling{}, none)
	require.NoError(t, err)
}

// A sequence's samples do not depend on the batch it is in.
func TestSampledTextIgnoresTheBatch(t *testing.T) {
	be := openCPU(t)
	m, tok, cases := loadDemo(t)
	r := newRunner(t, be, m, Options{Cache: kvcache.Config{
		Storage: kvcache.Storage{K: backend.F32},
		Memory:  kvcache.Memory{Layout: kvcache.Paged, Capacity: 128, MaxSeqs: 4},
	}})
	s := Sampling{Temperature: 0.8, TopP: 0.9, Seed: 11}
	alone, _ := texts(t, r, tok, 80, s, cases[0].Prompt)
	batch, _ := texts(t, r, tok, 80, s, cases[0].Prompt, cases[1].Prompt, cases[0].Prompt)
	require.Equal(t, alone[0], batch[0])
	require.NotEqual(t, batch[0], batch[2], "equal prompts draw differently")
	require.NotContains(t, strings.Join(batch, ""), "\x00")
}

func TestOptions(t *testing.T) {
	be := openCPU(t)
	m, _, _ := loadDemo(t)
	r := newRunner(t, be, m, Options{})
	require.Equal(t, m.Context, r.Pool().Config().Memory.Capacity, "the model's context limits the default")
	require.Empty(t, r.Pool().Config().Model.Digest, "which would read all weights")
	for _, o := range []Options{{Lasting: true}, {Cache: kvcache.Config{Memory: kvcache.Memory{Layout: kvcache.Paged}, Tiers: config.Tiers{Disk: config.Disk{Dir: t.TempDir(), Bytes: 8 << 20, Floor: 1}}}}} {
		require.Equal(t, m.Digest(), newRunner(t, be, m, o).Pool().Config().Model.Digest)
	}
	_, err := New(be, m, Options{Cache: kvcache.Config{Memory: kvcache.Memory{Capacity: m.Context + 1}}})
	require.ErrorIs(t, err, kvcache.ErrConfig{})
	_, err = New(be, m, Options{Chunk: 1 << 30})
	require.ErrorIs(t, err, backend.ErrArgument{})
	for _, b := range []Block{ // of which only the temporaries are too large
		{Experts: experts{Hidden: 1 << 23}}, {Experts: experts{Shared: 1 << 23}}, {Delta: delta{KeyHeads: 1 << 10, KeyDim: 1 << 10, ValueHeads: 1 << 10, ValueDim: 1 << 10}},
	} {
		wide := *m
		wide.Experts, wide.Delta = b.Experts, b.Delta
		_, err = New(be, &wide, Options{Chunk: 512})
		require.ErrorContains(t, err, "elements are too many", "%+v", b)
	}
}
