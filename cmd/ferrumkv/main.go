// Command ferrumkv shows the cache at work: it generates text with a small model
// through it, measures its kernels and what its storage formats and eviction policies
// cost, replays serving traces through its prefix cache, and says what this machine can run.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/ferrumkv/ferrumkv/backend/all"
)

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		cause := context.Canceled
		if <-signals == syscall.SIGTERM {
			cause = errTerminated
		}
		signal.Stop(signals) // a second one ends the process at once
		cancel(cause)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
