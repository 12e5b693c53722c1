package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// foreignFlags are what other programs call a flag.
var foreignFlags = map[string]string{"ctx-size": "context", "max-model-len": "context", "n-predict": "max-tokens", "predict": "max-tokens",
	"num-predict": "max-tokens", "type-k": "kv-dtype", "cache-type-k": "kv-dtype", "s": "seed", "ngl": "backend", "n-gpu-layers": "backend",
	"request-rate": "rate", "num-prompts": "requests", "max-concurrency": "concurrency", "base-url": "url"}

// flagError says what is wrong with a flag in terms of what it accepts, and which flag may have been meant. args are those of the program.
func flagError(cmd *cobra.Command, err error, args []string) error {
	text := err.Error()
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	word := ""
	switch {
	case errors.As(err, &unknown):
		word = unknown.GetSpecifiedShortnames()
	case errors.As(err, &invalid):
		word = invalid.GetFlag().Shorthand + invalid.GetValue()
	}
	switch {
	case len(word) > 1 && slices.Contains(args, "-"+word): // as other programs have it
		text = fmt.Sprintf("-%s: a flag of more than one letter has two dashes%s", word, didYouMean(flagLike(cmd, word)))
	case errors.As(err, &unknown):
		if name := unknown.GetSpecifiedName(); cmd.Name() == "chat" && slices.Contains([]string{"p", "prompt", "f", "file"}, name) {
			text += " (chat reads what you say from standard input; --system is for a system prompt, and 'ferrumkv generate' has --prompt and --file)"
		} else {
			text += didYouMean(flagLike(cmd, name))
		}
	case errors.As(err, &invalid) && accepts[invalid.GetFlag().Value.Type()] != "":
		f := invalid.GetFlag()
		text = fmt.Sprintf("--%s %s: accepts %s", f.Name, invalid.GetValue(), accepts[f.Value.Type()])
	}
	return fmt.Errorf("%s; see '%s --help'", text, cmd.CommandPath())
}

// accepts is what the values of flags are, by their types.
var accepts = map[string]string{"int": "a whole number", "int64": "a whole number", "uint64": "a whole number from 0 on", "float64": "a number",
	"intSlice": "whole numbers with commas between them", "duration": "a time such as 500ms, 2s or 1h", "age": "a time such as 30d or 12h", "bool": "true or false"}

// flagLike is the flag of a command that name may stand for; "": none.
func flagLike(cmd *cobra.Command, name string) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	like := foreignFlags[strings.ReplaceAll(name, "_", "-")]
	if like == "" || !slices.Contains(names, like) {
		like = closest(name, names)
	}
	if like != "" {
		like = "--" + like
	}
	return like
}

// didYouMean is the part of an error that names what may have been meant, if there is such a thing.
func didYouMean(what string) string {
	if what == "" {
		return ""
	}
	return " (did you mean " + what + "?)"
}

// closest is the name that another one may be a slip of the keyboard for: at most two edits away and not most of it, or
// of which it is the beginning; "": there is none.
func closest(to string, among []string) string {
	best, least := "", 3
	for _, name := range among {
		d := edits(to, name)
		if len(to) >= 3 && strings.HasPrefix(name, to) {
			d = 1
		}
		if d < least && d*2 < len(name) {
			best, least = name, d
		}
	}
	return best
}

// edits is the Levenshtein distance of two words: how many letters are put in, taken out or changed.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// noArgs refuses what is neither a flag nor a command.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	what, like := "argument", ""
	switch {
	case cmd.HasSubCommands():
		var names []string
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				names = append(names, sub.Name())
			}
		}
		what, like = "command", closest(args[0], names)
	case cmd.Flags().Lookup("prompt") != nil:
		like = fmt.Sprintf("--prompt %q", args[0])
	}
	return fmt.Errorf("unknown %s %q%s; see '%s --help'", what, args[0], didYouMean(like), cmd.CommandPath())
}
