package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// watched is a device that counts what is asked of it, and fails on demand.
type watched[B backend.Buffer] struct {
	backend.Backend[B]
	steps, copies int
	attends       int // calls until one fails; 0: none does
	attending     func()
}

var errDevice = errors.New("the device has failed")

func watch[B backend.Buffer](be backend.Backend[B]) *watched[B] { return &watched[B]{Backend: be} }

func (w *watched[B]) PlanAttend(s backend.AttendShape) (backend.AttendPlan, error) {
	w.steps++
	return w.Backend.PlanAttend(s)
}

func (w *watched[B]) CopyBlocks(s backend.Stream, p backend.CopyBlocksParams[B]) error {
	w.copies++
	return w.Backend.CopyBlocks(s, p)
}

func (w *watched[B]) Attend(s backend.Stream, p backend.AttendParams[B]) error {
	if w.attending != nil {
		w.attending()
	}
	if w.attends--; w.attends == 0 {
		return errDevice
	}
	return w.Backend.Attend(s, p)
}

// little is a model that is quick to run, with the smallest heads that every device has
// kernels for. Its token 0 ends a text.
func little(seed uint64) *Model {
	return randomModel(Config{Dim: 16, Layers: 2, Vocab: 11, Context: 64, Eps: 1e-5, Block: Block{Hidden: 16, Heads: 2, KVHeads: 1, HeadDim: 64, Act: "silu"}}, seed)
}

// endless is a little model in which no token ends a text.
func endless(seed uint64) *Model {
	m := little(seed)
	m.BOS = 11
	return m
}

// tokens generates greedily; emit fails after that many tokens, if it is not 0.
func tokens[B backend.Buffer](r *Runner[B], prompts []Prompt, n, after int) ([][]uint32, Report, error) {
	out := make([][]uint32, len(prompts))
	report, err := r.Generate(context.Background(), prompts, n, Sampling{}, func(seq int, token uint32) error {
		out[seq] = append(out[seq], token)
		if after--; after == 0 {
			return context.Canceled
		}
		return nil
	})
	return out, report, err
}

// matched is the reused tokens of each prompt.
func matched(r Report) (out []int) {
	for _, m := range r.Matches {
		out = append(out, m.Cached)
	}
	return out
}

// upTo are the tokens 1 to 10, over and over.
func upTo(n int) (out []uint32) {
	for i := range n {
		out = append(out, uint32(1+i%10))
	}
	return out
}

func TestReuseIsCounted(t *testing.T) {
	m := endless(1)
	be := watch(openCPU(t))
	paged := func(p prefix.Policy) kvcache.Config {
		return kvcache.Config{
			Storage: kvcache.Storage{K: backend.F32},
			Memory:  kvcache.Memory{Layout: kvcache.Paged, BlockSize: 4, Capacity: 48, MaxSeqs: 4, Prefix: p},
		}
	}
	a, b, c := upTo(18), append(upTo(10), 10, 10), []uint32{5, 5, 5, 5, 5}
	for _, test := range []struct {
		name         string
		prompts      [][]uint32
		first, again []int // tokens of each that are reused, and when all are asked again
		steps        int   // of the first prefill
		cfg          kvcache.Config
		chunk        int
		salted       bool
	}{
		{name: "alone", prompts: [][]uint32{a}, first: []int{0}, again: []int{17}, steps: 1},
		{name: "whole blocks", prompts: [][]uint32{upTo(16)}, first: []int{0}, again: []int{15}, steps: 1},
		{name: "shorter than a block", prompts: [][]uint32{{1, 2, 3}, {1, 2, 4}}, first: []int{0, 0}, again: []int{2, 2}, steps: 1},
		{name: "a common beginning", prompts: [][]uint32{a, b, c}, first: []int{0, 10, 0}, again: []int{17, 11, 4}, steps: 2},
		{name: "many users", prompts: [][]uint32{a, b, b[:11], append(upTo(9), 9, 9)}, first: []int{0, 10, 10, 9}, again: []int{17, 11, 10, 10}, steps: 2},
		{name: "a prompt within another", prompts: [][]uint32{a[:9], a}, first: []int{0, 8}, again: []int{8, 17}, steps: 2},
		{name: "equal ones", prompts: [][]uint32{a, a, b, b}, first: []int{0, 18, 10, 12}, again: []int{17, 18, 11, 12}, steps: 2},
		{name: "in steps", prompts: [][]uint32{a, b}, chunk: 4, first: []int{0, 8}, again: []int{17, 11}, steps: 6},
		{name: "three tenants", prompts: [][]uint32{a, b, a}, salted: true, first: []int{0, 0, 0}, again: []int{17, 11, 17}, steps: 1},
		{name: "off", prompts: [][]uint32{a, b, a}, first: []int{0, 0, 18}, again: []int{0, 0, 18}, steps: 1, cfg: paged(prefix.Off)},
		{name: "contiguous", prompts: [][]uint32{a, b}, first: []int{0, 0}, again: []int{0, 0}, steps: 1,
			cfg: kvcache.Config{
				Storage: kvcache.Storage{K: backend.F32},
				Memory:  kvcache.Memory{Layout: kvcache.Contiguous, Capacity: 48, MaxSeqs: 4},
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.cfg.Memory.Layout == kvcache.LayoutUnset {
				test.cfg = paged(prefix.LRU)
			}
			r := newRunner(t, be, m, Options{Chunk: test.chunk, Cache: test.cfg})
			var prompts []Prompt
			asked := 0
			for i, p := range test.prompts {
				prompt := Prompt{Tokens: p}
				if i > 0 && test.salted { // the first one has none, the second one an empty salt
					prompt.Salt = make([]byte, i-1)
				}
				prompts, asked = append(prompts, prompt), asked+len(p)
			}
			for i, want := range [][]int{test.first, test.again} {
				be.steps = 0
				_, report, err := tokens(r, prompts, 1, 0)
				require.NoError(t, err)
				if i == 0 {
					require.Equal(t, test.steps, be.steps)
				}
				require.Equal(t, want, matched(report))
				reused := 0
				for _, n := range want {
					reused += n
				}
				require.Equal(t, asked-reused, report.PrefillTokens, "what was not found is computed, and no more")
			}
		})
	}
}

