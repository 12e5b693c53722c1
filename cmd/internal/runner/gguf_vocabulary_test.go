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
		"gpt-oss":           {vocabulary(control, "<|end|>", "<|return|>", "<|call|>"), []uint32{2, 3, 4}},
		"harmony's message": {vocabulary(control, "a", "<|return|>", "<|end|>"), []uint32{2, 3}},
		"plain text":        {vocabulary(normal, "a", "<|end|>", "<|im_end|>"), []uint32{2}},
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
