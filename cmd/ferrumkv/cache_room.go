package main

import (
	"fmt"
	"os"

	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/spf13/cobra"
)

// roomFlags say how many tokens a sequence may have.
type roomFlags struct{ context int }

func (f *roomFlags) register(cmd *cobra.Command) {
	cmd.Flags().IntVarP(&f.context, "context", "c", 0, "room for `N` tokens of each text, prompt and answers; at most the model's context (default: what "+config.EnvCapacity+" says, else as many as are asked for)")
}

// check is an error for a number that no model can have.
func (f roomFlags) check() error {
	if f.context < 0 {
		return fmt.Errorf("--context %d: accepts a number of tokens, or 0 for as many as are asked for", f.context)
	}
	return nil
}

// size makes room for a number of sequences of at most tokens each, as far as the flag and the environment leave that open. context is the model's.
func (f roomFlags) size(cfg *kvcache.Config, sequences, tokens, context int) {
	if os.Getenv(config.EnvMaxSeqs) == "" { // else the variable decides, as everywhere
		cfg.Memory.MaxSeqs = max(sequences, 1)
	}
	cfg.Memory.Capacity = f.context
	if f.context == 0 && os.Getenv(config.EnvCapacity) == "" {
		cfg.Memory.Capacity = min(max(tokens, 1), context)
	}
}

// limit says what bounds a sequence of capacity tokens: the flag, a variable, or the model, which was made for context tokens.
func (f roomFlags) limit(capacity, context int) string {
	switch {
	case capacity == context:
		return fmt.Sprintf("the model's context of %s", count(context, "token"))
	case f.context > 0:
		return fmt.Sprintf("the %s of --context", count(capacity, "token"))
	}
	return fmt.Sprintf("the capacity of %s, which %s sets", count(capacity, "token"), config.EnvCapacity)
}

// atMost adds numbers of tokens without overflow, as far as a model's context can be of interest.
func atMost(tokens ...int) (sum int) {
	for _, n := range tokens {
		sum = min(sum+min(n, 1<<30), 1<<30)
	}
	return sum
}
