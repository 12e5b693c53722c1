package runner

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What ends a text is what the file says, and what tokens of known names are for. Texts begin with BOS unless the file says that they do not.
func TestGGUFEnds(t *testing.T) {
	c := craftConfig(8)
	vocabulary := func(kind int, names ...string) map[string][]byte {
		meta := craftMeta(c)
		texts, kinds := []byte{}, []byte{}
		for i, name := range append([]string{"<unk>", "<s>"}, names...) {
			texts = append(texts, text(name)...)
			kinds = append(kinds, u32(uint32([]int{2, 3, kind, kind, kind}[i]))...)
		}
		meta["tokenizer.ggml.tokens"] = join(u32(ggufArray), u32(ggufString), u64(5), texts)
		meta["tokenizer.ggml.token_type"] = join(u32(ggufArray), u32(ggufI32), u64(5), kinds)
		return meta
	}
	const normal, control, user = 1, 3, 4
	for name, tc := range map[string]struct {
		meta map[string][]byte
		ends []uint32
	}{
		"Phi-3":             {vocabulary(control, "a", "<|end|>", "<|endoftext|>"), []uint32{2, 3, 4}},
		"Gemma":             {vocabulary(user, "a", "b", "<end_of_turn>"), []uint32{2, 4}},
		"gpt-oss":           {vocabulary(control, "<|end|>", "<|return|>", "<|call|>"), []uint32{3, 4}},
		"harmony's message": {vocabulary(control, "a", "<|return|>", "<|end|>"), []uint32{2, 3}},
		"of another type":   {vocabulary(normal, "a", "<|end|>", "<|im_end|>"), []uint32{2, 3, 4}},
		"other names":       {vocabulary(control, "a", "<|end", "<|user|>"), []uint32{2}},
	} {
		m, _, err := LoadFS(folder(map[string][]byte{"m.gguf": craftGGUF(tc.meta, craftArrays(c, ggufWeights), "F32")}), "m.gguf")
		require.NoError(t, err, name)
		require.ElementsMatch(t, tc.ends, m.EOS, name)
	}
	meta := vocabulary(normal, "a", "b", " ")
	meta["tokenizer.ggml.eos_token_ids"] = join(u32(ggufArray), u32(ggufU32), u64(2), u32(3), u32(4))
	for _, begins := range []byte{0, 1} {
		meta["tokenizer.ggml.add_bos_token"] = join(u32(ggufBool), []byte{begins})
		m, tok, err := LoadFS(folder(map[string][]byte{"m.gguf": craftGGUF(meta, craftArrays(c, ggufWeights), "F32")}), "m.gguf")
		require.NoError(t, err)
		require.Equal(t, []uint32{2, 3, 4}, m.EOS)
		require.Equal(t, []uint32{1, 4, 2}[1-begins:], tok.Encode("a"))
		require.Equal(t, "a", decode(tok, tok.Encode("a")))
	}
}

// ggufTexts is an array of texts in GGUF.
func ggufTexts(texts ...string) []byte {
	out := join(u32(ggufArray), u32(ggufString), u64(uint64(len(texts))))
	for _, t := range texts {
		out = append(out, text(t)...)
	}
	return out
}

// What chat templates of Phi-3 write has the tokens that it was trained with: its control tokens take the white space after them, which no file of GGUF
// says. Files need no scores and no types.
func TestGGUFOfPhi3(t *testing.T) {
	const end, user, assistant = 3, 4, 5
	of := func(arch, name string) []uint32 {
		kinds := join(u32(ggufArray), u32(ggufI32), u64(10), u32(2), u32(3), u32(1), u32(3), u32(3), u32(3), u32(1), u32(1), u32(1), u32(1))
		meta, _ := parseGGUF(file{"m.gguf", craftGGUF(map[string][]byte{"general.name": join(u32(ggufString), text(name)), "tokenizer.ggml.token_type": kinds,
			"tokenizer.ggml.tokens": ggufTexts("<unk>", "<s>", "<|endoftext|>", "<|end|>", "<|user|>", "<|assistant|>", "▁", "h", "i", "\n")}, nil, "F32")})
		meta.arch = arch
		tok, err := ggufTokenizer(meta, 10, 1)
		require.NoError(t, err)
		require.Equal(t, []uint32{2, 6, 9, 6, 7}, tok.Spoken().EncodeMore("<|endoftext|>\n h"), "the others leave it")
		return tok.Spoken().Encode("<|user|>\nhi<|end|>\n<|assistant|>\n")
	}
	want := []uint32{1, user, 6, 7, 8, end, assistant}
	require.Equal(t, want, of("phi3", "Phi 3.5 Mini"))
	require.Equal(t, want, of("llama", "Phi-3-mini as Llama"))
	require.Equal(t, []uint32{1, user, 6, 9, 7, 8, end, 6, 9, assistant, 6, 9}, of("llama", "another"))

	meta, _ := parseGGUF(file{"m.gguf", craftGGUF(map[string][]byte{"tokenizer.ggml.model": join(u32(ggufString), text("gpt2")), "tokenizer.ggml.pre": join(u32(ggufString), text("gpt-2")),
		"tokenizer.ggml.tokens": ggufTexts("a", "b", "ab", "<|im_end|>"), "tokenizer.ggml.merges": ggufTexts("a b")}, nil, "F32")})
	tok, err := ggufByteLevel(meta, 4, NoToken)
	require.NoError(t, err)
	require.Equal(t, []uint32{2, 3}, tok.Encode("ab<|im_end|>"))
	require.Empty(t, tok.Piece(3), "a control token by its name")
}
