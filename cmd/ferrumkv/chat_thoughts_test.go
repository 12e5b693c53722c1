package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	modeldata "github.com/ferrumkv/ferrumkv/testdata/model"
	"github.com/stretchr/testify/require"
)

// storyGGUF is the embedded model as a GGUF file whose vocabulary has control tokens in place of some bytes, with a chat template unless that is "".
func storyGGUF(t *testing.T, template string, control map[byte]string) string {
	t.Helper()
	le := binary.LittleEndian
	text := func(s string) []byte { return append(le.AppendUint64(nil, uint64(len(s))), s...) }
	number := func(v uint32) []byte { return le.AppendUint32(le.AppendUint32(nil, 4), v) }
	list := func(kind uint32, items ...[]byte) []byte {
		return slices.Concat(le.AppendUint64(le.AppendUint32(le.AppendUint32(nil, 9), kind), uint64(len(items))), slices.Concat(items...))
	}
	var tokens, kinds, scores [][]byte
	for i := range 259 {
		name, kind := fmt.Sprintf("<0x%02X>", i), uint32(6)
		if i > 255 {
			name, kind = fmt.Sprintf("<special %d>", i), 3
		} else if control[byte(i)] != "" {
			name, kind = control[byte(i)], 3
		}
		tokens, kinds, scores = append(tokens, text(name)), append(kinds, le.AppendUint32(nil, kind)), append(scores, make([]byte, 4))
	}
	float := func(v float32) []byte { return le.AppendUint32(le.AppendUint32(nil, 6), math.Float32bits(v)) }
	meta := map[string][]byte{
		"general.architecture": append(le.AppendUint32(nil, 8), text("llama")...), "llama.embedding_length": number(256), "llama.feed_forward_length": number(512),
		"llama.block_count": number(4), "llama.attention.head_count": number(4), "llama.attention.head_count_kv": number(2), "llama.context_length": number(1024),
		"llama.attention.layer_norm_rms_epsilon": float(1e-5), "llama.rope.freq_base": float(10000), "tokenizer.ggml.model": append(le.AppendUint32(nil, 8), text("llama")...),
		"tokenizer.ggml.tokens": list(8, tokens...), "tokenizer.ggml.token_type": list(5, kinds...), "tokenizer.ggml.scores": list(6, scores...),
		"tokenizer.ggml.bos_token_id": number(256), "tokenizer.ggml.eos_token_id": number(257), "tokenizer.ggml.add_space_prefix": append(le.AppendUint32(nil, 7), 0),
	}
	if template != "" {
		meta["tokenizer.chat_template"] = append(le.AppendUint32(nil, 8), text(template)...)
	}

	weights, err := modeldata.Files.ReadFile("model.safetensors")
	require.NoError(t, err)
	header := weights[8 : 8+le.Uint64(weights)]
	var tensors map[string]struct {
		Shape   []uint64
		Offsets [2]int `json:"data_offsets"`
	}
	require.NoError(t, json.Unmarshal(bytes.Replace(header, []byte(`"format":"pt"`), nil, 1), &tensors))
	delete(tensors, "__metadata__")
	out := append([]byte("GGUF"), 3, 0, 0, 0)
	out = le.AppendUint64(le.AppendUint64(out, uint64(len(tensors))), uint64(len(meta)))
	for key, value := range meta {
		out = slices.Concat(out, text(key), value)
	}
	names := strings.NewReplacer("model.embed_tokens", "token_embd", "model.norm", "output_norm", "model.layers", "blk", "input_layernorm", "attn_norm", "post_attention_layernorm", "ffn_norm",
		"self_attn.q_proj", "attn_q", "self_attn.k_proj", "attn_k", "self_attn.v_proj", "attn_v", "self_attn.o_proj", "attn_output", "mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up", "mlp.down_proj", "ffn_down")
	var data []byte
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		tensor := tensors[name]
		part := bytes.Clone(weights[8+len(header):][tensor.Offsets[0]:tensor.Offsets[1]])
		if strings.Contains(name, "q_proj") || strings.Contains(name, "k_proj") {
			part = neighbours(part, 64, 2*256)
		}
		out = le.AppendUint32(append(out, text(names.Replace(name))...), uint32(len(tensor.Shape)))
		for _, n := range slices.Backward(tensor.Shape) {
			out = le.AppendUint64(out, n)
		}
		out = le.AppendUint64(le.AppendUint32(out, 1), uint64(len(data))) // F16
		data = append(data, part...)
		data = append(data, make([]byte, -len(data)&31)...)
	}
	out = append(out, make([]byte, -len(out)&31)...)
	return file(t, "story.gguf", string(append(out, data...)))
}

