package tokenizer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/cmd/internal/modelfile"
	"github.com/stretchr/testify/require"
)

func TestCharacterVocabulary(t *testing.T) {
	tok := read(t, llama2(nil))
	const space, a, b, c, spaceA, ab, bc, abc, spaces = 259, 260, 261, 262, 263, 264, 265, 266, 267
	for text, want := range map[string][]uint32{
		"":          {1},
		"abc":       {1, spaceA, bc},
		"babc":      {1, space, b, abc},
		"a  a":      {1, spaceA, space, spaceA}, // "▁ a" is the better pair
		"   ":       {1, spaces, spaces},
		"é":         {1, space, 0xc3 + 3, 0xa9 + 3},
		"a\xffb":    {1, spaceA, 0xff + 3, b},
		"<s>a":      {1, 1, spaceA},
		"a</s>b":    {1, spaceA, 2, space, b}, // the prefix is that of every text between tokens
		"<0x0A>":    {1, space, '<' + 3, '0' + 3, 'x' + 3, '0' + 3, 'A' + 3, '>' + 3},
		"a\u2581ab": {1, spaceA, spaceA, b},
	} {
		require.Equal(t, want, tok.Encode(text), "%q", text)
	}
	require.Equal(t, []uint32{ab, spaceA}, tok.EncodeMore("ab a"), "no space is put before text that goes on")
	require.Empty(t, tok.EncodeMore(""))

	require.Equal(t, "abc", decode(tok, []uint32{1, spaceA, bc}), "the space before the text is not part of it")
	require.Equal(t, " abc", decode(tok, []uint32{spaceA, bc}, 1, a), "after other text it is")
	require.Equal(t, "a", decode(tok, []uint32{1, 2, spaceA}, 1))
	require.Equal(t, "c é\ufffd", decode(tok, []uint32{c, space, 0xc3 + 3, 0xa9 + 3, 0xff + 3}))
	require.Equal(t, "", tok.Piece(vocabSize))
}

func TestByteLevelVocabulary(t *testing.T) {
	tok := read(t, llama3(nil))
	for text, want := range map[string][]uint32{
		"":            nil,
		"hello w":     {259, 260},
		"hell":        {258},
		"h el lo":     {'h', ' ', 'e', 'l', ' ', 'l', 'o'},
		"é\x00\xff":   {261, 0, 0xff},
		"   w":        {262, 260}, // the last space belongs to the word
		"   \n  ":     {262, ' ', '\n', 262},
		"don't'LL":    {'d', 'o', 'n', '\'', 't', '\'', 'L', 'L'},
		"\u00a0hello": {0xc2, 0xa0, 259},
	} {
		require.Equal(t, want, tok.Encode(text), "%q", text)
		require.Equal(t, want, tok.EncodeMore(text), "%q", text)
		require.Equal(t, text, raw(tok, want))
	}
	prefixed := read(t, llama3(object{"pre_tokenizer": object{"type": "ByteLevel"}}))
	require.Equal(t, []uint32{260}, prefixed.Encode("w"))
	require.Equal(t, []uint32{'w'}, prefixed.EncodeMore("w"))
	require.Equal(t, []uint32{260, 262, 260}, prefixed.Encode(" w   w"))
	whole := read(t, llama3(object{"model.ignore_merges": true, "model.merges": list()}))
	require.Equal(t, []uint32{259, 260, ' ', 'h', 'e', 'l'}, whole.Encode("hello w hel"))
}

func TestUnknownCharacters(t *testing.T) {
	for _, c := range []struct {
		parts object
		want  []uint32
	}{
		{object{"model.unk_token": "?"}, []uint32{1, 0, 0, 2}},
		{object{"model.unk_token": "?", "model.fuse_unk": true}, []uint32{1, 0, 2}},
		{nil, []uint32{3}},
		{object{"model.byte_fallback": true}, []uint32{3}}, // no byte is a token
	} {
		require.Equal(t, c.want, read(t, crafted([]string{"?", "a", "b", "ab"}, list("a b"), c.parts)).Encode("axéb"))
	}
}

