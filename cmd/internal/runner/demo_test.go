package runner

import (
	"fmt"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/cmd/internal/tokenizer"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/stretchr/testify/require"
)

// openings are prompts beside those of expected.json. After BOS their lengths are
// a lone token and the borders of blocks of 8, 16 and 32, where a fork has no block
// to copy, and one that spans blocks of every size. In their first 100 bytes, no
// choice has a margin below 0.04 in float64.
var openings = []string{
	"",
	"Tim had",
	"One day, a bird",
	"Ben and his dad went to a park.",
	"The sun was hot. Anna and Ben sat under a tree",
}

// sure says how many bytes of the text rounding in the cache cannot change. A
// margin below 0.005 can fall either way as sums are ordered differently, and
// then only the bytes before it count.
func (e expectation) sure(dt backend.DType) int {
	if e.Margin < 0.005 {
		return e.Safe
	}
	if dt == backend.F32 {
		return e.Bytes
	}
	return e.Same["kv_"+dt.String()]
}

// The demo model's text is the one that other code gave, in every storage type.
func TestDemoText(t *testing.T) {
	be := openDevice(t)
	m, tok, cases := loadDemo(t)
	n := 300
	if race.Enabled {
		n = 16
	}
	for _, dt := range []backend.DType{backend.F32, backend.F16, backend.BF16} {
		t.Run(dt.String(), func(t *testing.T) {
			r := newRunner(t, be, m, Options{Cache: kvcache.Config{
				Storage: kvcache.Storage{K: dt},
				Memory:  kvcache.Memory{Layout: kvcache.Paged, BlockSize: 16, Capacity: 320, MaxSeqs: 3},
			}})
			got, _ := texts(t, r, tok, n, Sampling{}, cases[0].Prompt, cases[1].Prompt, cases[2].Prompt)
			for i, c := range cases {
				require.Len(t, got[i], min(c.Bytes, n))
				sure := min(c.sure(dt), n)
				require.Equal(t, c.Text[:sure], got[i][:sure])
			}
		})
	}
}

// The text is the same on every kernel that this processor has, each of which multiplies by the weights as the file
// stores them.
func TestDemoTextOnEveryKernel(t *testing.T) {
	n := 128
	if race.Enabled {
		n = 16
	}
	for _, name := range []string{"avx512", "avx2", "neon", "go"} {
		t.Run(name, func(t *testing.T) {
			be, err := cpu.Open(cpu.Options{Kernels: name})
			if err != nil {
				t.Skip(err)
			}
			t.Cleanup(func() { require.NoError(t, be.Close()) })
			t.Setenv(cpu.EnvKernels, name)
			m, tok, cases := loadDemo(t)
			for _, w := range matrices(m) {
				require.Equal(t, name, w.Kernel())
				require.Equal(t, backend.F16, w.Type)
			}
			r := newRunner[*cpu.Buffer](t, be, m, Options{Threads: 1, Cache: kvcache.Config{
				Storage: kvcache.Storage{K: backend.F32},
				Memory:  kvcache.Memory{Layout: kvcache.Paged, BlockSize: 16, Capacity: 320, MaxSeqs: 3},
			}})
			got, _ := texts(t, r, tok, n, Sampling{}, cases[0].Prompt, cases[1].Prompt, cases[2].Prompt)
			for i, c := range cases {
				sure := min(c.sure(backend.F32), n)
				require.Equal(t, c.Text[:sure], got[i][:sure])
			}
		})
	}
}

// demoCase is a way to cache and compute the demo model.
type demoCase struct {
	block, chunk int // block 0: contiguous
	dt           backend.DType
}

// run generates n bytes for the prompts in one batch, on a device of its own, so
// that cases can run side by side, each in one thread.
func (c demoCase) run(t *testing.T, be backend.Backend[backend.AnyBuffer], m *Model, tok *tokenizer.Tokenizer, n int, prompts []string) ([]string, Report) {
	cfg := kvcache.Config{
		Storage: kvcache.Storage{K: c.dt},
		Memory:  kvcache.Memory{Layout: kvcache.Contiguous, Capacity: 128, MaxSeqs: len(prompts)},
	}
	if c.block > 0 {
		cfg.Memory.Layout, cfg.Memory.BlockSize = kvcache.Paged, c.block
	}
	r := newRunner(t, be, m, Options{Chunk: c.chunk, Threads: 1, Cache: cfg})
	return texts(t, r, tok, n, Sampling{}, prompts...)
}