// neighbours reorders the rows of each head, each width bytes, so that those of its two halves alternate.
func neighbours(rows []byte, headDim, width int) (out []byte) {
	for head := range slices.Chunk(rows, headDim*width) {
		for i := range headDim {
			at := (i/2 + i%2*headDim/2) * width
			out = append(out, head[at:at+width]...)
		}
	}
	return out
}

// thoughtTemplate has the model think first, and takes thoughts out of earlier answers.
const thoughtTemplate = `{% for m in messages %}{{ m.role }}: {{ m.content.split('</think>')[-1]|trim }}
{% endfor %}{% if add_generation_prompt %}<think>{% endif %}`

// A template in a GGUF file is used, and what the model thinks is beside what it says. It is not in the next prompt, and what is before it is not
// computed again.
func TestChatThoughts(t *testing.T) {
	model := storyGGUF(t, thoughtTemplate, map[byte]string{'.': "</think>"})
	says(t, said[0]+"\n"+said[1])
	answers := jsonLines(t, succeeds(t, "chat", "--json", "--model", model, "--max-tokens", "120").stdout)
	require.Len(t, answers, 2)
	prompt := ""
	for i, a := range answers {
		prompt += "user: " + said[i] + "\n"
		whole := jsonLines(t, succeeds(t, "generate", "--json", "--max-tokens", "120", "--prompt", prompt+"<think>").stdout)[0]["text"].(string)
		thought, after, ends := strings.Cut(whole, ".")
		require.True(t, ends, whole)
		text := strings.TrimSpace(strings.ReplaceAll(after, ".", ""))
		require.Equal(t, strings.TrimSpace(thought), a["thinking"])
		require.Equal(t, text, strings.TrimSpace(a["text"].(string)))
		prompt += "assistant: " + text + "\n"
	}
	before := len("user: "+said[0]+"\n") + 1 // with BOS
	require.EqualValues(t, before, answers[1]["reused_tokens"])

	says(t, said[0])
	r := succeeds(t, "chat", "--model", model, "--max-tokens", "120", "--stop", "zzz")
	require.Equal(t, answers[0]["text"].(string)+"\n", r.stdout)
	require.True(t, strings.HasPrefix(r.stderr, "[thinks: "+answers[0]["thinking"].(string)+"]\n[computed "), r.stderr)
	says(t, said[0])
	r = succeeds(t, "chat", "--model", model, "--max-tokens", "5")
	require.Equal(t, "\n", r.stdout)
	require.Regexp(t, `^\[thinks: .{1,5}\]\n\[computed .*; at --max-tokens 5\]\n$`, r.stderr)

	// A template that repeats thoughts finds all of them in the cache.
	keeps := file(t, "keeps.jinja", `{% for m in messages %}{% if m.role == "user" %}{{ m.content }}: <think>{% else %}{{ m.content + "\n" }}{% endif %}{% endfor %}`)
	says(t, said[0]+"\n"+said[1])
	answers = jsonLines(t, succeeds(t, "chat", "--json", "--model", model, "--template", keeps, "--max-tokens", "30").stdout)
	require.NotEmpty(t, answers[0]["thinking"])
	require.NotEmpty(t, answers[0]["text"])
	require.Equal(t, answers[0]["prompt_tokens"].(float64)+29, answers[1]["reused_tokens"])

	fails(t, []string{"chat", "--model", storyGGUF(t, "", nil)}, "story.gguf brings no chat template", "name one with --template FILE", "'ferrumkv generate'")
}