func TestNormalizers(t *testing.T) {
	tok := read(t, llama3(object{"normalizer": object{"type": "NFC"}}))
	require.Equal(t, []uint32{261}, tok.Encode("e\u0301"))
	for _, marks := range []string{strings.Repeat("\u0316", 70), "\u034f\u0316"} {
		require.Equal(t, "e"+marks, raw(tok, tok.Encode("e"+marks)))
	}
	tok = read(t, llama3(object{"normalizer": sequence("normalizers"), "added_tokens": list(
		object{"id": 300, "content": "e\u0301", "normalized": true}, object{"id": 301, "content": "o\u0301"})}))
	require.Equal(t, []uint32{300, 301}, tok.Encode("e\u0301o\u0301"))
	tok = read(t, llama3(object{"normalizer": object{"type": "NFC"}, "added_tokens": list(
		object{"id": 300, "content": "e\u0301", "normalized": true}, object{"id": 301, "content": "o\u0301"})}))
	require.Equal(t, []uint32{300, 300, 301, 0xc3, 0xb3}, tok.Encode("e\u0301éo\u0301ó"), "found in what is normalized, and before that")
}

func TestAddedTokens(t *testing.T) {
	add := func(id int, content string, flags ...string) object {
		o := object{"id": id, "content": content}
		for _, f := range flags {
			o[f] = true
		}
		return o
	}
	tok := read(t, llama3(object{"added_tokens": list(add(300, "<a>", "special"), add(301, "<a><a>"), add(302, "<l>", "lstrip"),
		add(303, "<r>", "rstrip"), add(304, "word", "single_word"), add(305, "<b>", "lstrip", "rstrip", "single_word"),
		add(306, "   "), add(307, "\u2003", "lstrip", "rstrip"), add(vocabSize, "<beyond>"), add('x', "x"))}))
	for text, want := range map[string][]uint32{
		"<a>":            {300},
		"<a><a><a>":      {301, 300}, // the longest
		"<a<a>":          {'<', 'a', 300},
		"1 \n<l> 1":      {'1', 302, ' ', '1'},
		"1 <r>\u3000 1":  {'1', ' ', 303, '1'},
		" <r>  <l> ":     {' ', 303, 302, ' '},
		"word":           {304},
		"(word)":         {'(', 304, ')'},
		"sword":          {'s', 'w', 'o', 'r', 'd'},
		"words, word":    {'w', 'o', 'r', 'd', 's', ',', ' ', 304},
		"word\u200dword": {'w', 'o', 'r', 'd', 0xe2, 0x80, 0x8d, 'w', 'o', 'r', 'd'},
		". <b> .":        {'.', 305, '.'},
		"<beyond>":       {'<', 'b', 'e', 'y', 'o', 'n', 'd', '>'},
		"axb":            {'a', 'x', 'b'},
		"<r>   1":        {303, 306, '1'}, // found in the white space that another one took
		"<r>    1":       {303, 306, ' ', '1'},
		"<r>  \u2003 1":  {303, '1'}, // nothing is left for one that takes it, too
	} {
		require.Equal(t, want, tok.Encode(text), "%q", text)
	}
	require.Equal(t, "<a><a>x", decode(tok, []uint32{300, 301, 'x'}), "a special token stands for no text")
}

func TestMetaspace(t *testing.T) {
	meta := func(more ...any) object {
		o := object{"type": "Metaspace", "replacement": "▁"}
		for i := 0; i < len(more); i += 2 {
			o[more[i].(string)] = more[i+1]
		}
		return o
	}
	const text = "a  b "
	require.Equal(t, []string{"▁a", "▁", "▁b", "▁"}, parts(t, meta(), text))
	require.Equal(t, []string{"▁a▁▁b▁"}, parts(t, meta("split", false), text))
	require.Equal(t, []string{"a", "▁", "▁b", "▁"}, parts(t, meta("add_prefix_space", false), text))
	require.Equal(t, []string{"a▁▁b▁"}, parts(t, meta("prepend_scheme", "never", "split", false), text))
	require.Equal(t, []string{"▁a"}, parts(t, meta(), " a"), "there is one already")

	added := object{"normalizer": nil, "pre_tokenizer": meta("prepend_scheme", "first", "split", false)}
	tok := read(t, llama2(added))
	require.Equal(t, []uint32{1, 263, 2, 260}, tok.Encode("a</s>a"), "only where the text begins")
	require.Equal(t, []uint32{260}, tok.EncodeMore("a"))
	added["pre_tokenizer"], added["decoder"] = meta(), meta()
	tok = read(t, llama2(added))
	require.Equal(t, []uint32{1, 263, 2, 263}, tok.Encode("a</s>a"))
	require.Equal(t, "a a", decode(tok, []uint32{1, 263, 2, 263}))
}