// A prompt that waits for what another one computes does not wait for ever if that is
// not offered to it in the end.
func TestClearWhileOthersWait(t *testing.T) {
	m, be := endless(1), watch(openCPU(t))
	r := newRunner(t, be, m, Options{Cache: kvcache.Config{Memory: kvcache.Memory{Layout: kvcache.Paged, BlockSize: 4, Capacity: 40}}})
	prompts := []Prompt{{Tokens: upTo(18)}, {Tokens: append(upTo(10), 10)}}
	want, _, err := tokens(r, prompts, 4, 0)
	require.NoError(t, err)
	require.NoError(t, r.Pool().Clear(false))

	be.attending = func() { require.NoError(t, r.Pool().Clear(true)) }
	got, report, err := tokens(r, prompts, 4, 0)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, []int{0, 0}, matched(report))
}

// sure reports whether rounding cannot change the texts that r gave for the prompts. Where
// the best two logits are as close as in expectation.sure, a device that adds in another
// order may choose the other one.
func sure[B backend.Buffer](t *rapid.T, r *Runner[B], prompts []Prompt, texts [][]uint32) bool {
	for i, p := range prompts {
		tokens := slices.Concat(p.Tokens, texts[i]) // after the last one, the text could have gone on
		tokens = tokens[:min(len(tokens), r.Pool().Config().Memory.Capacity)]
		seq, _, err := r.Pool().Open(nil, kvcache.OpenOptions{})
		require.NoError(t, err)
		logits, err := r.Forward([]Work[B]{{Seq: seq, Tokens: tokens}}, true)
		require.NoError(t, err)
		require.NoError(t, seq.Release())
		for row := len(p.Tokens) - 1; row < len(tokens); row++ {
			choices := slices.Sorted(slices.Values(logits.Row(row)))
			if best := choices[len(choices)-2:]; best[1]-best[0] < 0.005 {
				return false
			}
		}
	}
	return true
}

