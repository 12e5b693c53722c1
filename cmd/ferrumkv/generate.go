package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/cmd/internal/tokenizer"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/spf13/cobra"
)

// The defaults give the first text of the embedded model's expected.json.
const (
	defaultPrompt    = "Once upon a time"
	defaultMaxTokens = 300
)

// generateFlags are the settings of generate.
type generateFlags struct {
	textFlags
	input          promptFlags
	prompts, turns []string // what input reads
	guesses        int
}

func newGenerate() *cobra.Command {
	var f generateFlags
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Generate text with a model whose keys and values are in the cache",
		Long: `generate continues a prompt with a model, all of whose keys, values and states go
through the cache. The text goes to standard output, a short report to standard
error. One prompt streams. Several decode as one batch; their texts are printed when
all are done, labelled and in order. --turn continues each text after its answer.

Prompts come from --prompt, from --file, or from a pipe or a file that is standard input,
which --prompt - and --file - name too. The cache has room for these prompts and their
answers, up to the model's context; --context says another number of tokens.

--guesses computes a tree of guesses in each step; those that are right save steps.

In the paged layout equal prompts share their blocks, and what a prompt begins with
like another one, or like the turn before it, is not computed again.

With --host-bytes or --disk the layout is paged, and what was computed is kept in host
memory, or in files that the next run finds, too. Of a prompt that begins like an earlier
one, also of another run, what is new is computed, and the rest is loaded where that is
faster than computing it. A disk that fails costs time, and changes no text.

--save writes what the cache has of the texts to a file, and --resume continues from one with
the same text as one longer run, also in another layout or on another device. --secret seals
what is in files, for the text can be computed from it.`,
		Example: `  # a story of the embedded model
  ferrumkv generate

  # the same text from blocks of 8 tokens
  ferrumkv generate --layout paged --block-size 8

  # keys and values in 4 bits, the last tokens exact
  ferrumkv generate --layout paged --block-size 32 --kv-dtype int4channel --residual 32

  # two prompts as one batch, sampled, with the numbers as JSON
  ferrumkv generate --prompt "The big dog" --prompt "Lily wanted a cat" --temperature 0.8 --json

  # a conversation: of the second turn, only what is new is computed
  ferrumkv generate --layout paged --max-tokens 80 --turn " Then" --turn " The end"

  # the second run computes only what the first one did not
  ferrumkv generate --disk ~/.cache/ferrumkv --prompt "Once upon a time, there was a little girl"
  ferrumkv generate --disk ~/.cache/ferrumkv --prompt "Once upon a time, there was a little girl"

  # a text in two runs, the second of which computes only what is new
  ferrumkv generate --max-tokens 150 --save story.snap
  ferrumkv generate --max-tokens 150 --resume story.snap

  # a file that only someone who has the secret can read
  (umask 077; head -c 32 /dev/urandom > secret)
  ferrumkv generate --max-tokens 150 --save story.snap --secret secret

  # the same text in fewer steps
  ferrumkv generate --guesses 8

  # keys, values and attention on the first NVIDIA device, or on the GPU of a Mac
  ferrumkv generate --backend cuda:0
  ferrumkv generate --backend metal:0

  # a prompt of a file, or of another program
  ferrumkv generate --file prompt.txt
  echo "The big dog" | ferrumkv generate

  # models of your own
  ferrumkv generate --model stories260K.bin --tokenizer tok512.bin --prompt "One day"
  ferrumkv generate --model Llama-3.2-1B --prompt "One day"`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.register(cmd, "as many as prompts and answers need")
	f.input.register(cmd)
	flags.StringArrayVar(&f.turns, "turn", nil, "`TEXT` to continue with after each answer; repeat it for more turns")
	flags.IntVarP(&f.maxTokens, "max-tokens", "n", defaultMaxTokens, "at most `N` new tokens for each prompt and turn; 0 or -1: until the text ends")
	flags.IntVar(&f.guesses, "guesses", 0, "guess up to `N` tokens a step from what followed the same text before; the text stays the same (temperature 0 only)")
	flags.BoolVar(&f.json, "json", false, "print one JSON object for each prompt, its turns included, and one for the report")
	return cmd
}

