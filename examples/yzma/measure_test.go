package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hybridgroup/yzma/pkg/llama"
	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/states"
)

var (
	measured = flag.String("measure", "", "`file` of a model with a llama vocabulary, for TestMeasure, or demo")
	longest  = flag.Int("tokens", 4096, "most `tokens` that TestMeasure computes")
	rounds   = flag.Int("rounds", 3, "`times` that TestMeasure computes each prompt; figures are medians, those of files of five times or more")
)

// TestMeasure writes the tables of docs/states.md: restore or recompute. Texts are random tokens, the same in each run. Files are in TMPDIR.
func TestMeasure(t *testing.T) {
	if *measured == "" {
		t.Skip("-measure names no model")
	}
	lib, model := library(t), *measured
	if model == "demo" {
		model = demo(t, false)
	}
	t.Run("lengths", func(t *testing.T) { lengths(t, lib, model) })
	t.Run("turns", func(t *testing.T) {
		fmt.Println("\n| tokens a turn | flash attention | last state, bytes | all 20 states | stored | of the last state |\n| ---: | --- | ---: | ---: | ---: | ---: |")
		for _, flash := range []bool{true, false} {
			for _, turn := range []int{*longest / 40, *longest / 20} {
				turns(t, lib, model, turn, flash)
			}
		}
	})
}

func open(t *testing.T, lib, model string, flash bool) *engine {
	e, err := newEngine(settings{library: lib, model: model, context: *longest, threads: 1, kv: "f16", flash: flash})
	require.NoError(t, err)
	t.Cleanup(func() { _ = llama.Free(e.ctx); _ = llama.ModelFree(e.model) })
	return e
}

func random(e *engine, n int) []llama.Token {
	out, r := make([]llama.Token, n), rand.New(rand.NewPCG(1, uint64(n)))
	for i := range out {
		out[i] = 3 + llama.Token(r.IntN(int(llama.VocabNTokens(e.vocab))-6))
	}
	return out
}

func newStore(t *testing.T) *states.Store {
	s, err := states.Open(filepath.Join(t.TempDir(), "states"), states.Options{Bytes: 8 << 30, Floor: 1, Network: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func put(t *testing.T, e *engine, s *states.Store, tokens []llama.Token, state []byte) states.Info {
	info, err := s.Put(context.Background(), states.Key{Identity: e.identity, Tokens: ids(tokens)}, states.PutOptions{},
		states.Source{Name: "target", Content: bytes.NewReader(state)})
	require.NoError(t, err)
	return info
}

// lengths compares restoring with computing, and Put and Get with a copy of a file, by turns.
func lengths(t *testing.T, lib, model string) {
	fmt.Println("| tokens | state, bytes | computed in ms | restored in ms | of which the last token | computing / restoring |\n| ---: | ---: | ---: | ---: | ---: | ---: |")
	files := "\n| state, bytes | copy of a file, ms | Put, ms | of the copy | Get, ms | of the copy |\n| ---: | ---: | ---: | ---: | ---: | ---: |\n"
	e, ctx := open(t, lib, model, true), context.Background()
	_, err := e.compute(random(e, 64)) // reads the weights
	require.NoError(t, err)
	for n := 128; n <= *longest; n *= 2 {
		prompt := random(e, n)
		var computing, restoring, last, copying, putting, getting []time.Duration
		var state []byte
		for round := range max(5, *rounds) {
			if round < *rounds {
				e.clear()
				computing = append(computing, timed(func() { _, err = e.compute(prompt) }))
				require.NoError(t, err)
				state, err = e.state()
				require.NoError(t, err)
			}
			copying = append(copying, copied(t, state))
			s := newStore(t)
			var info states.Info
			putting = append(putting, timed(func() { info = put(t, e, s, prompt, state) }))
			var parts []states.Part
			getting = append(getting, timed(func() { parts, err = s.Get(ctx, info.ID, nil) }))
			require.NoError(t, err)
			require.True(t, bytes.Equal(state, parts[0].Bytes))
			e.clear()
			var have int
			begin := time.Now()
			have, err = restore(ctx, e, s, e.identity, prompt)
			require.NoError(t, err)
			require.Equal(t, n-1, have)
			last = append(last, timed(func() { _, err = e.compute(prompt[have:]) }))
			require.NoError(t, err)
			restoring = append(restoring, time.Since(begin))
		}
		c, r, f := median(computing), median(restoring), median(copying)
		fmt.Printf("| %d | %d | %s | %s | %s | %.0f |\n", n, len(state), ms(c), ms(r), ms(median(last)), float64(c)/float64(r))
		of := func(d []time.Duration) string {
			return fmt.Sprintf("%s | %.1f", ms(median(d)), float64(median(d))/float64(f))
		}
		files += fmt.Sprintf("| %d | %s | %s | %s |\n", len(state), ms(f), of(putting), of(getting))
	}
	fmt.Print(files)
}

// turns stores twenty states of a conversation, each of which has so many tokens more than the one before.
func turns(t *testing.T, lib, model string, turn int, flash bool) {
	e, s := open(t, lib, model, flash), newStore(t)
	tokens := random(e, 20*turn)
	var state []byte
	all := 0
	for n := turn; n <= len(tokens); n += turn {
		_, err := e.compute(tokens[n-turn : n])
		require.NoError(t, err)
		state, err = e.state()
		require.NoError(t, err)
		put(t, e, s, tokens[:n], state)
		all += len(state)
	}
	stored := s.Stats().Bytes
	fmt.Printf("| %d | %v | %d | %d | %d | %.2f |\n", turn, map[bool]string{true: "on", false: "off"}[flash], len(state), all, stored, float64(stored)/float64(len(state)))
}

// copied is how long it takes to copy a file with these bytes.
func copied(t *testing.T, content []byte) time.Duration {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/a", content, 0o600))
	return timed(func() {
		from, err := os.Open(dir + "/a")
		require.NoError(t, err)
		defer from.Close()
		to, err := os.Create(dir + "/b")
		require.NoError(t, err)
		_, err = io.Copy(to, struct{ io.Reader }{from}) // by reading and writing
		require.NoError(t, err)
		require.NoError(t, to.Close())
	})
}

func timed(do func()) time.Duration {
	begin := time.Now()
	do()
	return time.Since(begin)
}

func median(d []time.Duration) time.Duration { return slices.Sorted(slices.Values(d))[len(d)/2] }

// ms is milliseconds in three digits.
func ms(d time.Duration) string {
	s := fmt.Sprintf("%.*f", 2, float64(d)/1e6)
	if at := strings.IndexByte(s, '.'); at > 1 {
		s = fmt.Sprintf("%.*f", max(0, 3-at), float64(d)/1e6)
	}
	return s
}
