package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/cmd/internal/tokenizer"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/spf13/cobra"
)

// What proof computes: the same of every model, so that two proofs can be compared.
const (
	proofLogits = 10  // the largest of a position
	proofTokens = 32  // of the text
	proofPrompt = 512 // tokens whose speed is measured, proofStep at a time
	proofStep   = 64
	proofDecode = 128
	proofLimit  = 30 * time.Second // of the prompt and of decoding, which then have fewer tokens
)

// proofFlags are the settings of proof.
type proofFlags struct {
	model  modelFlags
	device deviceFlags
}

func newProof() *cobra.Command {
	var f proofFlags
	cmd := &cobra.Command{
		Use:   "proof",
		Short: "Write down what a model computes on this machine, to be pasted and compared",
		Long: `proof runs a model for at most a minute or two and writes what it found as text: the machine,
the model's files with their SHA-256, how their tensors are stored, what its layers see,
the largest logits of the first and the last position of a fixed prompt, a text of 32
greedy tokens, the bytes of the cache, and how fast it was. Of each path it has only the last name.

Logits are also written in hexadecimal, to the last bit. Two machines with the same kernels
have the same bits; with others the last digits differ.`,
		Example: `  ferrumkv proof
  ferrumkv proof --model Llama-3.2-1B-Instruct-Q4_K_M.gguf > proof.txt`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.model.register(cmd)
	f.device.register(cmd)
	return cmd
}

func (f proofFlags) run(cmd *cobra.Command) (err error) {
	begin := time.Now()
	be, err := f.device.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	model, words, err := f.model.load(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	r, err := runner.New(be, model, runner.Options{Threads: f.device.threads, Cache: kvcache.Config{
		Storage: kvcache.Storage{K: backend.F16}, Memory: kvcache.Memory{Capacity: min(2*proofPrompt, model.Context), MaxSeqs: 1}}})
	if err != nil {
		return asFlag(err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	p := proof{out: cmd.OutOrStdout(), model: model, words: words, runner: r}
	p.line("ferrumkv", "%s", strings.TrimPrefix(version(), "ferrumkv "))
	p.line("date", "%s", begin.UTC().Format(time.RFC3339))
	p.machine(be.Info())
	p.line("ready", "after %s", seconds(time.Since(begin).Seconds()))
	files := func(ctx context.Context) error { return p.files(ctx, f.model) } // last: hashing reads all of them
	for _, part := range []func(context.Context) error{p.shape, p.logits, p.text, p.speed, files} {
		if err := cmp.Or(part(cmd.Context()), p.err); err != nil {
			return err
		}
	}
	return nil
}

// proof is what is written of a model.
type proof struct {
	out    io.Writer
	model  *runner.Model
	words  *tokenizer.Tokenizer
	runner *runner.Runner[backend.AnyBuffer]
	err    error // the first of out
}

// line writes a line with its name in front of it.
func (p *proof) line(name, format string, a ...any) {
	_, err := fmt.Fprintf(p.out, "%-9s %s\n", name, fmt.Sprintf(format, a...))
	p.err = cmp.Or(p.err, err)
}

func (p *proof) machine(device backend.Info) {
	kernels := ""
	if device.Kernels != "" {
		kernels = ", " + device.Kernels + " kernels"
	}
	p.line("machine", "%s, %s, %s%s, %s of memory; %s", device.Name, device.Device, count(device.ComputeUnits, "unit"), kernels, byteSize(device.TotalMemory), count(runtime.NumCPU(), "CPU"))
	if name := system(); name != "" {
		p.line("system", "%s", name)
	}
}

// shape writes what the layers see and store, and what their cache takes.
func (p *proof) shape(context.Context) error {
	cfg := p.runner.Pool().Config()
	var types []string
	for _, name := range slices.Sorted(maps.Keys(p.model.Types)) {
		types = append(types, fmt.Sprintf("%d in %s", p.model.Types[name], name))
	}
	p.line("tensors", "%s", strings.Join(types, ", "))
	p.line("model", "%s, %s of %d, a vocabulary of %d, made for %s", p.model.Family, count(p.model.Config.Layers, "layer"), p.model.Dim, p.model.Vocab, count(p.model.Context, "token"))
	for _, l := range layersOf(&cfg.Model) {
		p.line("layers", "%s: %s", l.Layers, l.line())
	}
	token, err := cfg.BytesPerToken()
	if err != nil {
		return err
	}
	all, err := cfg.Bytes()
	p.line("cache", "%s in %s: %d bytes a token, %d for %s", cfg.Memory.Layout, cfg.Storage.K, token, all, count(cfg.Memory.Capacity, "token"))
	return err
}

// logits writes the largest logits of the first and the last position of the default prompt.
func (p *proof) logits(context.Context) error {
	tokens := p.words.Encode(defaultPrompt)
	p.line("prompt", "%q, tokens %d", defaultPrompt, tokens)
	seq, _, err := p.runner.Pool().Open(tokens, kvcache.OpenOptions{NoReuse: true})
	if err != nil {
		return err
	}
	rows, err := p.runner.Forward([]runner.Work[backend.AnyBuffer]{{Seq: seq, Tokens: tokens}}, true)
	if err != nil {
		return errors.Join(err, seq.Release())
	}
	for _, at := range []int{0, len(tokens) - 1} {
		row := rows.Row(at)
		best := make([]int, len(row))
		for i := range best {
			best[i] = i
		}
		slices.SortStableFunc(best, func(a, b int) int { return cmp.Compare(row[b], row[a]) })
		for _, token := range best[:min(proofLogits, len(best))] {
			p.line("logit", "position %d, token %d: %.6g %x", at, token, row[token], row[token])
		}
	}
	return seq.Release()
}

// text writes the likeliest tokens after the default prompt, one after another.
func (p *proof) text(ctx context.Context) error {
	tokens := p.words.Encode(defaultPrompt)
	var text []uint32
	_, err := p.runner.Generate(ctx, []runner.Prompt{{Tokens: tokens}}, proofTokens, runner.Sampling{}, func(_ int, token uint32) error {
		text = append(text, token)
		return nil
	})
	decoder, written := p.words.Decoder(tokens...), ""
	for _, token := range text {
		written += decoder.Add(token)
	}
	p.line("tokens", "%d", text)
	p.line("text", "%q", written+decoder.Rest())
	return err
}

// speed writes how many tokens a second are computed of a prompt, and decoded: what bench --model measures, but once, and with an end on slow machines.
func (p *proof) speed(ctx context.Context) error {
	capacity := p.runner.Pool().Config().Memory.Capacity
	for _, test := range []modelTest{{min(proofPrompt, capacity), false}, {min(proofDecode, capacity), true}} {
		n, took, err := test.run(ctx, p.runner, p.model.Vocab, proofStep, proofLimit)
		if err != nil {
			return err
		}
		p.line("speed", "%s: %s in %s, %.1f tokens/s", test.name(), count(n, "token"), seconds(took.Seconds()), perSecond(n, took))
	}
	return nil
}
