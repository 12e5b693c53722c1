// Command ferrumkv shows the cache at work: it generates text with a small model
// through it, measures its kernels and what its storage formats and eviction policies
// cost, replays serving traces through its prefix cache, and says what this machine can run.
package main

import (
	"context"
	"os"
	"os/signal"

	_ "github.com/ferrumkv/ferrumkv/backend/all"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
