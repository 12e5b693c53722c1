package main

import (
	"fmt"
	"io"
	"time"

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

// load reads the model that was asked for, and shows how far it is where that takes long.
func (f modelFlags) load(errs io.Writer) (*runner.Model, *tokenizer.Tokenizer, error) {
	switch {
	case f.model != "":
		bar := &loadBar{line: newProgress(errs), begin: time.Now()}
		defer bar.line.clear()
		m, t, err := runner.Load(f.model, f.tokenizer, bar.show)
		return m, t, notDownloaded(f.model, err)
	case f.tokenizer != "":
		return nil, nil, fmt.Errorf("--tokenizer %s: the embedded model has its own vocabulary; name a --model too", f.tokenizer)
	}
	return runner.LoadFS(modeldata.Files, ".")
}

// loadBar shows how much of a model's weights is ready, after half a second.
type loadBar struct {
	line    *progress
	begin   time.Time
	percent int // that is shown
}

func (b *loadBar) show(done, total int) {
	if percent := 100 * done / total; percent != b.percent && time.Since(b.begin) > time.Second/2 {
		b.percent = percent
		b.line.show("loading %s of %s %s", byteSize(int64(done)), byteSize(int64(total)), barOf(percent))
	}
}