// The expressions of the families, on what they tell apart.
func TestSplitFamilies(t *testing.T) {
	const (
		text   = "I'll SEE 12345\tÉt\u0301é  x!!\r\n\r\n  \u00a0你好ｗ "
		o200k  = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
		v3     = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
		letter = `\s?[A-Za-zÀ-ÖØ-öø-ƺ]+`
	)
	digits := object{"type": "Digits", "individual_digits": true}
	for _, c := range []struct {
		name string
		pre  any
		want []string
	}{
		{"llama 3", split(llama3Pattern, "Isolated"),
			[]string{"I", "'ll", " SEE", " ", "123", "45", "\tÉt", "\u0301é", " ", " x", "!!\r\n\r\n", "  ", "\u00a0你好ｗ", " "}},
		{"qwen", split(strings.Replace(llama3Pattern, "{1,3}", "", 1), "Isolated"),
			[]string{"I", "'ll", " SEE", " ", "1", "2", "3", "4", "5", "\tÉt", "\u0301é", " ", " x", "!!\r\n\r\n", "  ", "\u00a0你好ｗ", " "}},
		{"o200k", split(o200k, "Isolated"),
			[]string{"I'll", " SEE", " ", "123", "45", "\tÉt\u0301é", " ", " x", "!!\r\n\r\n", "  ", "\u00a0你好ｗ", " "}},
		{"o200k, inverted", object{"type": "Split", "pattern": object{"Regex": o200k}, "behavior": "Removed", "invert": true},
			[]string{"I'll", " SEE", " ", "123", "45", "\tÉt\u0301é", " ", " x", "!!\r\n\r\n", "  ", "\u00a0你好ｗ", " "}},
		{"deepseek v3", sequence("pretokenizers", split(`\p{N}{1,3}`, "Isolated"), split("[一-龥぀-ゟ゠-ヿ]+", "Isolated"), split(v3, "Isolated")),
			[]string{"I", "'ll", " SEE", " ", "123", "45", "\tÉt\u0301é", " ", " x", "!!\r\n\r\n", "  \u00a0", "你好", "ｗ", " "}},
		{"deepseek v2", sequence("pretokenizers", split("[\r\n]", "Isolated"), split(letter, "Isolated"), split(`\s+$`, "Isolated"), digits),
			[]string{"I", "'", "ll", " SEE", " ", "1", "2", "3", "4", "5", "\tÉt", "\u0301", "é", " ", " x", "!!", "\r", "\n", "\r", "\n", "  \u00a0你好ｗ", " "}},
		{"gemma", object{"type": "Split", "pattern": object{"String": " "}, "behavior": "MergedWithPrevious"},
			[]string{"I'll ", "SEE ", "12345\tÉt\u0301é ", " ", "x!!\r\n\r\n ", " ", "\u00a0你好ｗ "}},
	} {
		require.Equal(t, c.want, parts(t, c.pre, text), c.name)
	}
}

