package main

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/cmd/internal/tokenizer"
	modeldata "github.com/ferrumkv/ferrumkv/testdata/model"
	"github.com/spf13/cobra"
)

// modelFlags choose the model; without any it is the embedded one.
type modelFlags struct {
	model, tokenizer string
}

func (f *modelFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.model, "model", "m", "", "`PATH` of a folder, .safetensors, .gguf or llama2.c .bin (default: the embedded model)")
	cmd.Flags().StringVar(&f.tokenizer, "tokenizer", "", "`FILE`: a tokenizer.json of Hugging Face, or a tokenizer of llama2.c (default: that in the folder, or what the model brings)")
}

// name is the model's for a report.
func (f modelFlags) name() string {
	if f.model == "" {
		return "embedded"
	}
	return f.model
}

// load reads the model that was asked for.
func (f modelFlags) load() (*runner.Model, *tokenizer.Tokenizer, error) {
	switch {
	case f.model != "":
		model, tokenizer, err := runner.Load(f.model, f.tokenizer)
		if err == nil && tokenizer == nil {
			err = fmt.Errorf("--model %s: its %d tokens are not bytes, and it brings no vocabulary; put its tokenizer.json into the folder, or name its tokenizer file with --tokenizer", f.model, model.Vocab)
		}
		return model, tokenizer, err
	case f.tokenizer != "":
		return nil, nil, fmt.Errorf("--tokenizer %s: the embedded model has its own vocabulary; name a --model too", f.tokenizer)
	}
	return runner.LoadFS(modeldata.Files, ".")
}
