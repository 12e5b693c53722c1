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

// register adds the flag; otherwise is how many tokens there are where nothing says it.
func (f *roomFlags) register(cmd *cobra.Command, otherwise string) {
	cmd.Flags().IntVarP(&f.context, "context", "c", 0, "room for `N` tokens of each text, prompt and answers; at most the model's context (default: what "+config.EnvCapacity+" says, else "+otherwise+")")
}

// check is an error for a number that no model can have.
func (f roomFlags) check() error {
	if f.context < 0 {
		return fmt.Errorf("--context %d: accepts a number of tokens, or 0 for the default", f.context)
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

// bounds are what an answer ends at, if its model or a stop string does not end it before.
type bounds struct {
	maxTokens int    // of an answer
	capacity  int    // tokens a sequence may have
	limit     string // what sets it
	whole     bool   // it is the model's
}

// bounds are those of sequences of capacity tokens, which the flag sets, a variable, or the model, which was made for context tokens.
func (f roomFlags) bounds(maxTokens, capacity, context int) bounds {
	limit := fmt.Sprintf("the capacity of %s, which %s sets", count(capacity, "token"), config.EnvCapacity)
	switch {
	case capacity == context:
		limit = fmt.Sprintf("the model's context of %s", count(context, "token"))
	case f.context > 0:
		limit = fmt.Sprintf("the %s of --context", count(capacity, "token"))
	case os.Getenv(config.EnvCapacity) == "":
		limit = fmt.Sprintf("the %s that there is room for without --context", count(capacity, "token"))
	}
	return bounds{maxTokens, capacity, limit, capacity == context}
}

// why is what an answer of tokens after a prompt ended at, as --json has it. The last token is not in the cache.
func (b bounds) why(stopped bool, prompt, tokens int) string {
	switch {
	case stopped:
		return "stop"
	case tokens == b.maxTokens:
		return "length"
	case prompt+tokens > b.capacity:
		return "capacity"
	}
	return "end"
}

// words says it to people; end is the command's word for the end that the model made.
func (b bounds) words(why, end string) string {
	return map[string]string{"end": end, "stop": "at --stop", "length": fmt.Sprintf("at --max-tokens %d", b.maxTokens), "capacity": "at " + b.limit, "interrupted": "interrupted"}[why]
}

// atMost adds numbers of tokens without overflow, as far as a model's context can be of interest.
func atMost(tokens ...int) (sum int) {
	for _, n := range tokens {
		sum = min(sum+min(n, 1<<30), 1<<30)
	}
	return sum
}
