package tokenizer

import (
	"encoding/json"
	"slices"
)

// preTokenizers are the expressions that divide a text into words for a byte-level vocabulary, by what GGUF calls them
// (tokenizer.ggml.pre): those that the models' own tokenizer.json have.
var preTokenizers = func() map[string]string {
	const (
		gpt2   = words + blanks
		cased  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
		letter = `[^\r\n\p{L}\p{N}]?`
		rest   = `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+` + blanks
		llama3 = cased + `|` + letter + `\p{L}+|\p{N}{1,3}` + rest
		qwen2  = cased + `|` + letter + `\p{L}+|\p{N}` + rest
		upper  = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
		lower  = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
		gpt4o  = letter + upper + `*` + lower + `+` + cased + `?|` + letter + upper + `+` + lower + `*` + cased + `?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+` + blanks
	)
	return map[string]string{"gpt-2": gpt2, "llama-bpe": llama3, "llama3": llama3, "llama-v3": llama3, "qwen2": qwen2, "gpt-4o": gpt4o}
}()

// ByteLevel makes a tokenizer of a byte-level BPE vocabulary as GGUF has it: tokens whose characters stand for bytes, pairs of them that become
// one, with a space between, in order, and the kinds of tokens. pre names how texts are divided into words. begin is what they
// begin with. name is only that of the file in errors.
func ByteLevel(name string, tokens, merges []string, kinds []PieceKind, pre string, begin []uint32) (*Tokenizer, error) {
	expression, known := preTokenizers[pre]
	if !known {
		return nil, file(name).unsupported("the pre-tokenizer %q of its vocabulary", pre)
	}
	var f jsonFile
	f.Model.Vocab = make(map[string]uint32, len(tokens))
	f.Model.IgnoreMerges = pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3"
	for i, text := range tokens {
		switch kinds[i] {
		case ControlPiece, UserPiece:
			f.AddedTokens = append(f.AddedTokens, addedToken{ID: uint32(i), Content: text, Special: kinds[i] == ControlPiece})
		case NormalPiece:
			if _, twice := f.Model.Vocab[text]; twice {
				return nil, file(name).bad("vocabulary", "token %d, %q, is there twice", i, text)
			}
			f.Model.Vocab[text] = uint32(i)
		}
	}
	pairs, err := json.Marshal(slices.Concat([]string{}, merges))
	if err != nil {
		return nil, err
	}
	f.Model.Merges = pairs
	no := false
	f.PreTokenizer.part = &part{Type: "Sequence", Pretokenizers: []part{
		{Type: "Split", Pattern: pattern{Regex: &expression}, Behavior: "Isolated"},
		{Type: "ByteLevel", AddPrefixSpace: &no, UseRegex: &no},
	}}
	f.Decoder.part = &part{Type: "ByteLevel"}
	t, err := f.tokenizer(name, len(tokens), nil)
	if err == nil {
		t.begin = begin
	}
	return t, err
}
