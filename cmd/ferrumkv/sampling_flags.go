package main

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/spf13/cobra"
)

// samplingFlags say how tokens are chosen, and what ends a text.
type samplingFlags struct {
	runner.Sampling
	stop []string
}

func (f *samplingFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Float64Var(&f.Temperature, "temperature", 0, "`F`: 0, the default, takes the likeliest token, more is more random; it comes after the filters")
	flags.IntVar(&f.TopK, "top-k", 0, "sample from the `N` likeliest tokens; 0: from all")
	flags.Float64Var(&f.TopP, "top-p", 1, "of them, sample from the likeliest tokens that together have probability `F`")
	flags.Float64Var(&f.MinP, "min-p", 0, "of them, sample from tokens with at least `F` of the probability of the likeliest one")
	flags.Float64Var(&f.RepeatPenalty, "repeat-penalty", 1, "`F`: more than 1 makes tokens that the text has lately less likely")
	flags.IntVar(&f.RepeatLast, "repeat-last-n", 64, "--repeat-penalty is for the last `N` tokens; -1: for all, 0: for none")
	flags.Uint64Var(&f.Seed, "seed", 0, "seed `N` of the sampling; the same seed gives the same text")
	flags.StringArrayVar(&f.stop, "stop", nil, "`TEXT` that ends an answer and is not printed; repeat it for more")
}

// check is an error for what no sampling can be.
func (f *samplingFlags) check() error {
	if chat.Empty(f.stop) {
		return errors.New("--stop: is empty, so that every text would end before it begins")
	}
	if f.RepeatLast < -1 {
		return fmt.Errorf("--repeat-last-n %d: accepts a number of tokens, 0 for none, or -1 for all", f.RepeatLast)
	}
	if f.RepeatPenalty == 0 {
		return errors.New("--repeat-penalty 0: accepts numbers above 0; 1 changes nothing")
	}
	_, err := runner.NewSampler(f.Sampling, 0)
	return asFlag(err)
}

// note names the flags that do nothing as long as the likeliest token is taken.
func (f *samplingFlags) note(cmd *cobra.Command) {
	for _, name := range []string{"top-k", "top-p", "min-p"} {
		if f.Temperature == 0 && cmd.Flags().Changed(name) {
			fmt.Fprintf(cmd.ErrOrStderr(), "note: --%s does nothing at temperature 0, which takes the likeliest token\n", name)
		}
	}
}

// resume takes what was saved, where no flag says something else. The seed is in the sampler's state.
func (f *samplingFlags) resume(cmd *cobra.Command, saved runner.Sampling) {
	given := f.Sampling
	f.Sampling = saved
	for name, set := range map[string]func(){
		"temperature": func() { f.Temperature = given.Temperature }, "top-k": func() { f.TopK = given.TopK }, "top-p": func() { f.TopP = given.TopP },
		"min-p": func() { f.MinP = given.MinP }, "repeat-penalty": func() { f.RepeatPenalty = given.RepeatPenalty },
		"repeat-last-n": func() { f.RepeatLast = given.RepeatLast },
	} {
		if cmd.Flags().Changed(name) {
			set()
		}
	}
}
