package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes. 130 is what a shell gives a program that SIGINT ended.
const (
	exitOK          = 0
	exitError       = 1
	exitInterrupted = 130
)

// run runs the program and returns its exit code. An error is one line on stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	stdout, stderr = &screen{to: stdout}, &screen{to: stderr}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitOK
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
replays serving traces through its prefix cache, and shows what this machine can run.`,
		Example: `  ferrumkv generate                     # the embedded model tells a story
  ferrumkv doctor                       # devices and configuration
  ferrumkv bench --kernel attend        # attention against memory bandwidth
  ferrumkv replay                       # policies of the prefix cache side by side
  ferrumkv replay --disk 20x            # and with a disk below it
  ferrumkv quality                      # what int8, int4 and eviction cost the model`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see '%s --help'", err, cmd.CommandPath())
	})
	root.AddCommand(newGenerate(), newDoctor(), newBench(), newReplay(), newQuality(), newInspect(), newProof(), newVersion())
	return root
}

// noArgs refuses what is neither a flag nor a command.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	what := "argument"
	if !cmd.HasParent() {
		what = "command"
	}
	return fmt.Errorf("unknown %s %q; see '%s --help'", what, args[0], cmd.CommandPath())
}
