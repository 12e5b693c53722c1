package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/cmd/internal/tokenizer"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/spf13/cobra"
)

// textFlags are the settings that generate and chat have in common.
type textFlags struct {
	model     modelFlags
	maxTokens int // which each registers
	room      roomFlags
	sampling  samplingFlags
	device    deviceFlags
	cache     cacheFlags
	tiers     tierFlags
	files     saves
	secret    secretFlag
	json      bool // likewise
	chunk     int  // most prompt tokens of a step; 0: the runner's default
}

// register adds the flags; room is how many tokens there is room for where nothing says it.
func (f *textFlags) register(cmd *cobra.Command, room string) {
	f.model.register(cmd)
	f.sampling.register(cmd)
	f.device.register(cmd)
	f.cache.register(cmd)
	f.room.register(cmd, room)
	f.tiers.register(cmd)
	f.files.register(cmd)
	f.secret.register(cmd, "files of --save and --disk are sealed with it, and --resume opens one that is")
}

// config checks the flags, and is what they say of the cache. resumed are those whose values the file of --resume has.
func (f *textFlags) config(cmd *cobra.Command, resumed ...string) (cfg kvcache.Config, err error) {
	if f.maxTokens < -1 {
		return cfg, fmt.Errorf("--max-tokens %d: accepts a number of tokens, or -1 for as many as there are until the text ends", f.maxTokens)
	}
	f.maxTokens = max(f.maxTokens, 0)
	if err = cmp.Or(f.room.check(), f.sampling.check(), f.files.check(cmd, resumed)); err != nil {
		return cfg, err
	}
	if cfg, err = f.cache.config(); err == nil {
		err = f.tiers.config(&cfg)
	}
	if err == nil {
		err = f.files.seal(f.secret, &cfg)
	}
	if err == nil && f.files.resume == "" {
		f.sampling.note(cmd)
	}
	return cfg, err
}

// writer is a model that is ready to write texts.
type writer struct {
	device    backend.Info
	model     *runner.Model
	tokenizer *tokenizer.Tokenizer
	runner    *runner.Runner[backend.AnyBuffer]
	bounds    bounds // of its answers
}

// write opens a model with a cache, for as many sequences as needs says, and the tokens of the longest one, and closes it after use.
func (f *textFlags) write(cmd *cobra.Command, cfg kvcache.Config, guesses int, needs func(*tokenizer.Tokenizer) (sequences, tokens int, err error), use func(writer) error) (err error) {
	be, err := f.device.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	if cfg.Storage.K, err = f.cache.kvType(be); err != nil {
		return err
	}
	model, tokenizer, err := f.model.load(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	sequences, tokens, err := needs(tokenizer)
	if err != nil {
		return err
	}
	f.room.size(&cfg, sequences, tokens, model.Context)
	r, err := runner.New(be, model, runner.Options{Cache: cfg, Threads: f.device.threads, Guesses: guesses, Chunk: f.chunk, Lasting: f.files.any()})
	if err != nil {
		return asFlag(asVariable(err, cfg, be.Info().Name))
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	capacity := r.Pool().Config().Memory.Capacity
	return use(writer{be.Info(), model, tokenizer, r, f.room.bounds(cmp.Or(f.maxTokens, capacity+1), capacity, model.Context)})
}
