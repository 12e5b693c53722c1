package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/cmd/internal/tokenizer"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/spf13/cobra"
)

// chatContext is how many tokens a conversation has room for, if nothing says otherwise.
const chatContext = 8192

// chatFlags are the settings of chat.
type chatFlags struct {
	textFlags
	template, system string
}

func newChat() *cobra.Command {
	var f chatFlags
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Talk with a model whose keys and values stay in the cache between turns",
		Long: fmt.Sprintf(`chat reads what you say line by line, from a terminal or a pipe, and prints the model's
answers. A line that ends in \ goes on in the next one. The model's chat template makes the
prompt; a model without one needs --template, or 'ferrumkv generate'.

What a model thinks before it answers, between <think> and </think> or in the channels of
gpt-oss, is printed to standard error as [thinks: ...], and the answer to standard output.

The cache stays between turns: of each prompt, which is the whole conversation, only what is
new is computed, and a line on standard error says how much that was. Where a template takes
something out of earlier answers, such as what a model thought, the conversation is computed
from there on.

The lines /clear, which begins a new conversation, /exit and /help are for the program.

Ctrl-C stops an answer, of which what was printed stays in the conversation. Another one, or
one at the prompt, ends the program, as the end of the input does. --save writes the
conversation and its cache to a file then, and --resume continues it.

A conversation has room for %d tokens, or for what --context says.`, chatContext),
		Example: `  # a conversation
  ferrumkv chat --model Llama-3.2-1B-Instruct --system "You answer in one sentence."

  # sampled as llama.cpp does it by default
  ferrumkv chat --model gemma-3-1b-it.gguf --temperature 0.8 --top-k 40 --top-p 0.95 --min-p 0.05

  # two turns from a pipe, and a third one in another run
  printf 'Who are you?\nSince when?\n' | ferrumkv chat --model Qwen3-0.6B --save talk.snap
  echo 'Are you sure?' | ferrumkv chat --model Qwen3-0.6B --resume talk.snap`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.register(cmd, fmt.Sprintf("%d, or the model's context where that is less", chatContext))
	flags.Lookup("layout").Usage = layoutUsage(kvcache.Paged)
	flags.StringVar(&f.template, "template", "", "`FILE` with a chat template in Jinja (default: the model's)")
	flags.StringVar(&f.system, "system", "", "`TEXT` of the system prompt")
	flags.IntVarP(&f.maxTokens, "max-tokens", "n", 0, "at most `N` new tokens for each answer; 0, the default, or -1: until it ends")
	flags.BoolVar(&f.json, "json", false, "print one JSON object for each answer")
	return cmd
}

// config checks the flags, and is what they say of the cache.
func (f *chatFlags) config(cmd *cobra.Command) (cfg kvcache.Config, err error) {
	cfg, err = f.textFlags.config(cmd, "system", "seed")
	f.pageByDefault(&cfg)
	return cfg, err
}

// pageByDefault makes the layout paged, which finds what an earlier turn began like, where nothing says another one.
func (f *chatFlags) pageByDefault(cfg *kvcache.Config) {
	if f.cache.layout == "" && os.Getenv(config.EnvPaged) == "" {
		cfg.Memory.Layout = kvcache.Paged
	}
}

// readTemplate is the chat template.
func (f *chatFlags) readTemplate() (t chat.Template, err error) {
	if t, err = f.findTemplate(); err != nil || t.Source != "" {
		return t, err
	}
	who := "the embedded model"
	if f.model.model != "" {
		who = "--model " + f.model.model
	}
	return t, fmt.Errorf("%s brings no chat template, so it may not be made for conversations; name one with --template FILE (Jinja, such as the chat_template.jinja of a model of the same family), or continue a text with 'ferrumkv generate'", who)
}

// findTemplate is the chat template of a file, or the model's; without a source where there is none.
func (f *chatFlags) findTemplate() (t chat.Template, err error) {
	t.Now = time.Now()
	if f.model.model != "" {
		if t.Source, t.BOS, t.EOS, err = runner.ChatTemplate(f.model.model); err != nil {
			return t, notDownloaded(f.model.model, err)
		}
	}
	if f.template != "" {
		source, err := os.ReadFile(f.template)
		if err != nil {
			return t, fmt.Errorf("--template: %w", err)
		}
		if len(source) == 0 {
			return t, fmt.Errorf("--template %s: is empty", f.template)
		}
		t.Source = string(source)
	}
	return t, nil
}

// try renders a conversation, so that a template that cannot be used is known before the model is read.
func (f *chatFlags) try(ctx context.Context, t chat.Template) error {
	hello := []chat.Message{{Role: "user", Content: "hello"}}
	without, err := t.Render(ctx, hello, true)
	if err == nil && without == "" {
		err = chat.ErrTemplate{Why: "makes no text of a message"}
	}
	if err != nil {
		return fmt.Errorf("%w; name another one with --template FILE", err)
	}
	if f.system == "" {
		return nil
	}
	with, err := t.Render(ctx, append([]chat.Message{{Role: "system", Content: f.system}}, hello...), true)
	if err == nil && with == without {
		err = chat.ErrTemplate{Why: "leaves system prompts out"}
	}
	if err != nil {
		return fmt.Errorf("--system: %w; say it in the first message instead", err)
	}
	return nil
}

func (f chatFlags) run(cmd *cobra.Command) error {
	cfg, err := f.config(cmd)
	if err != nil {
		return err
	}
	template, err := f.readTemplate()
	if err == nil {
		err = f.try(cmd.Context(), template)
	}
	if err != nil {
		return err
	}
	needs := func(*tokenizer.Tokenizer) (sequences, tokens int, err error) { return 1, chatContext, nil }
	return f.write(cmd, cfg, 0, needs, func(w writer) error {
		d := &dialogue{chatFlags: f, bounds: w.bounds, runner: w.runner, template: template, tokenizer: w.tokenizer.Spoken(), out: asItIs(cmd.OutOrStdout()), notes: cmd.ErrOrStderr()}
		if f.system != "" {
			d.messages = []chat.Message{{Role: "system", Content: f.system}}
		}
		if err := d.resume(cmd, w.model.Vocab); err != nil {
			return err
		}
		err := d.talk(cmd)
		return errors.Join(asVariable(err, w.runner.Pool().Config(), w.device.Name), d.end())
	})
}
