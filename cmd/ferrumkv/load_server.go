package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/ferrumkv/ferrumkv/cmd/internal/load"
	"github.com/spf13/cobra"
)

// envClientKey is where programs look for a key of such servers.
const envClientKey = "OPENAI_API_KEY"

// maxKey is longer than any key.
const maxKey = 16 << 10

// loadServerFlags say which server is measured, and how it is spoken to.
type loadServerFlags struct {
	url, model      string
	keyEnv, keyFile string
	chat, ignoreEOS bool
	vocabulary      int
}

func (f *loadServerFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.url, "url", "http://127.0.0.1:8080", "the server's `URL`, without /v1")
	flags.StringVarP(&f.model, "model", "m", "", "`NAME` of the model (default: the first that the server lists)")
	flags.StringVar(&f.keyEnv, "api-key-env", envClientKey, "`NAME` of an environment variable with the server's key; sent unencrypted to another machine only where you name it")
	flags.StringVar(&f.keyFile, "api-key-file", "", "`FILE` with the server's key")
	flags.BoolVar(&f.chat, "chat", false, "send prompts as messages to /v1/chat/completions rather than to /v1/completions")
	flags.IntVar(&f.vocabulary, "token-ids", 0, "send prompts as ids of tokens below `N`, such as the size of the model's vocabulary")
	flags.BoolVar(&f.ignoreEOS, "ignore-eos", false, "ask for answers of full length (ignore_eos), which not every server accepts")
}

// client is a client of the server, with the key.
func (f loadServerFlags) client(cmd *cobra.Command) (*load.Client, error) {
	set := cmd.Flags().Changed
	switch {
	case set("token-ids") && (f.vocabulary < 2 || f.vocabulary > 1<<31-1):
		return nil, fmt.Errorf("--token-ids %d: accepts 2 to %d", f.vocabulary, 1<<31-1)
	case f.vocabulary > 0 && f.chat:
		return nil, fmt.Errorf("--token-ids: messages are text; leave it out, or --chat")
	case set("api-key-env") && set("api-key-file"):
		return nil, fmt.Errorf("--api-key-file: one key is sent; leave it out, or --api-key-env")
	}
	c, err := load.NewClient(f.url)
	if err != nil {
		return nil, fmt.Errorf("--url: %w", err) // which may have a password, so it is not shown
	}
	c.Model, c.IgnoreEOS = f.model, f.ignoreEOS
	c.Key, err = f.key(set("api-key-env"))
	if c.Key != "" && c.Exposed() && !set("api-key-env") && !set("api-key-file") {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: the key of %s is not sent, because it would go unencrypted to another machine; --api-key-env %[1]s sends it\n", f.keyEnv)
		c.Key = ""
	}
	return c, err
}

// key reads the key; named: a variable was named, so it must be set.
func (f loadServerFlags) key(named bool) (string, error) {
	if f.keyFile == "" {
		key := strings.TrimSpace(os.Getenv(f.keyEnv))
		if key == "" && named {
			return "", fmt.Errorf("--api-key-env %s: is not set", f.keyEnv)
		}
		return key, nil
	}
	file, err := os.Open(f.keyFile)
	if err != nil {
		return "", fmt.Errorf("--api-key-file: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxKey))
	key := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", fmt.Errorf("--api-key-file: %w", err)
	case key == "" || strings.ContainsAny(key, "\r\n"):
		return "", fmt.Errorf("--api-key-file %s: need the key alone, in a line", f.keyFile)
	}
	return key, nil
}

// meet asks the server for its model, where none is named, and how many tokens words have.
func (f loadServerFlags) meet(ctx context.Context, c *load.Client, line *progress, seed uint64, timeout time.Duration) (d load.Dialect, counted bool, err error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	line.show("asking %s", c.Base())
	if c.Model == "" {
		if c.Model, err = c.FirstModel(limited); err != nil {
			return d, false, f.unmet(ctx, "/v1/models", err)
		}
	}
	d, counted, err = load.Calibrate(limited, c, load.Dialect{Chat: f.chat, Vocabulary: f.vocabulary}, seed)
	return d, counted, f.unmet(ctx, "the first request", err)
}

// unmet says what failed before the run, unless it was the run that ended.
func (f loadServerFlags) unmet(ctx context.Context, what string, err error) error {
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%s: %s: %w", f.url, what, err)
}
