package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// expected is what a run over one prompt prints for a golden text.
func expected(prompt, text string) string { return prompt + text + "\n" }

func TestGenerateGolden(t *testing.T) {
	first := golden(t)[0]
	r := succeeds(t, "generate")
	require.Equal(t, expected(first.Prompt, first.Text), r.stdout)
	require.Regexp(t, `prefill +17 tokens in .*, \d+ tokens/s`, r.stderr)
	require.Regexp(t, `decode +299 tokens in .*, \d+ tokens/s`, r.stderr)
	require.Regexp(t, `used +1 of 1 sequence, none shared`, r.stderr)
	for _, args := range [][]string{
		{"--layout", "contiguous"},
		{"--layout", "paged", "--block-size", "8", "--threads", "1"},
		{"--kv-dtype", "bf16"},
		{"--guesses", "3"},
		{"--guesses", "12", "--layout", "paged", "--block-size", "8"},
		{"--backend", "counted", "--kv-dtype", "f32"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			args := append([]string{"generate", "--max-tokens", "80"}, args...)
			require.Equal(t, expected(first.Prompt, first.Text[:80]), succeeds(t, args...).stdout)
		})
	}
	noLeftovers(t)
}

// Rounded keys and values tell the story that exact ones do, nearly always; the report says
// what is rounded, and counts its bytes.
func TestGenerateQuantized(t *testing.T) {
	first := golden(t)[0]
	for _, c := range []struct {
		args  string
		same  int // bytes of the text
		cache string
	}{
		{"--kv-dtype int8", 80, "contiguous, blocks of 97 tokens, K int8, V int8, on cpu"},
		{"--kv-dtype int4 --hadamard --layout paged", 40, "paged, blocks of 16 tokens, K int4, V int4, keys turned by Hadamard, on cpu"},
		{"--kv-dtype int4 --skip-layers 0,3", 40, "contiguous, blocks of 97 tokens, K int4, V int4, layers [0 3] not quantized, on cpu"},
		{"--kv-dtype int4channel --residual 32 --layout paged --block-size 32", 80,
			"paged, blocks of 32 tokens, K int4channel, V int4, at least the last 32 tokens not quantized, on cpu"},
		{"--kv-dtype int4 --residual 9 --hadamard --skip-layers 0 --layout paged --prefix lru", 40,
			"paged, blocks of 16 tokens, K int4, V int4, keys turned by Hadamard, at least the last 9 tokens not quantized, layers [0] not quantized, on cpu"},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := append([]string{"generate", "--max-tokens", "80"}, strings.Fields(c.args)...)
			r := succeeds(t, args...)
			require.Contains(t, r.stderr, "\ncache    "+c.cache+"\n")
			require.Equal(t, expected(first.Prompt, first.Text[:80])[:c.same], r.stdout[:c.same])
		})
	}
	r := succeeds(t, "generate", "--json", "--max-tokens", "80", "--layout", "paged", "--block-size", "32", "--kv-dtype", "int4channel", "--residual", "32")
	report := jsonLines(t, r.stdout)[1]["report"].(map[string]any)
	require.Equal(t, 32., report["residual_tokens"])
	require.Equal(t, 2., report["blocks_used"], "of 96 tokens 64 have left the window")
	require.Equal(t, 2*32*640.+2*32*4096, report["bytes_used"], "the others lie as they were, and so does the block before them, for drafts")
	// 4 blocks in 4 bits for 97 tokens; and for one sequence a window of a block and two on their way, and
	// those of two steps of 512 tokens.
	require.Equal(t, 4*32*640.+(1*3+2*16)*32*4096, report["bytes_total"])
}

func TestGenerateSeveralPrompts(t *testing.T) {
	cases := golden(t)
	args := []string{"generate", "--max-tokens", "60"}
	var want strings.Builder
	for i, c := range cases {
		args = append(args, "--prompt", c.Prompt)
		want.WriteString("== " + string(rune('1'+i)) + " of 3\n" + expected(c.Prompt, c.Text[:60]))
	}
	require.Equal(t, want.String(), succeeds(t, args...).stdout)
}

