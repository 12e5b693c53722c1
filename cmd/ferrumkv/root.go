package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes. 130 and 143 are what a shell gives a program that SIGINT or SIGTERM ended.
const (
	exitOK          = 0
	exitError       = 1
	exitInterrupted = 130
	exitTerminated  = 143
)

// errTerminated is the cause of a context that SIGTERM ended.
var errTerminated = errors.New("terminated")

// run runs the program and returns its exit code. An error is one line on stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	stdout, stderr = &screen{to: stdout}, &screen{to: stderr}
	root.SetArgs(args)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return flagError(cmd, err, args) })
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), errTerminated) || errors.Is(err, errTerminated):
		fmt.Fprintln(stderr, "ferrumkv: terminated")
		return exitTerminated
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "ferrumkv: interrupted")
		return exitInterrupted
	}
	fmt.Fprintln(stderr, "ferrumkv: "+strings.ReplaceAll(err.Error(), "\n", "; "))
	return exitError
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "ferrumkv",
		Short: "The KV cache of LLM inference, at work",
		Long: `ferrumkv runs a small language model through the ferrumkv cache library,
measures the library's kernels and what its storage formats and eviction policies cost,
replays serving traces through its prefix cache, measures servers, and shows what this machine can run.`,
		Example: `  ferrumkv generate                     # the embedded model tells a story
  ferrumkv chat --model FOLDER          # a conversation whose cache stays between turns
  ferrumkv serve --model FOLDER         # the same for many, over HTTP
  ferrumkv doctor                       # devices and configuration
  ferrumkv bench --kernel attend        # attention against memory bandwidth
  ferrumkv replay                       # policies of the prefix cache side by side
  ferrumkv replay --disk 20x            # and with a disk below it
  ferrumkv load --concurrency 4         # a server under load
  ferrumkv tokenize "Once upon a time"  # the tokens of a text
  ferrumkv cache list --disk DIR        # what disks left behind
  ferrumkv states list DIR              # conversations that a program keeps
  ferrumkv quality                      # what int8, int4 and eviction cost the model`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArgs,

		PersistentPreRunE: checkSet,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(newGenerate(), newChat(), newServe(), newLoad(), newRender(), newDoctor(), newBench(), newReplay(), newQuality(), newInspect(), newTokenize(), newCache(), newStates(), newProof(), newVersion())
	return root
}
