package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/ferrumkv/ferrumkv/kvcache/states"
)

// engine is a model of llama.cpp with a cache of one sequence, number 0. The process loads the library once.
type engine struct {
	model    llama.Model
	ctx      llama.Context
	memory   llama.Memory
	vocab    llama.Vocab
	greedy   llama.Sampler
	identity states.Identity // all that the bytes of its states depend on, without a salt
}

// settings are the choices of the user for an engine.
type settings struct {
	library, model   string
	context, threads int
	kv               string // type of keys and values, such as "f16"
	flash            bool
}

var kvTypes = map[string]llama.GGMLType{"f32": llama.GGMLTypeF32, "f16": llama.GGMLTypeF16, "q8_0": llama.GGMLTypeQ8_0}

func newEngine(s settings) (_ *engine, err error) {
	kv, ok := kvTypes[s.kv]
	if !ok {
		return nil, fmt.Errorf("-kv %q: it is f32, f16 or q8_0", s.kv)
	}
	if s.library == "" {
		return nil, errors.New("-lib: name the folder of llama.cpp's library, or set YZMA_LIB")
	}
	// Digests, because a file can keep its name when its weights or its build change. A program that starts often should keep the model's digest.
	e := &engine{identity: states.Identity{Engine: "llama.cpp", Settings: fmt.Sprintf("K %s, V %[1]s, flash attention %t", s.kv, s.flash)}}
	if e.identity.Model, err = digest(s.model); err != nil {
		return nil, err
	}
	if e.identity.Version, err = digest(filepath.Join(s.library, "libllama.so")); err != nil {
		return nil, err
	}
	if err := llama.Load(s.library); err != nil {
		return nil, err
	}
	llama.LogSet(llama.LogSilent())
	llama.Init()
	if e.model, err = llama.ModelLoadFromFile(s.model, llama.ModelDefaultParams()); err != nil {
		return nil, fmt.Errorf("%s: %w: is it a GGUF file of an architecture that this llama.cpp has?", s.model, err)
	}
	p := llama.ContextDefaultParams()
	p.NCtx, p.NThreads, p.NThreadsBatch = uint32(s.context), int32(s.threads), int32(s.threads)
	p.TypeK, p.TypeV, p.FlashAttentionType = kv, kv, llama.FlashAttentionTypeDisabled
	if s.flash { // then rows of V are laid out like those of K, and a turn moves none of what is already stored
		p.FlashAttentionType = llama.FlashAttentionTypeEnabled
	}
	if e.ctx, err = llama.InitFromModel(e.model, p); err != nil {
		return nil, fmt.Errorf("%s with a context of %d tokens: %w", s.model, s.context, err)
	}
	if e.memory, err = llama.GetMemory(e.ctx); err != nil {
		return nil, err
	}
	e.vocab, e.greedy = llama.ModelGetVocab(e.model), llama.SamplerInitGreedy()
	return e, nil
}

func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// whole reports whether a state can only be continued as it is, and not be cut, because layers have summed up what came before.
func (e *engine) whole() bool { return llama.ModelIsRecurrent(e.model) || llama.ModelIsHybrid(e.model) }

// restore loads a state and leaves its first n tokens in the cache. If it cannot, it returns false, and the cache is empty.
func (e *engine) restore(state []byte, n int) bool {
	if llama.StateSeqSetData(e.ctx, state, 0) != 0 {
		if cut, err := llama.MemorySeqRm(e.memory, 0, llama.Pos(n), -1); cut && err == nil {
			return true
		}
	}
	e.clear()
	return false
}

func (e *engine) clear() { _ = llama.MemoryClear(e.memory, true) } // it fails only without a memory

// state returns the content of the cache.
func (e *engine) state() ([]byte, error) {
	b := make([]byte, llama.StateSeqGetSize(e.ctx, 0))
	if n := llama.StateSeqGetData(e.ctx, b, 0); n == 0 || int(n) != len(b) {
		return nil, fmt.Errorf("llama.cpp wrote %d bytes of a state of %d", n, len(b))
	}
	return b, nil
}

// compute appends tokens to the cache, and returns the most likely next one.
func (e *engine) compute(tokens []llama.Token) (llama.Token, error) {
	for part := range slices.Chunk(tokens, int(llama.NBatch(e.ctx))) {
		if r, err := llama.Decode(e.ctx, llama.BatchGetOne(part)); err != nil || r != 0 {
			return 0, errors.Join(fmt.Errorf("llama.cpp cannot compute %d tokens: status %d", len(part), r), err)
		}
	}
	return llama.SamplerSample(e.greedy, e.ctx, -1), nil
}

func (e *engine) piece(t llama.Token) string {
	b := make([]byte, 256)
	return string(b[:max(0, llama.TokenToPiece(e.vocab, t, b, 0, false))])
}
