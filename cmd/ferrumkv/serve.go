package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
	"github.com/ferrumkv/ferrumkv/cmd/internal/server"
	"github.com/ferrumkv/ferrumkv/cmd/internal/serving"
	"github.com/ferrumkv/ferrumkv/schedule"
	"github.com/spf13/cobra"
)

func newServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a model over HTTP, to many clients that share its cache",
		Long: `serve answers requests of OpenAI's API, /v1/completions and /v1/chat/completions, streamed
or not, and computes those of many clients in the same steps. What a prompt begins with like
an earlier one is not computed again; usage.prompt_tokens_details.cached_tokens says how much
that was. It is a bench for the cache with an address of its own, and not a product: what
would change an answer and is not there is refused with the name of the field.

It listens on this machine alone unless --listen says another address, and has no encryption.
Conversations need the model's chat template, or --template. The log, on standard error, has
a line for each prompt, those of the cache, and no text.

SIGTERM and Ctrl-C let the answers end that are being computed, and refuse others; a second
one ends the program at once.`,
		Example: `  # the embedded model, and a question to it
  ferrumkv serve
  curl http://127.0.0.1:8080/v1/completions -H 'Content-Type: application/json' -d '{"prompt": "Once upon a time"}'

  # a model for this network, with a key, and what was computed kept on a disk
  ferrumkv serve --model Qwen3-0.6B --listen 10.0.0.7:8080 --api-key-file key --disk ~/.cache/ferrumkv

  # events for a router
  ferrumkv serve --listen 10.0.0.7:8080 --events tcp://10.0.0.7:5557`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.register(cmd)
	return cmd
}

func (f serveFlags) run(cmd *cobra.Command) error {
	cfg, err := f.config()
	if err != nil {
		return err
	}
	key, err := f.key()
	if err != nil {
		return err
	}
	template, err := f.conversations(cmd)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: f.level}))
	cfg.Logger = log
	return f.write(cmd, cfg, 0, f.needs, func(w writer) error {
		return asVariable(f.serve(cmd, w, template, key, log), w.runner.Pool().Config(), w.device.Name)
	})
}

// errCut is the cause of the end of answers that took longer than a server had left.
var errCut = fmt.Errorf("the server ended: %w", context.Canceled)

// serve answers requests until a signal comes, and the answers have ended.
func (f *serveFlags) serve(cmd *cobra.Command, w writer, template *chat.Template, key string, log *slog.Logger) (err error) {
	pool := w.runner.Pool()
	engine, err := serving.New(w.runner, w.model, w.tokenizer, serving.Options{Template: template, Log: log, Schedule: schedule.Options{
		StepTokens: max(f.stepTokens, pool.Config().Memory.MaxSeqs), MaxWaiting: f.queue, Flush: f.flush}})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", f.listen, err)
	}
	defer l.Close()
	at := l.Addr().(*net.TCPAddr)
	if f.events != "" {
		stop, err := f.publish(engine, at, log)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	if key == "" && !at.IP.IsLoopback() {
		log.Warn("anybody who reaches this address can use the model: set " + envAPIKey + " or --api-key-file")
	}
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s at http://%s\n", f.name, at); err != nil {
		return err
	}
	h := server.New(engine, server.Options{Name: f.name, Key: key, Loopback: at.IP.IsLoopback(), Log: log}).HTTP()
	return f.until(cmd.Context(), engine, h, l, log)
}

// until serves until ctx ends, and then until the answers have ended, or time is up.
func (f *serveFlags) until(ctx context.Context, engine *serving.Engine, h *http.Server, l net.Listener, log *slog.Logger) error {
	running, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	ran, served := make(chan error, 1), make(chan error, 1)
	go func() { ran <- engine.Run(running) }()
	go func() { served <- h.Serve(l) }()
	var failed error
	select {
	case <-ctx.Done():
		log.Info("draining", "why", context.Cause(ctx).Error(), "most", f.drain)
	case failed = <-served:
	}
	engine.Drain()
	late := time.AfterFunc(f.drain, func() { cut(errCut) })
	err := <-ran
	late.Stop()
	if errors.Is(err, errCut) {
		err = fmt.Errorf("answers did not end within --drain %v, and were cut", f.drain)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if h.Shutdown(last) != nil { // clients that do not take what is theirs
		_ = h.Close()
	}
	return errors.Join(failed, err)
}
