package tokenizer

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/cmd/internal/modelfile"
)

// What GGUF names divides a text into the words that Hugging Face's library (npm tokenizers 0.23.2) makes with the expressions of the models' own tokenizer.json.
func TestPreTokenizers(t *testing.T) {
	const text = "I'LL we've SEEing HTTPServer 12345\tÉt\u0301é  x!!/\r\n\r\n  \u00a0你好カナｗ नमस्ते f(x)=a.b "
	var seen []string
	for names, words := range map[string]string{
		"llama-bpe llama3 llama-v3 falcon3 pixtral dbrx smaug-bpe": `["I","'LL"," we","'ve"," SEEing"," HTTPServer"," ","123","45","\t\u00c9t","\u0301\u00e9"," "," x","!!/\r\n\r\n","  ","\u00a0\u4f60\u597d\u30ab\u30ca\uff57"," \u0928\u092e\u0938","\u094d\u0924","\u0947"," f","(x",")=","a",".b"," "]`,
		"tekken":                                  `["I","'LL"," we","'ve"," SEEing"," HTTPServer"," ","1","2","3","4","5","\t\u00c9t\u0301\u00e9"," "," x","!!/\r\n\r\n","  ","\u00a0\u4f60\u597d\u30ab\u30ca\uff57"," \u0928\u092e\u0938\u094d\u0924\u0947"," f","(x",")=","a",".b"," "]`,
		"gpt-2 phi-2 mellum olmo":                 `["I","'","LL"," we","'ve"," SEEing"," HTTPServer"," 12345","\t","\u00c9t","\u0301","\u00e9"," "," x","!!/","\r\n\r\n  ","\u00a0","\u4f60\u597d\u30ab\u30ca\uff57"," \u0928\u092e\u0938","\u094d","\u0924","\u0947"," f","(","x",")=","a",".","b"," "]`,
		"smollm starcoder refact command-r":       `["I","'","LL"," we","'ve"," SEEing"," HTTPServer"," ","1","2","3","4","5","\t","\u00c9t","\u0301","\u00e9"," "," x","!!/","\r\n\r\n  ","\u00a0","\u4f60\u597d\u30ab\u30ca\uff57"," \u0928\u092e\u0938","\u094d","\u0924","\u0947"," f","(","x",")=","a",".","b"," "]`,
		"qwen2 deepseek-r1-qwen stablelm2 megrez": `["I","'LL"," we","'ve"," SEEing"," HTTPServer"," ","1","2","3","4","5","\t\u00c9t","\u0301\u00e9"," "," x","!!/\r\n\r\n","  ","\u00a0\u4f60\u597d\u30ab\u30ca\uff57"," \u0928\u092e\u0938","\u094d\u0924","\u0947"," f","(x",")=","a",".b"," "]`,
		"qwen35":         `["I","'LL"," we","'ve"," SEEing"," HTTPServer"," ","1","2","3","4","5","\t\u00c9t\u0301\u00e9"," "," x","!!/\r\n\r\n","  ","\u00a0\u4f60\u597d\u30ab\u30ca\uff57"," \u0928\u092e\u0938\u094d\u0924\u0947"," f","(x",")=","a",".b"," "]`,
		"gpt-4o llama4":  `["I'LL"," we've"," SEEing"," HTTPServer"," ","123","45","\t\u00c9t\u0301\u00e9"," "," x","!!/\r\n\r\n","  ","\u00a0\u4f60\u597d\u30ab\u30ca\uff57"," \u0928\u092e\u0938\u094d\u0924\u0947"," f","(x",")=","a",".b"," "]`,
		"seed-coder":     `["I","'LL"," we","'ve"," SEEing"," HTTPServer"," ","1","2","3","4","5","\t\u00c9t","\u0301\u00e9"," "," x","!!/","\r\n\r\n","  ","\u00a0\u4f60\u597d\u30ab\u30ca\uff57"," \u0928\u092e\u0938","\u094d\u0924","\u0947"," f","(x",")=","a",".b"," "]`,
		"deepseek-v3":    `["I","'LL"," we","'ve"," SEEing"," HTTPServer"," ","123","45","\t\u00c9t\u0301\u00e9"," "," x","!!/\r\n\r\n","  \u00a0","\u4f60\u597d\u30ab\u30ca","\uff57"," \u0928\u092e\u0938\u094d\u0924\u0947"," f","(x",")=","a",".b"," "]`,
		"deepseek-coder": `["I","'","LL"," we","'","ve"," SEEing"," HTTPServer"," ","1","2","3","4","5","\t\u00c9t","\u0301","\u00e9"," "," x","!!/","\r","\n","\r","\n","  ","\u00a0","\u4f60\u597d\u30ab\u30ca","\uff57"," ","\u0928\u092e\u0938","\u094d","\u0924","\u0947"," f","(","x",")","=","a",".","b"," "]`,
	} {
		var want []string
		require.NoError(t, json.Unmarshal([]byte(words), &want))
		for name := range strings.FieldsSeq(names) {
			pre, known := NamedPreTokenizer(name)
			require.True(t, known, name)
			var steps []any
			for _, expression := range pre.expressions {
				steps = append(steps, split(expression, "Isolated"))
			}
			require.Equal(t, want, parts(t, sequence("pretokenizers", steps...), text), name)
			seen = append(seen, name)

			tok, err := ByteLevel("m.gguf", append(normalPieces(byteTokens("ab")), Piece{Text: "<s>", Kind: ControlPiece}), []string{"a b"}, pre, []uint32{257})
			require.NoError(t, err, name)
			require.Equal(t, text, decode(tok, tok.Encode(text)), name)
			require.Equal(t, []uint32{257, 256, 257, 256}, tok.Encode("ab<s>ab"), name)
		}
	}
	slices.Sort(seen)
	require.Equal(t, PreTokenizers(), seen, "all of them")
	_, known := NamedPreTokenizer("default")
	require.False(t, known)
}

func normalPieces(texts []string) (pieces []Piece) {
	for _, text := range texts {
		pieces = append(pieces, Piece{Text: text, Kind: NormalPiece})
	}
	return pieces
}

// As in llama.cpp a token that is there twice and merges of tokens that are found before merging are no errors, as in files that others converted.
func TestByteLevelIsTolerant(t *testing.T) {
	pre, _ := NamedPreTokenizer("gpt-2")
	pieces := append(normalPieces(byteTokens("ab", "ab", "abc")), Piece{Text: "bc", Kind: UserPiece}, Piece{Text: "aa", Kind: ControlPiece}, Piece{Text: "cc", Kind: 5})
	tok, err := ByteLevel("m.gguf", pieces, []string{"a b", "b c", "a bc", "a a", "ab c", "cc a"}, pre, nil)
	require.NoError(t, err)
	require.Equal(t, []uint32{256, 'a', 259, 260, 259}, tok.Encode("ababcaabc"))
	require.Equal(t, "abab", decode(tok, []uint32{256, 257}), "both have the text")
	for _, merge := range []string{"ab", "a b c", "a x", "b a", ""} {
		_, err = ByteLevel("m.gguf", pieces, []string{"a b", merge}, pre, nil)
		require.ErrorIs(t, err, modelfile.ErrFile{}, merge)
		require.ErrorContains(t, err, "merge 1", merge)
	}
}