func TestGenerateJSON(t *testing.T) {
	// Ten equal prompts are more than a pool has sequences by default, and share blocks.
	args := []string{"generate", "--json", "--layout", "paged", "--max-tokens", "20"}
	for range 10 {
		args = append(args, "--prompt", "Once upon a time")
	}
	r := succeeds(t, args...)
	require.Empty(t, r.stderr)
	lines := jsonLines(t, r.stdout)
	require.Len(t, lines, 11)
	for i, l := range lines[:10] {
		require.Equal(t, map[string]any{"prompt": "Once upon a time", "text": golden(t)[0].Text[:20],
			"prompt_tokens": 17., "reused_tokens": float64(min(i, 1) * 17), "tokens": 20., "stop": "length"}, l)
	}
	report := lines[10]["report"].(map[string]any)
	require.Equal(t, "paged", report["layout"])
	require.Equal(t, 16., report["block_tokens"])
	require.Equal(t, "f16", report["k_type"])
	require.Equal(t, 17., report["prefill_tokens"], "equal prompts are computed once")
	require.Equal(t, 153., report["reused_tokens"])
	require.Equal(t, 170., report["prompt_tokens"])
	require.Equal(t, 190., report["decode_tokens"])
	// 36 tokens each: the second block, which all fill with the same text, is kept once
	// like the first one; the third is everyone's own.
	require.Equal(t, 12., report["blocks_used"])
	require.Equal(t, 18., report["blocks_saved_by_sharing"])
	require.Equal(t, 12*16*2048., report["bytes_used"])
	for _, name := range []string{"prefill_seconds", "decode_seconds", "prefill_tokens_per_second", "decode_tokens_per_second"} {
		require.Positive(t, report[name], name)
	}
}

func TestGenerateReport(t *testing.T) {
	one := succeeds(t, "generate", "--max-tokens", "1", "--layout", "paged", "--block-size", "1", "--prompt", "").stderr
	require.Contains(t, one, "blocks of 1 token,")
	require.Contains(t, one, "\nprefill  1 token in ")
	require.NotContains(t, one, "decode", "nothing was decoded")
	equal := []string{"generate", "--max-tokens", "4", "--prompt", "Once upon a time", "--prompt", "Once upon a time", "--layout"}
	require.Contains(t, succeeds(t, append(equal, "contiguous")...).stderr, "2 of 2 sequences, none shared (equal prompts share blocks in the paged layout)\n")
	require.Contains(t, succeeds(t, append(equal, "paged")...).stderr, "1 more saved by sharing\n")
}

// What prompts begin with in common is computed once, and so is a conversation.
func TestGenerateReusesPrefixes(t *testing.T) {
	users := []string{"generate", "--max-tokens", "8", "--prompt", "Once upon a time, Lily", "--prompt", "Once upon a time, Ben"}
	conversation := []string{"generate", "--max-tokens", "20", "--turn", " Then", "--turn", " The end"}
	for _, args := range [][]string{users, conversation} {
		plain := succeeds(t, append(args, "--layout", "paged", "--prefix", "off")...)
		require.Regexp(t, `\nreused   0 of \d+ prompt tokens \(prefix reuse is off\)\n`, plain.stderr)
		contiguous := succeeds(t, args...)
		require.Regexp(t, `\nreused   0 of \d+ prompt tokens \(--layout paged reuses what prompts begin with in common\)\n`, contiguous.stderr)
		paged := succeeds(t, append(args, "--layout", "paged")...)
		require.Equal(t, plain.stdout, paged.stdout)
		require.Equal(t, plain.stdout, contiguous.stdout)
	}
	require.Regexp(t, `\nreused   16 of 45 prompt tokens\n`, succeeds(t, append(users, "--layout", "paged")...).stderr)

	lines := jsonLines(t, succeeds(t, append(conversation, "--layout", "paged", "--block-size", "8", "--json")...).stdout)
	require.Len(t, lines, 2)
	text := golden(t)[0].Text[:20]
	turns := lines[0]["turns"].([]any)
	require.Len(t, turns, 2)
	second, third := turns[0].(map[string]any), turns[1].(map[string]any)
	require.Equal(t, text, lines[0]["text"])
	require.Equal(t, []any{17., 0.}, []any{lines[0]["prompt_tokens"], lines[0]["reused_tokens"]})
	// After an answer the cache has all but its last token.
	require.Equal(t, []any{" Then", 42., 36., "length"}, []any{second["prompt"], second["prompt_tokens"], second["reused_tokens"], second["stop"]})
	require.Equal(t, []any{" The end", 70., 61., "length"}, []any{third["prompt"], third["prompt_tokens"], third["reused_tokens"], third["stop"]})
	report := lines[1]["report"].(map[string]any)
	require.Equal(t, []any{2., 129., 97., 32., "adaptive"}, []any{report["turns"], report["prompt_tokens"], report["reused_tokens"], report["prefill_tokens"], report["prefix_reuse"]})

	shown := "Once upon a time" + text + " Then" + second["text"].(string) + " The end" + third["text"].(string) + "\n"
	require.Equal(t, shown, succeeds(t, conversation...).stdout, "as one text")
	two := succeeds(t, append(conversation, "--prompt", "Once upon a time", "--prompt", "The big dog")...).stdout
	require.True(t, strings.HasPrefix(two, "== 1 of 2\n"+shown+"== 2 of 2\nThe big dog"), two)
}