func TestSplitBehaviors(t *testing.T) {
	for behavior, want := range map[string][]string{
		"Isolated":           {"a", "-", "-", "b", "-", "c"},
		"Removed":            {"a", "b", "c"},
		"Contiguous":         {"a", "--", "b", "-", "c"},
		"MergedWithPrevious": {"a-", "-", "b-", "c"},
		"MergedWithNext":     {"a", "-", "-b", "-c"},
	} {
		require.Equal(t, want, parts(t, split("-", behavior), "a--b-c"), behavior)
		inverted := split("[a-z]", behavior)
		inverted["invert"] = true
		require.Equal(t, parts(t, split("-+", behavior), "a--b-c"), parts(t, inverted, "a--b-c"), behavior)
	}
	require.Empty(t, parts(t, split("a", "Removed"), "aaa"))
	require.Equal(t, []string{"a", "\u2003-龥", "丁"}, parts(t, split(`[\s-龥]+`, "Isolated"), "a\u2003-龥丁"), "no range from \\s")
	require.Equal(t, []string{"12", "a", "½3"}, parts(t, object{"type": "Digits"}, "12a½3"))
	require.Equal(t, []string{"a ", "\n", "\u0085\u3000", "\nb"}, parts(t, split(`\S*\s{1,2}$`, "Isolated"), "a \n\u0085\u3000\nb"), "$ is the end of a line")
}

