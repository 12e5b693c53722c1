package tokenizer

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/cmd/internal/modelfile"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/stretchr/testify/require"
)

// Small tokenizer.json, made for each form.

type object = map[string]any

func list(items ...any) []any { return items }

// crafted is a tokenizer.json with a vocabulary of tokens, numbered from 0, and whatever
// else is in parts; "model." before a name is inside of the model.
func crafted(tokens []string, merges any, parts object) []byte {
	vocab := object{}
	for i, text := range tokens {
		vocab[text] = i
	}
	model := object{"type": "BPE", "vocab": vocab, "merges": merges}
	file := object{"version": "1.0", "model": model, "decoder": object{"type": "Fuse"}}
	for name, value := range parts {
		if len(name) > 6 && name[:6] == "model." {
			model[name[6:]] = value
		} else {
			file[name] = value
		}
	}
	data, err := json.Marshal(file)
	if err != nil {
		panic(err)
	}
	return data
}

// vocabSize is that of the models of crafted files.
const vocabSize = 400

func read(t require.TestingT, data []byte) *Tokenizer {
	tok, err := Read("tokenizer.json", data, vocabSize)
	require.NoError(t, err)
	return tok
}

// byteTokens are the 256 characters of a byte-level vocabulary, in the order of bytes.
func byteTokens(more ...string) []string {
	list := make([]string, 256)
	for char, b := range alphabet {
		list[b] = string(char)
	}
	return append(list, more...)
}

// pieceTokens are what Llama 2 begins with: unknown, BOS, EOS and the bytes.
func pieceTokens(more ...string) []string {
	list := []string{"<unk>", "<s>", "</s>"}
	for b := range 256 {
		list = append(list, fmt.Sprintf("<0x%02X>", b))
	}
	return append(list, more...)
}

// split is a pre-tokenizer of a regular expression.
func split(pattern, behavior string) object {
	return object{"type": "Split", "pattern": object{"Regex": pattern}, "behavior": behavior}
}

// byteLevel is one as the published files have it after their expressions.
var byteLevel = object{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}

func sequence(kind string, parts ...any) object { return object{"type": "Sequence", kind: parts} }

// template puts token 1, <s>, before a text.
var template = object{"type": "TemplateProcessing",
	"single":         list(object{"SpecialToken": object{"id": "<s>"}}, object{"Sequence": object{"id": "A"}}),
	"special_tokens": object{"<s>": object{"ids": list(1)}}}

// llama2 is a file as those of Llama 2, Mistral and Gemma.
func llama2(parts object) []byte {
	all := object{
		"added_tokens": list(
			object{"id": 0, "content": "<unk>", "special": true}, object{"id": 1, "content": "<s>", "special": true},
			object{"id": 2, "content": "</s>", "special": true}),
		"normalizer": sequence("normalizers", object{"type": "Prepend", "prepend": "▁"},
			object{"type": "Replace", "pattern": object{"String": " "}, "content": "▁"}),
		"post_processor": template,
		"decoder": sequence("decoders", object{"type": "Replace", "pattern": object{"String": "▁"}, "content": " "},
			object{"type": "ByteFallback"}, object{"type": "Fuse"}, object{"type": "Strip", "content": " ", "start": 1, "stop": 0}),
		"model.unk_token": "<unk>", "model.fuse_unk": true, "model.byte_fallback": true,
	}
	maps.Copy(all, parts)
	return crafted(pieceTokens("▁", "a", "b", "c", "▁a", "ab", "bc", "abc", "▁▁"),
		list("▁ a", "a b", list("b", "c"), "ab c", "▁ ▁"), all)
}

// llama3 is a file as those of Llama 3, Qwen, DeepSeek and gpt-oss.
func llama3(parts object) []byte {
	all := object{
		"pre_tokenizer": sequence("pretokenizers", split(llama3Pattern, "Isolated"), byteLevel),
		"decoder":       byteLevel,
	}
	maps.Copy(all, parts)
	return crafted(byteTokens("he", "ll", "hell", "hello", "Ġw", "Ã©", "ĠĠ"),
		list("h e", "l l", "he ll", list("hell", "o"), "Ġ w", list("Ã", "©"), "Ġ Ġ"), all)
}

const llama3Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

// bounded runs f and fails if it allocated out of proportion to size, the bytes of its
// input. What regular expressions may need is in the constant.
func bounded(t testing.TB, size int, f func()) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if race.Enabled { // which drops what a sync.Pool keeps, at random, those of regular expressions too
		return
	}
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20+1024*size), "bytes allocated for an input of %d", size)
}

// typed fails unless err is one that a reader may give.
func typed(t testing.TB, err error) {
	var f modelfile.ErrFile
	var u modelfile.ErrUnsupported
	switch e := err.(type) {
	case nil:
	case modelfile.ErrFile:
		f = e
		require.NotEmpty(t, f.File)
		require.NotEmpty(t, f.Field)
	case modelfile.ErrUnsupported:
		u = e
		require.NotEmpty(t, u.File)
		require.NotEmpty(t, u.Remedy, u.Feature)
	default:
		require.Fail(t, "untyped error", "%T %v", err, err)
	}
}

// decode is the text of tokens after others.
func decode(t *Tokenizer, tokens []uint32, before ...uint32) (text string) {
	d := t.Decoder(before...)
	for _, token := range tokens {
		text += d.Add(token)
	}
	return text + d.Rest()
}

// raw is the text of tokens with the bytes that are no characters.
func raw(t *Tokenizer, tokens []uint32) (text string) {
	for _, token := range tokens {
		text += t.Piece(token)
	}
	return text
}

// parts are what the pre-tokenizer of a file makes of a text.
func parts(t testing.TB, preTokenizer any, text string) (out []string) {
	t.Helper()
	spans := []span{{text: text, begins: true}}
	for _, step := range read(t, crafted(nil, nil, object{"pre_tokenizer": preTokenizer})).steps {
		var next []span
		for _, s := range spans {
			next = append(next, step(s)...)
		}
		spans = next
	}
	for _, s := range spans {
		out = append(out, s.text)
	}
	return slices.Clip(out)
}