// A text on the device that goes on from cached blocks is the text that the CPU gives
// without reuse, whatever was generated before it, failed, or had to leave a small cache.
// A generation that has blocks enough without reuse has enough with it.
func TestDemoTextIgnoresReuse(t *testing.T) {
	plain, device := openCPU(t), openDevice(t)
	exact := device.Info().Name == plain.Info().Name // nothing is added in another order
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, from, to int) int { return rapid.IntRange(from, to).Draw(t, name) }
		m := [...]func(uint64) *Model{little, endless}[draw("endless", 0, 1)](uint64(draw("model", 0, 20)))
		dtypes := []backend.DType{backend.F32, backend.F16, backend.BF16}
		cfg := kvcache.Config{
			Storage: kvcache.Storage{K: dtypes[draw("type", 0, 2)]},
			Memory:  kvcache.Memory{Layout: kvcache.Paged, BlockSize: 1 << draw("block", 0, 5), Capacity: 40, MaxSeqs: 4, Prefix: prefix.Off},
		}
		off, err := New(plain, m, Options{Cache: cfg})
		require.NoError(t, err)
		defer func() { require.NoError(t, off.Close()) }()

		type round struct {
			prompts     []Prompt
			want        [][]uint32
			n           int
			emits, fail int // tokens or calls of Attend until it fails
		}
		var rounds []round
		stems := [][]uint32{upTo(36), append(upTo(7), upTo(29)...)} // and whole texts, once there are any
		for range draw("rounds", 1, 8) {
			r := round{n: draw("tokens", 1, 9)}
			for range draw("prompts", 1, 4) {
				stem := stems[draw("stem", 0, len(stems)-1)]
				text := append(slices.Clone(stem[:draw("cut", 0, min(len(stem), 36))]), rapid.SliceOfN(rapid.Uint32Range(1, 10), 0, 4).Draw(t, "turn")...)
				if len(text) == 0 {
					text = []uint32{1}
				}
				r.prompts = append(r.prompts, Prompt{Tokens: text, Salt: [][]byte{nil, nil, {}, {1}}[draw("salt", 0, 3)]})
			}
			switch draw("outcome", 0, 5) {
			case 0:
				r.emits = draw("emits", 1, 12)
			case 1:
				r.fail = draw("attends", 1, 24)
			}
			var err error
			r.want, _, err = tokens(off, r.prompts, r.n, 0)
			require.NoError(t, err)
			if !exact && !sure(t, off, r.prompts, r.want) {
				continue
			}
			for i, p := range r.prompts {
				stems = append(stems, append(slices.Clone(p.Tokens), r.want[i]...))
			}
			rounds = append(rounds, r)
		}
		stats, err := off.Pool().Stats()
		require.NoError(t, err)

		be := watch(device)
		cfg.Memory.Prefix = prefix.Policy(draw("policy", int(prefix.Adaptive), int(prefix.Priority)))
		cfg.Memory.Blocks = stats.Peak + draw("more blocks", 0, 12)
		on, err := New(be, m, Options{Chunk: draw("chunk", 1, 40), Cache: cfg})
		require.NoError(t, err)
		defer func() { require.NoError(t, on.Close()) }()
		for i, r := range rounds {
			be.attends = r.fail
			got, report, err := tokens(on, r.prompts, r.n, r.emits)
			if err != nil {
				require.True(t, r.fail > 0 && errors.Is(err, errDevice) || r.emits > 0 && errors.Is(err, context.Canceled), "round %d: %v", i, err)
				for j, text := range got {
					require.True(t, slices.Equal(r.want[j][:len(text)], text), "round %d", i)
				}
				continue
			}
			require.Equal(t, r.want, got, "round %d", i)
			total := report.PrefillTokens
			for j, p := range r.prompts {
				total += report.Matches[j].Cached - len(p.Tokens)
			}
			require.Zero(t, total)
			require.NoError(t, on.Pool().Check())
		}
	})
}

// content is the keys and values of some blocks in all layers.
func content(t *testing.T, be backend.Backend[*cpu.Buffer], p *kvcache.Pool[*cpu.Buffer], blocks []uint32) (out []byte) {
	access, ok := backend.HostAccessOf(be)
	require.True(t, ok)
	for l := range p.Config().Model.Layers {
		view, _, err := p.Layer(l)
		require.NoError(t, err)
		for _, buf := range []*cpu.Buffer{view.K.Data, view.V.Data} {
			data, err := access.HostBytes(buf)
			require.NoError(t, err)
			size := len(data) / view.Blocks
			for _, b := range blocks {
				out = append(out, data[int(b)*size:][:size]...)
			}
		}
	}
	return out
}

// F9, F17: the same greedy prompt twice gives the same text, and nothing that is generated from
// a cached prompt changes the prompt's blocks: neither a whole-prompt hit, whose last
// token is computed into a copy, nor what goes on within its last block.
func TestCachedBlocksDoNotChange(t *testing.T) {
	m := endless(2)
	for _, size := range []int{8, 11} { // whole blocks, and a part of one
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			plain := openCPU(t)
			be := watch(plain)
			r := newRunner(t, be, m, Options{Cache: kvcache.Config{Memory: kvcache.Memory{Layout: kvcache.Paged, BlockSize: 4, Capacity: 40, MaxSeqs: 4}}})
			prompt := Prompt{Tokens: upTo(size)}
			want, _, err := tokens(r, []Prompt{prompt}, 9, 0)
			require.NoError(t, err)

			whole := append(slices.Clone(prompt.Tokens), want[0]...)
			seq, match, err := r.Pool().Open(whole, kvcache.OpenOptions{})
			require.NoError(t, err)
			require.Equal(t, len(whole)-1, match.Cached, "what was generated can be found, too")
			blocks := seq.Blocks(nil)
			require.NoError(t, r.stream.Sync())
			before := content(t, plain, r.Pool(), blocks)
			for _, last := range []uint32{0, whole[size-1]} {
				other := append(slices.Clone(prompt.Tokens[:size-1]), last)
				be.copies = 0
				got, report, err := tokens(r, []Prompt{{Tokens: other}, {Tokens: append(slices.Clone(other), 7)}}, 9, 0)
				require.NoError(t, err)
				require.Equal(t, size-1, report.Matches[0].Cached)
				require.Positive(t, be.copies, "it writes into a copy")
				if last == whole[size-1] {
					require.Equal(t, want[0], got[0])
				}
				require.NoError(t, r.stream.Sync())
				require.Equal(t, before, content(t, plain, r.Pool(), blocks))
			}
			require.NoError(t, seq.Release())
		})
	}
}