func TestRefusals(t *testing.T) {
	pre := func(p any) []byte { return llama3(object{"pre_tokenizer": p}) }
	norm := func(p any) []byte { return llama3(object{"normalizer": p}) }
	dec := func(p any) []byte { return llama3(object{"decoder": p}) }
	replace := func(old, now string) object {
		return object{"type": "Replace", "pattern": object{"String": old}, "content": now}
	}
	large := strings.Repeat("a", maxSection)
	const others = "; name the tokenizer.json of the model that this one was made of with --tokenizer, or take a GGUF file of the model, which has its vocabulary inside"
	for _, c := range []struct {
		feature, reads string
		data           []byte
	}{
		{`model.type "Unigram"`, "it reads BPE" + others, []byte(`{"model":{"type":"Unigram","vocab":[["a",0]]}}`)},
		{"truncation", toNull, llama3(object{"truncation": object{"max_length": 5}})},
		{"padding", toNull, llama3(object{"padding": object{"pad_id": 0}})},
		{"model.dropout 0.5", toNull, llama3(object{"model.dropout": 0.5})},
		{`model.continuing_subword_prefix "##"`, "it reads vocabularies without one" + others, llama3(object{"model.continuing_subword_prefix": "##"})},
		{`model.end_of_word_suffix "</w>"`, "it reads vocabularies without one" + others, llama3(object{"model.end_of_word_suffix": "</w>"})},
		{`normalizer.type "Precompiled"`, "it reads NFC, Prepend, Replace, and a Sequence of them" + others, norm(object{"type": "Precompiled"})},
		{`normalizer.type "Precompiled of 65584 bytes"`, "it reads NFC, Prepend, Replace, and", norm(object{"type": "Precompiled", "precompiled_charsmap": large})},
		{`normalizer.normalizers[1].type "Sequence"`, "it reads NFC,", norm(sequence("normalizers", object{"type": "NFC"}, sequence("normalizers")))},
		{"normalizer.normalizers[0].pattern of a Replace", "it replaces a String" + others, norm(sequence("normalizers", object{"type": "Replace", "pattern": object{"Regex": "a"}}))},
		{"normalizer.content of 64 bytes", longer + others, norm(replace("a", strings.Repeat("a", 64)))},
		{"normalizer.normalizers[1].content of 8 bytes", longer, norm(sequence("normalizers", replace("a", "aaaaaaaa"), replace("a", "aaaaaaaa")))},
		{"normalizer.prepend of 100 bytes", longer, norm(object{"type": "Prepend", "prepend": strings.Repeat("a", 100)})},
		{`pre_tokenizer.type "BertPreTokenizer"`, "it reads ByteLevel, Digits, Metaspace, Split, and", pre(object{"type": "BertPreTokenizer"})},
		{`pre_tokenizer.pretokenizers[0].type "ByteLevel" before others`, "it reads ByteLevel as the last of a Sequence" + others, pre(sequence("pretokenizers", byteLevel, byteLevel))},
		{`pre_tokenizer.behavior "Merged"`, "it reads Contiguous, Isolated, MergedWithNext, MergedWithPrevious, Removed" + others, pre(split("a", "Merged"))},
		{"pre_tokenizer.pattern without one", "it splits at a String or a Regex" + others, pre(object{"type": "Split", "behavior": "Isolated"})},
		{`pre_tokenizer.replacement ""`, "it reads one character" + others, pre(object{"type": "Metaspace"})},
		{`pre_tokenizer.prepend_scheme "last"`, "it reads always, first and never" + others, pre(object{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "last"})},
		{"decoder null", "it reads ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Strip, and", dec(nil)},
		{`decoder.type "WordPiece"`, "it reads ByteFallback, ", dec(object{"type": "WordPiece"})},
		{`decoder.type "after Fuse Strip"`, "it reads ByteFallback, ", dec(object{"type": "after Fuse Strip", "start": 1})},
		{`decoder.type "Strip" before Fuse`, "it reads Strip after Fuse" + others, dec(object{"type": "Strip", "start": 2})},
		{`decoder.decoders[1].type "Fuse" after Fuse`, "of decoders after Fuse it reads Strip" + others, dec(sequence("decoders", object{"type": "Fuse"}, object{"type": "Fuse"}))},
		{`decoder.decoders[1].type "WordPiece" after Fuse`, "of decoders after", dec(sequence("decoders", object{"type": "Fuse"}, object{"type": "WordPiece"}))},
		{`decoder.decoders[1].type "Replace" after Fuse`, "of decoders after", dec(sequence("decoders", object{"type": "Fuse"}, replace(" ", "")))},
		{"decoder.decoders[1].start 2 with stop 0", "it strips the first character: start 1, stop 0" + others, dec(sequence("decoders", object{"type": "Fuse"}, object{"type": "Strip", "start": 2}))},
		{`post_processor.type "BertProcessing"`, "it reads ByteLevel, TemplateProcessing, and", llama3(object{"post_processor": object{"type": "BertProcessing"}})},
		{"post_processor.processors[0].single[0]", "it reads special tokens before one Sequence" + others, llama3(object{"post_processor": sequence("processors", object{"type": "TemplateProcessing", "single": list(
			object{"Sequence": object{"id": "A"}}, object{"SpecialToken": object{"id": "</s>"}})})})},
	} {
		_, err := Read("tokenizer.json", c.data, vocabSize)
		require.ErrorIs(t, err, modelfile.ErrUnsupported{}, c.feature)
		require.ErrorContains(t, err, "tokenizer.json: "+c.feature+" is not supported by this runner; "+c.reads)
	}
	// What a refusal says that it reads is read: it is not refused by its type.
	for kind, k := range kinds {
		for name := range strings.SplitSeq(k.types, ", ") {
			_, err := Read("tokenizer.json", llama3(object{kind: object{"type": name}}), vocabSize)
			require.NotErrorIs(t, err, modelfile.ErrFile{})
			if err != nil {
				require.NotContains(t, err.Error(), fmt.Sprintf("%s.type %q is not", kind, name))
			}
		}
	}
	for _, pattern := range []string{
		`(?=a)a`, `a(?!b)`, `(?<=a)b`, `(a)`, `(?>a)`, `a++`, `a?+`, `^a`, `\ba`, `\w`, `\h`, `[[a]b]`, `[a&&b]`, `[\S]`, `[a`, `a]`,
		`(?:a`, `a)`, `(?:a){3}`, `a{10}`, `a{,2}`, `a{3}{3}`, `a*`, `(?i)a`, `\p{Lx}`, `\x41`, `\1`, "", blanks, `(?:a` + blanks + `)`,
		strings.Repeat("a", maxPatterns+1),
	} {
		_, err := Read("tokenizer.json", pre(split(pattern, "Isolated")), vocabSize)
		require.ErrorIs(t, err, modelfile.ErrUnsupported{}, pattern)
		require.ErrorContains(t, err, "tokenizer.json: pre_tokenizer.pattern.Regex ", pattern)
		require.ErrorContains(t, err, "; "+readsRegex+others, pattern)
	}
}

