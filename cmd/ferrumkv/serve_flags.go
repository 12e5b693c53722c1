package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
	"github.com/ferrumkv/ferrumkv/cmd/internal/tokenizer"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/spf13/cobra"
)

// serveFlags are the settings of serve.
type serveFlags struct {
	chatFlags
	listen, keyFile, name       string
	running, stepTokens, queue  int
	flush, drain                time.Duration
	events, endpoint, verbosity string
	level                       slog.Level
}

func (f *serveFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.model.register(cmd)
	f.device.register(cmd)
	f.cache.register(cmd)
	flags.Lookup("layout").Usage = layoutUsage(kvcache.Paged)
	f.room.register(cmd, fmt.Sprintf("%d, or the model's context where that is less", chatContext))
	f.tiers.register(cmd)
	f.secret.register(cmd, "files of --disk are sealed with it")
	flags.StringVar(&f.template, "template", "", "`FILE` with a chat template in Jinja (default: the model's)")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8080", "`ADDR` to listen on; port 0 takes one that is free")
	flags.StringVar(&f.keyFile, "api-key-file", "", "`FILE` with the key that clients send as Authorization: Bearer KEY (default: what "+envAPIKey+" says, else none)")
	flags.StringVar(&f.name, "served-name", "", "`NAME` of the model for clients (default: that of its file or folder)")
	flags.IntVar(&f.running, "max-running", 8, "at most `N` prompts are computed at a time")
	flags.IntVar(&f.stepTokens, "step-tokens", 256, "at most `N` tokens are computed in a step, those of prompts beside those of answers")
	flags.IntVar(&f.queue, "queue", 64, "at most `N` prompts wait; more are refused with 429")
	flags.DurationVar(&f.flush, "flush", 0, "the end of an answer waits for up to `DURATION` until tiers have what it computed, so that another process finds it")
	flags.DurationVar(&f.drain, "drain", 30*time.Second, "after SIGTERM or Ctrl-C the answers that are being computed have `DURATION` to end")
	flags.StringVar(&f.events, "events", "", "publish what the cache has, as vLLM does, on tcp://HOST:PORT (`ADDR`), and the replay on the next port")
	flags.StringVar(&f.endpoint, "endpoint", "", "`IP:PORT` by which routers know this server, for --events (default: that of --listen)")
	flags.StringVar(&f.verbosity, "log-level", "info", "`LEVEL` of the log on standard error: debug, info (a line for each prompt), warn or error")
}

// config checks the flags, and is what they say of the cache.
func (f *serveFlags) config() (cfg kvcache.Config, err error) {
	if err := f.level.UnmarshalText([]byte(f.verbosity)); err != nil {
		return cfg, fmt.Errorf("--log-level %s: accepts debug, info, warn and error", f.verbosity)
	}
	for name, n := range map[string]int{"max-running": f.running, "step-tokens": f.stepTokens, "queue": f.queue} {
		if n < 1 || n > 1<<16 {
			return cfg, fmt.Errorf("--%s %d: accepts 1 to %d", name, n, 1<<16)
		}
	}
	switch {
	case f.stepTokens < f.running:
		return cfg, fmt.Errorf("--step-tokens %d: every request that is computed has a token in a step; need at least the %d of --max-running", f.stepTokens, f.running)
	case f.flush < 0 || f.drain < 0:
		return cfg, errors.New("--flush and --drain: accept 0 or more")
	case f.endpoint != "" && f.events == "":
		return cfg, fmt.Errorf("--endpoint %s: is for --events", f.endpoint)
	}
	if f.chunk = f.stepTokens; f.name == "" {
		f.name = servedName(f.model.model)
	}
	if err = f.room.check(); err == nil {
		cfg, err = f.cache.config()
	}
	if err == nil {
		err = f.tiers.config(&cfg)
	}
	if err == nil {
		err = f.files.seal(f.secret, &cfg)
	}
	f.pageByDefault(&cfg)
	return cfg, err
}

// servedName is a model's name without what only this machine knows.
func servedName(path string) string {
	if path == "" {
		return "embedded"
	}
	if whole, err := filepath.Abs(path); err == nil { // of a path such as .
		path = whole
	}
	name := filepath.Base(path)
	for _, ext := range []string{".gguf", ".safetensors", ".bin"} {
		name = strings.TrimSuffix(name, ext)
	}
	return name
}

// needs is the room of the cache.
func (f *serveFlags) needs(*tokenizer.Tokenizer) (sequences, tokens int, err error) {
	return f.running, chatContext, nil
}

// conversations is the chat template; nil: the model has none.
func (f *serveFlags) conversations(cmd *cobra.Command) (*chat.Template, error) {
	t, err := f.findTemplate()
	if err != nil || t.Source == "" {
		return nil, err
	}
	return &t, f.try(cmd.Context(), t)
}

// key is what clients have to send; "": nothing.
func (f *serveFlags) key() (string, error) {
	if f.keyFile == "" {
		return strings.TrimSpace(os.Getenv(envAPIKey)), nil
	}
	text, err := os.ReadFile(f.keyFile)
	if err != nil {
		return "", fmt.Errorf("--api-key-file: %w", err)
	}
	key := strings.TrimSpace(string(text))
	if key == "" || strings.ContainsAny(key, " \t\r\n") {
		return "", fmt.Errorf("--api-key-file %s: need one key in one line", f.keyFile)
	}
	return key, nil
}