// A text depends on its prompt and the storage type alone: not on the device, the
// layout, the block size, the batch around it, a fork, or how the prompt is cut into
// steps.
func TestDemoTextIgnoresTheCache(t *testing.T) {
	m, tok, cases := loadDemo(t)
	n, blocks, dtypes := 64, []int{0, 8, 16, 32}, []backend.DType{backend.F32, backend.F16, backend.BF16}
	switch {
	case emulated(openDevice(t)):
		n, blocks, dtypes = 12, []int{0, 16}, dtypes[:2]
	case race.Enabled:
		n, blocks, dtypes = 16, blocks[:2], dtypes[1:2]
	}
	var prompts []string
	for _, c := range cases {
		prompts = append(prompts, c.Prompt)
	}
	prompts = append(prompts, openings...)

	for d, dt := range dtypes {
		t.Run(dt.String(), func(t *testing.T) {
			want := map[string]string{} // by prompt, computed alone on the CPU
			for i, p := range prompts {
				got, _ := demoCase{0, 256, dt}.run(t, backend.Erase(openCPU(t)), m, tok, n, []string{p})
				want[p] = got[0]
				require.Len(t, want[p], n)
				if i < len(cases) {
					sure := min(cases[i].sure(dt), n)
					require.Equal(t, cases[i].Text[:sure], want[p][:sure])
				}
			}
			alone := 0
			for b, block := range blocks {
				// A step has room for a token of every sequence: a batch of 8 cuts
				// its prompts into steps of 8 tokens when it is asked for 5.
				for c, chunk := range []int{256, 5} {
					if (d+b+c)%2 != 0 && !testsize.Full() { // every two of type, block and chunk meet in the others
						alone++
						continue
					}
					a, b := prompts[0], openings[2] // of 17 and 16 tokens
					batches := [][]string{
						{prompts[alone]}, // each is alone in one of the layouts and chunks
						prompts,
						{a, a, b, a, b, b, b, a},
					}
					alone++
					for i, name := range []string{"alone", "distinct", "forks"} {
						batch := batches[i]
						t.Run(fmt.Sprintf("block%d/chunk%d/%s", block, chunk, name), func(t *testing.T) {
							t.Parallel()
							got, report := demoCase{block, chunk, dt}.run(t, openDevice(t), m, tok, n, batch)
							for i, p := range batch {
								require.Equal(t, want[p], got[i], "sequence %d, %q", i, p)
							}
							tokens := 0
							for _, p := range batch {
								tokens += len(tok.Encode(p))
							}
							if name == "forks" {
								tokens /= 4
							}
							require.Equal(t, tokens, report.PrefillTokens, "equal prompts are computed once")
							if name == "forks" && block == 8 {
								require.Greater(t, report.Cache.Logical, report.Cache.Held, "forks share whole blocks")
							}
						})
					}
				}
			}
		})
	}
}

// Tokens a second of the demo model, without its first step, as scripts/bench-runner sets it beside another library: a
// prompt of 256 tokens in a step, and 299 steps of one token, with keys and values in f16.
func BenchmarkDemo(b *testing.B) {
	m, tok, cases := loadDemo(b)
	short, long := cases[0].Prompt, (cases[0].Prompt + cases[0].Text)[:255]
	for threads := 1; threads <= 2; threads++ {
		be, err := cpu.Open(cpu.Options{Threads: threads})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, be.Close()) })
		r := newRunner(b, be, m, Options{Threads: threads, Cache: kvcache.Config{
			Storage: kvcache.Storage{K: backend.F16}, Memory: kvcache.Memory{Layout: kvcache.Contiguous, Capacity: 512, MaxSeqs: 1}}})
		run := func(text string, n int) Report {
			report, err := r.Generate(b.Context(), []Prompt{{Tokens: tok.Encode(text)}}, n, Sampling{}, func(int, uint32) error { return nil })
			require.NoError(b, err)
			return report
		}
		run(long, 2)
		for _, c := range []struct {
			what, text  string
			new, tokens int // that are generated, and of which the time is taken
			of          func(Report) (tokens int, took time.Duration)
		}{
			{"prompt", long, 1, 256, func(r Report) (int, time.Duration) { return r.PrefillTokens, r.Prefill }},
			{"decode", short, 300, 299, func(r Report) (int, time.Duration) { return r.DecodeTokens, r.Decode }},
		} {
			b.Run(fmt.Sprintf("%s/threads%d", c.what, threads), func(b *testing.B) {
				var all Report
				for b.Loop() {
					all.Add(run(c.text, c.new))
				}
				tokens, took := c.of(all)
				require.Equal(b, c.tokens*b.N, tokens)
				b.ReportMetric(float64(tokens)/took.Seconds(), "tokens/s")
			})
		}
	}
}
