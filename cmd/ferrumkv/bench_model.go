package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/spf13/cobra"
)

// modelBench is what bench measures of a whole model, with the names that llama-bench has for it.
type modelBench struct {
	model         string
	prompts, gens []int
	repetitions   int
}

func (m *modelBench) register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&m.model, "model", "m", "", "`PATH` of a model that is measured as a whole, in place of kernels: a folder, .safetensors, .gguf or llama2.c .bin")
	cmd.Flags().IntSliceVarP(&m.prompts, "n-prompt", "p", []int{512}, "--model: tokens of a prompt to compute, 0 for none")
	cmd.Flags().IntSliceVarP(&m.gens, "n-gen", "n", []int{128}, "--model: tokens to decode, one after the other, 0 for none")
	cmd.Flags().IntVarP(&m.repetitions, "repetitions", "r", 5, "--model: `N` times that each test is measured, after one warm-up")
}

// check is an error for flags that are not for what is measured.
func (m *modelBench) check(given func(flag string) bool) error {
	ofModel, ofKernels := []string{"n-prompt", "n-gen", "repetitions"}, []string{"kernel", "batch", "context", "q-heads", "kv-heads", "head-dim", "block-size", "time", "footprint"}
	others, what := ofModel, "a --model"
	if m.model != "" {
		others, what = ofKernels, "kernels, and not for a --model"
	}
	for _, flag := range others {
		if given(flag) {
			return fmt.Errorf("--%s: is for %s", flag, what)
		}
	}
	if m.repetitions < 1 {
		return fmt.Errorf("--repetitions %d: need at least 1", m.repetitions)
	}
	for _, n := range slices.Concat(m.prompts, m.gens) {
		if n < 0 {
			return fmt.Errorf("--n-prompt and --n-gen: accept numbers from 0 on, and not %d", n)
		}
	}
	return nil
}

// modelTest is a number of tokens that are computed as a prompt, or decoded one after the other.
type modelTest struct {
	tokens int
	decode bool
}

func (t modelTest) name() string {
	if t.decode {
		return fmt.Sprintf("tg%d", t.tokens)
	}
	return fmt.Sprintf("pp%d", t.tokens)
}

// tests are those that flags ask for; the error is about one that a model has no room for.
func (m *modelBench) tests(contextTokens int) (out []modelTest, most int, err error) {
	for _, n := range m.prompts {
		out = append(out, modelTest{n, false})
	}
	for _, n := range m.gens {
		out = append(out, modelTest{n, true})
	}
	out = slices.DeleteFunc(out, func(t modelTest) bool { return t.tokens == 0 })
	if len(out) == 0 {
		return nil, 0, errors.New("--n-prompt and --n-gen: are both 0, which leaves nothing to measure")
	}
	for _, t := range out {
		if most = max(most, t.tokens); t.tokens > contextTokens {
			return nil, 0, fmt.Errorf("%s: the model was made for %s", t.name(), count(contextTokens, "token"))
		}
	}
	return out, most, nil
}