func TestGenerateTurnDoesNotFit(t *testing.T) {
	for args, want := range map[string]struct{ stdout, stderr string }{
		"":       {stdout: "Once upon a time, there was \n", stderr: "\ndecode "},
		"--json": {},
	} {
		cmd := program(t, []string{"FERRUM_KV_CAPACITY=30"}, append([]string{"generate", "--max-tokens", "12", "--turn", " Then"}, strings.Fields(args)...)...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.Error(t, err)
		require.Equal(t, want.stdout, string(out), "the text so far")
		require.Contains(t, stderr.String(), want.stderr)
		require.True(t, strings.HasSuffix(stderr.String(), "ferrumkv: --turn 1 of 1: conversation 1 of 1 has 34 tokens with it, more than the capacity of 30 tokens, which FERRUM_KV_CAPACITY sets\n"), &stderr)
	}
}

func TestGenerateSampling(t *testing.T) {
	args := []string{"generate", "--max-tokens", "40", "--temperature", "1", "--top-p", "0.9", "--seed"}
	one, again, two := succeeds(t, append(args, "1")...), succeeds(t, append(args, "1")...), succeeds(t, append(args, "2")...)
	require.Equal(t, one.stdout, again.stdout)
	require.NotEqual(t, one.stdout, two.stdout)
	talk := []string{"generate", "--layout", "paged", "--temperature", "1", "--max-tokens", "20", "--turn", " Then", "--prompt", "a", "--prompt", "a"}
	require.Equal(t, succeeds(t, append(talk, "--prefix", "off")...).stdout, succeeds(t, talk...).stdout)
}

func TestGenerateStopsAtCapacity(t *testing.T) {
	cmd := program(t, []string{"FERRUM_KV_CAPACITY=30"}, "generate", "--json")
	out, err := cmd.Output()
	require.NoError(t, err)
	line := jsonLines(t, string(out))[0]
	require.Equal(t, "capacity", line["stop"])
	require.Equal(t, 14., line["tokens"], "17+13 tokens are in the cache, and the last one was not needed there")
}

func TestGenerateModelFolder(t *testing.T) {
	first := golden(t)[0]
	model := filepath.Join("..", "..", "testdata", "model")
	for _, path := range []string{model, filepath.Join(model, "model.safetensors")} {
		r := succeeds(t, "generate", "--model", path, "--max-tokens", "30")
		require.Equal(t, expected(first.Prompt, first.Text[:30]), r.stdout)
	}
}

func TestGenerateBadFlags(t *testing.T) {
	dir := t.TempDir()
	dumb := filepath.Join(dir, "dumb.bin") // a checkpoint of 7 sizes and 160 weights, without a vocabulary
	checkpoint := make([]byte, 4*(7+160))
	for i, size := range []byte{4, 4, 1, 1, 1, 5, 4} {
		checkpoint[4*i] = size
	}
	require.NoError(t, os.WriteFile(dumb, checkpoint, 0o600))
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	broken := filepath.Join(dir, "broken.gguf")
	for _, name := range []string{broken, filepath.Join(dir, "other.gguf")} {
		require.NoError(t, os.WriteFile(name, []byte("not a model"), 0o600))
	}
	for _, c := range []struct {
		args string
		want []string
	}{
		{"--layout diagonal", []string{"--layout diagonal", "contiguous", "paged"}},
		{"--kv-dtype foo", []string{"--kv-dtype foo: cpu holds keys and values in " + cpuTypes + "\n"}},
		{"--kv-dtype u32", []string{"--kv-dtype u32: cpu holds keys and values in " + cpuTypes + "\n"}},
		{"--kv-dtype int4channel", []string{"--kv-dtype int4channel: quantizes keys in whole blocks", "--residual N", "--layout paged"}},
		{"--kv-dtype int4channel --residual 32", []string{"--residual 32: needs the paged layout: tokens are quantized in whole blocks, and a contiguous sequence is one block\n"}},
		{"--kv-dtype int8 --layout paged --residual -1", []string{"--residual -1: accepts a number of tokens"}},
		{"--layout paged --residual 32", []string{"--residual 32: is for quantized keys and values; K is f16, V is f16\n"}},
		{"--hadamard", []string{"--hadamard true: is for quantized keys, K is f16\n"}},
		{"--kv-dtype int4 --skip-layers 0,4", []string{"--skip-layers 4: accepts 0 to 3\n"}},
		{"--kv-dtype int4 --skip-layers x", []string{"--skip-layers"}},
		{"--backend cuda", []string{"cuda is not available: "}},
		{"--backend cpu:fast", []string{"cpu:threads=N"}},
		{"--threads -1", []string{"--threads -1"}},
		{"--threads 4097", []string{"--threads 4097: accepts 0 (one for each CPU) to 4096"}},
		{"--block-size 16", []string{"--block-size 16", "paged layout only"}},
		{"--prefix lru", []string{"--prefix lru: applies to the paged layout only\n"}},
		{"--layout paged --prefix arc", []string{"--prefix arc: accepts adaptive, lru, lfu, slru, priority, off\n"}},
		{"--layout paged --block-size -16", []string{"--block-size -16", "power of two"}},
		{"--max-tokens -2", []string{"--max-tokens -2: accepts a number of tokens, or -1"}},
		{"-s 5", []string{"(did you mean --seed?)"}},
		{"--kv-dtype q8_0", []string{"--kv-dtype q8_0: cpu holds keys", "(did you mean int8?)"}},
		{"--repeat-penalty 0", []string{"--repeat-penalty 0: accepts numbers above 0"}},
		{"--model= -n 1", []string{"--model: is empty, such as from a variable that is not set"}},
		{"--save= -n 1", []string{"--save: is empty"}},
		{"--model meta-llama/Llama-3.2-1B", []string{"--model meta-llama/Llama-3.2-1B: there is no such file or folder, and nothing is downloaded; 'hf download meta-llama/Llama-3.2-1B --local-dir Llama-3.2-1B'"}},
		{"--max-tokens many", []string{"--max-tokens many: accepts a whole number; see", "generate --help"}},
		{"-ngl 99", []string{"-ngl: a flag of more than one letter has two dashes (did you mean --backend?); see"}},
		{"-temp 0.8", []string{"-temp: a flag of more than one letter has two dashes (did you mean --temperature?); see"}},
		{"-xyz", []string{"-xyz: a flag of more than one letter has two dashes; see"}},
		{"--save x --stop y", []string{"--stop: cannot be used with --save"}},
		{"-n 1 -t x", []string{"--threads x: accepts a whole number"}},
		{"--context -1", []string{"--context -1: accepts a number of tokens"}},
		{"-c 1025", []string{"--context 1025: the model was made for 1024 tokens"}},
		{"-c 16", []string{"prompt 1 of 1: its 17 tokens are more than the 16 tokens of --context"}},
		{"--promt x", []string{"unknown flag: --promt (did you mean --prompt?)", "generate --help"}},
		{"--ctx-size 10", []string{"did you mean --context?"}},
		{"--n-predict 10", []string{"did you mean --max-tokens?"}},
		{"--file no/such/file", []string{"--file: open no/such/file: "}},
		{"--file " + empty, []string{"--file " + empty + ": is empty"}},
		{"--prompt -", []string{"--prompt -: standard input is empty"}},
		{"--prompt - --file -", []string{"standard input (-) can be one prompt only"}},
		{"--temperature -1", []string{"--temperature -1: accepts finite numbers from 0"}},
		{"--temperature NaN", []string{"--temperature NaN"}},
		{"--guesses -1", []string{"--guesses -1: accepts 0 to "}},
		{"--guesses 1000000", []string{"--guesses 1000000: accepts 0 to "}},
		{"--guesses 4 --temperature 1", []string{"--guesses 4", "so it needs --temperature 0"}},
		{"--guesses 4 --kv-dtype int8 --layout paged --residual 32", []string{"--guesses 4: cannot be used with a residual window"}},
		{"--top-p 1.5", []string{"--top-p 1.5: accepts 0 to 1"}},
		{"--tokenizer tok.bin", []string{"--tokenizer tok.bin", "--model"}},
		{"--model no/such/model", []string{"ferrumkv: no/such/model: "}},
		{"--model " + dir, []string{"ferrumkv: " + dir + ": a folder of GGUF files", "name one of them, such as " + broken}},
		{"--model ../../testdata/model --tokenizer /no/such/file", []string{"ferrumkv: /no/such/file: "}},
		{"--model " + dumb, []string{dumb + ": a model without a vocabulary, whose 5 tokens are not bytes", "name its tokenizer file with --tokenizer"}},
		{"--model main.go", []string{"main.go", ".gguf"}},
		{"--model " + broken, []string{"broken.gguf"}},
		{"--frobnicate", []string{"--frobnicate", "generate --help"}},
		{"hello", []string{`unknown argument "hello" (did you mean --prompt "hello"?); see`, "generate --help"}},
	} {
		t.Run(c.args, func(t *testing.T) {
			r := fails(t, append([]string{"generate"}, strings.Fields(c.args)...), c.want...)
			require.Empty(t, r.stdout, "a run that fails prints no text")
		})
	}
}

// A model of five tokens without weights takes the first token again and again: here it is
// a part of a character, which is not printed before the others.
func TestGenerateWithTokenizerJSON(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	checkpoint := make([]byte, 4*(7+208))
	for i, size := range []byte{4, 4, 1, 1, 1, 5, 16} {
		checkpoint[4*i] = size
	}
	model := write("m.bin", checkpoint)
	file := `{"decoder":{"type":"ByteLevel"},"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},
		"model":{"type":"BPE","vocab":{"%s":0,"h":1,"i":2,"hi":3,"Ġ":4},"merges":["h i"]}}`
	for first, want := range map[string]string{"x": "hi hixxxx\n", "â": "hi hi\ufffd\ufffd\ufffd\ufffd\n"} {
		tokenizer := write("tokenizer.json", fmt.Appendf(nil, file, first))
		r := succeeds(t, "generate", "--model", model, "--tokenizer", tokenizer, "--prompt", "hi hi", "--max-tokens", "4")
		require.Equal(t, want, r.stdout)
	}
	tokenizer := write("tokenizer.json", []byte(`{"model":{"type":"Unigram"}}`))
	fails(t, []string{"generate", "--model", model, "--tokenizer", tokenizer}, tokenizer+`: model.type "Unigram" is not supported by this runner`)
}

func TestGeneratePromptTooLong(t *testing.T) {
	r := fails(t, []string{"generate", "--prompt", "short", "--prompt", strings.Repeat("x", 2000)},
		"prompt 2 of 2: its 2001 tokens are more than the model's context of 1024 tokens\n")
	require.Empty(t, r.stdout)
}

// interrupter cancels once it has seen some text, as Ctrl-C does.
type interrupter struct {
	seen   []byte
	cancel context.CancelFunc
}

func (w *interrupter) Write(p []byte) (int, error) {
	if w.seen = append(w.seen, p...); len(w.seen) > 40 {
		w.cancel()
	}
	return len(p), nil
}

func TestGenerateInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, stderr := &interrupter{cancel: cancel}, &bytes.Buffer{}
	require.Equal(t, exitInterrupted, run(ctx, []string{"generate", "--backend", "counted"}, out, stderr))
	require.Regexp(t, `\ndecode   \d+ tokens in (.|\n)*\nferrumkv: interrupted\n$`, stderr.String(), "the report of the text so far")
	first := golden(t)[0]
	require.Equal(t, expected(first.Prompt, first.Text)[:41]+"\n", string(out.seen), "the text so far, on a line that is ended")
	noLeftovers(t)
}

// closedPipe fails as a pipe does whose reader has gone.
type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestGenerateOutputFails(t *testing.T) {
	for _, args := range [][]string{{}, {"--json"}, {"--prompt", "a", "--prompt", "b"}} {
		var stderr bytes.Buffer
		args = append([]string{"generate", "--backend", "counted", "--max-tokens", "3"}, args...)
		require.Equal(t, exitError, run(t.Context(), args, closedPipe{}, &stderr))
		require.Equal(t, "ferrumkv: "+os.ErrClosed.Error()+"\n", stderr.String(), "once, and no report of what was not read")
	}
	noLeftovers(t)
}