// config checks the flags, and is what they say of the cache.
func (f *generateFlags) config(cmd *cobra.Command) (kvcache.Config, error) {
	var err error
	switch {
	case f.files.any() && len(f.turns) > 0:
		err = errors.New("--turn: cannot be used with --save and --resume; resume what was saved without it")
	case f.files.save != "" && len(f.sampling.stop) > 0:
		err = errors.New("--stop: cannot be used with --save: --resume would go on after tokens that are not shown; 'ferrumkv chat --save' keeps what is")
	case f.guesses > 0 && f.sampling.Temperature > 0:
		err = fmt.Errorf("--guesses %d: what is guessed is compared with the likeliest token, so it needs --temperature 0", f.guesses)
	case f.guesses > 0 && f.sampling.RepeatPenalty != 1:
		err = fmt.Errorf("--guesses %d: what is guessed is compared with the likeliest token, so it needs --repeat-penalty 1", f.guesses)
	}
	if err != nil {
		return kvcache.Config{}, err
	}
	return f.textFlags.config(cmd, "prompt", "file", "seed")
}

func (f generateFlags) run(cmd *cobra.Command) error {
	cfg, err := f.config(cmd)
	if err == nil && f.files.resume == "" {
		f.prompts, err = f.input.read(cmd)
	}
	if err != nil {
		return err
	}
	return f.write(cmd, cfg, f.guesses, f.needs, func(w writer) error { return f.texts(cmd, w) })
}

// texts writes what follows the prompts, and the report.
func (f *generateFlags) texts(cmd *cobra.Command, w writer) error {
	pool := w.runner.Pool()
	if err := f.files.load(cmd, pool, w.model.Vocab, f); err != nil {
		return err
	}
	t := newTranscript(cmd, f, w)
	if err := t.checkPrompts(); err != nil {
		return err
	}
	stats, failed := t.generate(cmd.Context(), w.runner)
	ended := ""
	if failed == nil {
		ended = t.endings()
	}
	note, failed := f.files.finish(pool, f.sampling.Sampling, failed)
	if note != "" {
		defer fmt.Fprintln(cmd.ErrOrStderr(), "note: "+note) // after the text
	}
	failed = asVariable(failed, pool.Config(), w.device.Name)
	if failed != nil && !t.presentable() {
		return failed
	}
	err := t.finish()
	if err == nil {
		err = f.report(cmd, w.device, w.runner, stats, ended)
	}
	return errors.Join(failed, err)
}

// needs is how many sequences there are, and the tokens that the longest one may have in the end.
func (f *generateFlags) needs(tokenizer *tokenizer.Tokenizer) (sequences, tokens int, err error) {
	if f.files.resume != "" {
		if sequences, tokens, err = f.files.lengths(); err != nil {
			return 0, 0, err
		}
	}
	for _, prompt := range f.prompts {
		sequences, tokens = sequences+1, max(tokens, len(tokenizer.Encode(prompt)))
	}
	answer := cmp.Or(f.maxTokens, chatContext)
	tokens = atMost(tokens, answer, f.guesses)
	for _, turn := range f.turns {
		tokens = atMost(tokens, len(tokenizer.EncodeMore(turn)), answer)
	}
	return sequences, tokens, nil
}

// report shows what a generation cost, why its texts ended ("": they did not), and what is in tiers then.
func (f *generateFlags) report(cmd *cobra.Command, device backend.Info, r *runner.Runner[backend.AnyBuffer], did runner.Report, ended string) error {
	pool := r.Pool()
	ctx, cancel := context.WithTimeout(cmd.Context(), storeWait)
	defer cancel()
	_ = pool.Flush(ctx) // what is not stored by then the numbers do not have
	stats, err := pool.Stats()
	if err != nil {
		return err
	}
	shown, err := newReport(*f, device, pool.Config(), did, stats)
	if err != nil {
		return err
	}
	shown.ended = ended
	return shown.show(cmd, f.json)
}
