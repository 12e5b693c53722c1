// Yzma continues a text with llama.cpp, which runs in this process without cgo (github.com/hybridgroup/yzma). It keeps what was computed in a
// directory of states (kvcache/states). The next run, whatever its prompt, restores the stored state that has most of the prompt, and computes only
// the rest.
//
// llama.cpp's library comes from an npm package that fits this version of yzma, for linux/amd64. Yzma looks for files without a version in their
// names, hence the links:
//
//	npm pack @node-llama-cpp/linux-x64@3.22.1
//	tar -xzf node-llama-cpp-linux-x64-3.22.1.tgz
//	export YZMA_LIB=$PWD/package/bins/linux-x64
//	ln -s libllama.v0.5.0.so $YZMA_LIB/libllama.so
//	ln -s libggml.v0.5.0.so $YZMA_LIB/libggml.so
//
// In a checkout this module is not part of the workspace, hence GOWORK:
//
//	export GOWORK=off CGO_ENABLED=0
//	go run . -model model.gguf -states ~/.cache/states -prompt "Once upon a time"
//
// A prompt is a whole conversation, as the chat template of its model renders it. A program that serves conversations keeps their token ids and
// appends to them: a text that is tokenized again may have other ids for what the model said.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/ferrumkv/ferrumkv/kvcache/states"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "yzma:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	var s settings
	flags := flag.NewFlagSet("yzma", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.model, "model", "", "GGUF `file` of the model")
	flags.StringVar(&s.library, "lib", os.Getenv("YZMA_LIB"), "`folder` of llama.cpp's library")
	flags.IntVar(&s.context, "context", 4096, "maximum number of `tokens` of the prompt and the answer")
	flags.IntVar(&s.threads, "threads", max(1, runtime.NumCPU()/2), "`number` of threads that compute")
	flags.StringVar(&s.kv, "kv", "f16", "`type` of keys and values: f32, f16 or q8_0")
	flags.BoolVar(&s.flash, "flash", true, "use flash attention; without it, successive states share little")
	dir := flags.String("states", "", "`directory` of states, for one user and one process at a time; empty to keep nothing")
	budget := flags.Int64("budget", 10<<30, "maximum number of `bytes` that the directory takes")
	salt := flags.String("salt", "", "`name` of the owner of the conversations; states of other owners are not found")
	system := flags.String("system", "", "system prompt: `text` that is put before the prompt")
	prompt := flags.String("prompt", "", "`text` to continue; empty to read standard input")
	n := flags.Int("n", 64, "maximum number of `tokens` of the answer")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if s.model == "" {
		return errors.New("no model: name a GGUF file by -model")
	}
	text := []byte(*prompt)
	if *prompt == "" {
		var err error
		if text, err = io.ReadAll(stdin); err != nil {
			return err
		}
	}
	e, err := newEngine(s)
	if err != nil {
		return err
	}
	var store *states.Store
	if *dir != "" {
		if store, err = states.Open(*dir, states.Options{Bytes: *budget}); err != nil {
			return err
		}
		defer store.Close()
	}
	tokens := llama.Tokenize(e.vocab, *system+string(text), true, true)
	if len(tokens) == 0 || len(tokens)+*n > s.context {
		return fmt.Errorf("a prompt of %d tokens and an answer of %d: need at least 1 and together at most %d; raise -context", len(tokens), *n, s.context)
	}
	a, err := answer(ctx, e, store, *salt, tokens, *n, stdout)
	fmt.Fprintln(stdout)
	fmt.Fprintln(stderr, a)
	return err
}

// answered says what an answer took.
type answered struct {
	prompt, restored, said                int // tokens
	restoring, computing, saying, storing time.Duration
	bytes                                 int64 // of the state that was stored
	miss                                  error // why nothing was restored, or nil
}

func (a answered) String() string {
	s := fmt.Sprintf("prompt of %d tokens: %d restored in %v, %d computed in %v; answer of %d in %v",
		a.prompt, a.restored, short(a.restoring), a.prompt-a.restored, short(a.computing), a.said, short(a.saying))
	if a.bytes > 0 {
		s += fmt.Sprintf("; state of %d bytes stored in %v", a.bytes, short(a.storing))
	}
	if a.miss != nil {
		s += fmt.Sprint("; ", a.miss)
	}
	return s
}

func short(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// answer writes n tokens that continue a prompt, or fewer if the model ends the text, and then stores the content of the cache.
func answer(ctx context.Context, e *engine, store *states.Store, salt string, prompt []llama.Token, n int, out io.Writer) (a answered, err error) {
	identity := e.identity
	identity.Salt = salt
	a.prompt = len(prompt)
	begin := time.Now()
	lap := func() time.Duration { d := time.Since(begin); begin = begin.Add(d); return d }
	e.clear()
	if store != nil {
		a.restored, a.miss = restore(ctx, e, store, identity, prompt)
		a.restoring = lap()
	}
	next, err := e.compute(prompt[a.restored:])
	a.computing = lap()
	tokens := append([]llama.Token(nil), prompt...)
	for err == nil && a.said < n && !llama.VocabIsEOG(e.vocab, next) {
		if _, err := io.WriteString(out, e.piece(next)); err != nil {
			return a, err
		}
		tokens = append(tokens, next)
		a.said++
		next, err = e.compute(tokens[len(tokens)-1:])
	}
	a.saying = lap()
	if err != nil || store == nil {
		return a, err
	}
	state, err := e.state()
	if err != nil {
		return a, err
	}
	info, err := store.Put(ctx, states.Key{Identity: identity, Tokens: ids(tokens)}, states.PutOptions{}, states.Source{Name: "target", Content: bytes.NewReader(state)})
	a.bytes, a.storing = info.Bytes, lap()
	return a, err
}

// restore loads the stored state that has most of a prompt into the cache, and returns how many tokens of the prompt the cache has then. If that is 0,
// the error says why.
func restore(ctx context.Context, e *engine, store *states.Store, identity states.Identity, prompt []llama.Token) (int, error) {
	nearest := store.Nearest
	if e.whole() {
		nearest = store.NearestWhole
	}
	info, n, err := nearest(identity, ids(prompt[:len(prompt)-1])) // the last one is computed, for what comes after it
	if err != nil {
		return 0, err
	}
	parts, err := store.Get(ctx, info.ID, nil) // every byte is verified before this returns
	if err != nil {
		return 0, err
	}
	if !e.restore(parts[0].Bytes, n) {
		return 0, fmt.Errorf("llama.cpp cannot load state %v of %d tokens: is the context large enough for it?", info.ID, len(info.Key.Tokens))
	}
	return n, nil
}

func ids(tokens []llama.Token) []uint32 {
	out := make([]uint32, len(tokens))
	for i, t := range tokens {
		out[i] = uint32(t)
	}
	return out
}