// run measures a model on all combinations of threads, layouts and types.
func (m *modelBench) run(cmd *cobra.Command, f benchFlags) (err error) {
	bar := &loadBar{line: newProgress(cmd.ErrOrStderr()), begin: time.Now()}
	model, err := runner.LoadWeights(m.model, bar.show)
	bar.line.clear()
	if err != nil {
		return notDownloaded(m.model, err)
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	tests, most, err := m.tests(model.Context)
	if err != nil {
		return err
	}
	layouts, types := []string{""}, []string{""} // what generate has
	if cmd.Flags().Changed("layout") {
		layouts = f.lists.layouts
	}
	if cmd.Flags().Changed("kv-dtype") {
		types = f.lists.dtypes
	}
	write := (&modelTable{out: cmd.OutOrStdout()}).write
	if f.json {
		write = func(r modelRow) error { return writeJSON(cmd.OutOrStdout(), r) }
	}
	for _, threads := range f.lists.threads {
		for _, layout := range layouts {
			for _, dtype := range types {
				if err := m.on(cmd, model, deviceFlags{f.backend, threads}, cacheFlags{layout: layout, kvDType: dtype}, tests, most, write); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// on measures a model on one device with one kind of cache.
func (m *modelBench) on(cmd *cobra.Command, model *runner.Model, device deviceFlags, cache cacheFlags, tests []modelTest, most int, write func(modelRow) error) (err error) {
	cfg, err := cache.config()
	if err != nil {
		return err
	}
	be, err := device.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	if cfg.Storage.K, err = cache.kvType(be); err != nil {
		return err
	}
	cfg.Memory.MaxSeqs, cfg.Memory.Capacity = 1, max(most, 1)
	r, err := runner.New(be, model, runner.Options{Cache: cfg, Threads: device.threads})
	if errors.Is(err, backend.ErrOutOfMemory{}) {
		return fmt.Errorf("a cache of %s, and what computes it, do not fit the memory of %s; lower --n-prompt or --n-gen", count(most, "token"), be.Info().Name)
	}
	if err != nil {
		return asFlag(asVariable(err, cfg, be.Info().Name))
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	cfg = r.Pool().Config()
	progress := newProgress(cmd.ErrOrStderr())
	defer progress.clear()
	for _, test := range tests {
		var rates []float64
		for i := range 1 + m.repetitions {
			progress.show("%s, %d of %d", test.name(), i, m.repetitions)
			_, took, err := test.run(cmd.Context(), r, model.Vocab, promptStep, math.MaxInt64)
			if err != nil {
				return err
			}
			if i > 0 {
				rates = append(rates, float64(test.tokens)/took.Seconds())
			}
		}
		progress.clear()
		row := modelRow{Model: filepath.Base(m.model), Size: int64(model.Size), Parameters: model.Parameters, Backend: be.Info().Name, Threads: cmp.Or(device.threads, runtime.GOMAXPROCS(0)),
			Layout: cfg.Memory.Layout.String(), KType: cfg.Storage.K.String(), Test: test.name(), Repetitions: m.repetitions}
		row.PerSecond, row.Deviation = meanAndDeviation(rates)
		if err := write(row); err != nil {
			return err
		}
	}
	return nil
}

// promptStep is how many tokens of a prompt are computed at a time, as generate does.
const promptStep = 256

// run computes a test's tokens, which are random so that no prefix is found, in a sequence of its own: those of a prompt step by step, and n of them if
// the limit comes before the end.
func (t modelTest) run(ctx context.Context, r *runner.Runner[backend.AnyBuffer], vocabulary, step int, limit time.Duration) (n int, took time.Duration, err error) {
	tokens := make([]uint32, t.tokens)
	for i := range tokens {
		tokens[i] = rand.Uint32N(uint32(vocabulary))
	}
	if t.decode {
		step = 1
	}
	begin := time.Now()
	seq, match, err := r.Pool().Open(tokens[:min(step, len(tokens))], kvcache.OpenOptions{})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, seq.Release()) }()
	for n = match.Cached; n < len(tokens) && time.Since(begin) < limit; {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		next := tokens[n:min(n+step, len(tokens))]
		next = next[:max(seq.Piece(len(next)), 1)] // a step ends where a state is kept
		if _, err := r.Forward([]runner.Work[backend.AnyBuffer]{{Seq: seq, Tokens: next}}, false); err != nil {
			return 0, 0, err
		}
		n += len(next)
	}
	return n, time.Since(begin), nil
}

// meanAndDeviation are the mean of numbers and the standard deviation of one of them; 0 of a single one.
func meanAndDeviation(x []float64) (mean, deviation float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		deviation += (v - mean) * (v - mean) / float64(max(len(x)-1, 1))
	}
	return mean, math.Sqrt(deviation)
}
