package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/cmd/internal/tokenizer"
	"github.com/spf13/cobra"
)

// tokenizeFlags are the settings of tokenize.
type tokenizeFlags struct {
	model     modelFlags
	ids, json bool
}

// tokenPiece is a token of a text, as --json prints it.
type tokenPiece struct {
	ID    uint32 `json:"id"`
	Piece string `json:"piece"` // what it stands for; "": it is special
}

func newTokenize() *cobra.Command {
	var f tokenizeFlags
	cmd := &cobra.Command{
		Use:   "tokenize [TEXT]",
		Short: "Show the tokens of a text",
		Long: `tokenize shows what tokens a model gets of a text: the number of each, what it stands
for, and how many there are, with the BOS that the model's texts begin with. Without
TEXT, or with - for it, the text is standard input, without the end of its last line.
A tokenizer.json needs no model.`,
		Example: `  ferrumkv tokenize --model Llama-3.2-1B "One day"
  ferrumkv tokenize --tokenizer tokenizer.json --ids - < prompt.txt`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("%d texts; put one between quotation marks; see '%s --help'", len(args), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.model.register(cmd)
	cmd.Flags().BoolVar(&f.ids, "ids", false, "print the numbers alone, as a list")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	return cmd
}

func (f tokenizeFlags) run(cmd *cobra.Command, args []string) error {
	if f.ids && f.json {
		return errors.New("--ids cannot be used with --json, which has them")
	}
	vocabulary, err := f.vocabulary(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	var text string
	switch {
	case len(args) == 1 && args[0] != fromStdin:
		text = args[0]
	case len(args) == 0 && !isPiped(cmd.InOrStdin()):
		return fmt.Errorf("no text; write it after the flags, or pipe it in; see '%s --help'", cmd.CommandPath())
	default:
		if text, err = readPrompt(cmd, "standard input", cmd.InOrStdin(), 0); err != nil {
			return err
		}
		text = withoutLastEnd(text)
	}
	return f.show(cmd, vocabulary, vocabulary.Encode(text))
}

// mostTokens is the size of a vocabulary of which no model says it: more than any has.
const mostTokens = 1 << 21

// vocabulary is that of a model, or of a file that needs none.
func (f tokenizeFlags) vocabulary(errs io.Writer) (*tokenizer.Tokenizer, error) {
	name := f.model.tokenizer
	if f.model.model == "" && name != "" {
		if ext := filepath.Ext(name); ext != ".json" && ext != ".model" { // which no model helps to read
			return nil, fmt.Errorf("--tokenizer %s: only its model says how many tokens are in it; name that by --model, too", name)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("--tokenizer: %w", err)
		}
		return tokenizer.Read(name, data, mostTokens)
	}
	if f.model.model != "" {
		t, err := runner.LoadTokenizer(f.model.model, name)
		return t, notDownloaded(f.model.model, err)
	}
	model, vocabulary, err := f.model.load(errs)
	if err != nil {
		return nil, err
	}
	return vocabulary, model.Close()
}

func (f tokenizeFlags) show(cmd *cobra.Command, vocabulary *tokenizer.Tokenizer, tokens []uint32) error {
	var w strings.Builder
	pieces := make([]tokenPiece, len(tokens))
	for i, token := range tokens {
		pieces[i] = tokenPiece{token, vocabulary.Piece(token)}
		if shown := "special"; f.ids {
			fmt.Fprintf(&w, ", %d", token)
		} else {
			if pieces[i].Piece != "" {
				shown = fmt.Sprintf("%q", pieces[i].Piece) // a part of a character as its bytes
			}
			fmt.Fprintf(&w, "%8d  %s\n", token, shown)
		}
	}
	var err error
	switch {
	case f.json:
		err = writeJSON(cmd.OutOrStdout(), map[string]any{"count": len(tokens), "tokens": pieces})
	case f.ids:
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "[%s]\n", strings.TrimPrefix(w.String(), ", "))
	default:
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s%s\n", w.String(), count(len(tokens), "token"))
	}
	return err
}