func TestDamagedFiles(t *testing.T) {
	added := func(o object) []byte { return llama3(object{"added_tokens": list(o)}) }
	for _, c := range []struct {
		field, why string
		data       []byte
	}{
		{"JSON", "unexpected end", nil},
		{"JSON", "unexpected end", llama3(nil)[:100]},
		{"model.vocab", "number -1", []byte(`{"model":{"vocab":{"a":-1}}}`)},
		{"model.merges", "has 3 tokens, need 2", crafted([]string{"a"}, list("a b c"), nil)},
		{"model.merges", "has 1 tokens, need 2", crafted([]string{"a"}, list(list("a")), nil)},
		{"model.merges", "is not a list", crafted([]string{"a"}, object{}, nil)},
		{"model.vocab", "beyond the model's 400", crafted(make([]string, 0), nil, object{"model.vocab": object{"a": 400}})},
		{"model.vocab", "is token 5", crafted(nil, nil, object{"model.vocab": object{"a": 5, "b": 5}})},
		{"model.merges", `"a" and "c" of merge 0`, crafted([]string{"a", "c"}, list("a c"), nil)},
		{"model.merges", `"a" and "x" of merge 0`, crafted([]string{"a", "ax"}, list("a x"), nil)},
		{"model.unk_token", `"?" is no token`, crafted([]string{"a"}, nil, object{"model.unk_token": "?"})},
		{"added_tokens", "token 300 is empty", added(object{"id": 300, "content": ""})},
		{"added_tokens hello", "is token 300, in the vocabulary 259", added(object{"id": 300, "content": "hello"})},
		{"added_tokens <a>", "token 259 is another one", added(object{"id": 259, "content": "<a>"})},
		{"post_processor", `"<s>" is no token`, crafted([]string{"a"}, nil, object{"post_processor": object{"type": "TemplateProcessing",
			"single": list(object{"SpecialToken": object{"id": "<s>"}}, object{"Sequence": object{"id": "A"}})}})},
	} {
		_, err := Read("tokenizer.json", c.data, vocabSize)
		var bad modelfile.ErrFile
		require.ErrorAs(t, err, &bad, c.why)
		require.Equal(t, c.field, bad.Field)
		require.Contains(t, bad.Why, c.why)
	}
}

// Files made to need much memory or time.
func TestHostileFiles(t *testing.T) {
	for name, data := range map[string][]byte{
		"classes":   llama3(object{"pre_tokenizer": split(strings.Repeat(`\p{L}{1,9}`, maxPatterns/10), "Isolated")}),
		"sequences": []byte(strings.Repeat(`{"normalizer":{"type":"Sequence","normalizers":[`, 5000)),
		"parts":     fmt.Appendf(nil, `{"pre_tokenizer":{"type":"Sequence","pretokenizers":[{}%s]},"decoder":{"type":"Fuse"}}`, strings.Repeat(",{}", 10000)),
		"many":      fmt.Appendf(nil, `{"pre_tokenizer":{"type":"Sequence","pretokenizers":[{}%s]}}`, strings.Repeat(`,{"type":"ByteLevel"}`, 1000)),
		"begin": fmt.Appendf(nil, `{"decoder":{"type":"Fuse"},"post_processor":{"type":"TemplateProcessing","special_tokens":{"a":{"ids":[0%s]}},"single":[{"Sequence":{}}%s]}}`,
			strings.Repeat(",0", 10000), strings.Repeat(`,{"SpecialToken":{"id":"a"}}`, 10000)),
	} {
		t.Run(name, func(t *testing.T) {
			bounded(t, len(data), func() {
				tok, err := Read("tokenizer.json", data, vocabSize)
				typed(t, err)
				if err == nil {
					tok.Encode("Hello, hello")
				}
			})
		})
	}
}

// Tokens that take white space, in much of it, look at it once.
func TestStripsAreNotQuadratic(t *testing.T) {
	for _, side := range []string{"lstrip", "rstrip"} {
		tok := read(t, llama3(object{"added_tokens": list(object{"id": 300, "content": "\t", side: true})}))
		begin := time.Now()
		require.Len(t, tok.Encode(strings.Repeat("\t", 1<<18)), 1<<18)
		require.Less(t, time.Since(begin), 20*time.Second, side) // when each looks at all of it: minutes
	}
}
