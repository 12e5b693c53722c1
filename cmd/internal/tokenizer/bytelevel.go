package tokenizer

import (
	"maps"
	"slices"
	"strings"
)

// PreTokenizer is how a byte-level vocabulary divides texts into words.
type PreTokenizer struct {
	expressions []string // one after another, as the models' own tokenizer.json have them
	// Whole makes a word that is a token that token, without merging. Texts of these vocabularies begin with BOS unless the file says otherwise.
	Whole bool
}

// preTokenizers are those that GGUF names (tokenizer.ggml.pre).
var preTokenizers = func() map[string]PreTokenizer {
	const (
		gpt2   = words + blanks
		cased  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
		letter = `[^\r\n\p{L}\p{N}]?`
		rest   = `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+` + blanks
		slash  = `| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+` + blanks
		llama3 = cased + `|` + letter + `\p{L}+|\p{N}{1,3}` + rest
		qwen2  = cased + `|` + letter + `\p{L}+|\p{N}` + rest
		qwen35 = cased + `|` + letter + `[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+` + blanks
		seed   = cased + `|` + letter + `\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+` + blanks
		upper  = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
		lower  = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
		gpt4o  = letter + upper + `*` + lower + `+` + cased + `?|` + letter + upper + `+` + lower + `*` + cased + `?|\p{N}{1,3}` + slash
		tekken = letter + upper + `*` + lower + `+|` + letter + upper + `+` + lower + `*|\p{N}` + slash
		marks  = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+" // what one of them begins
		v3     = marks + `|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+` + blanks
	)
	all := map[string]PreTokenizer{}
	add := func(whole bool, names string, expressions ...string) {
		for name := range strings.FieldsSeq(names) {
			all[name] = PreTokenizer{expressions, whole}
		}
	}
	add(true, "llama-bpe llama3 llama-v3 falcon3 pixtral", llama3)
	add(false, "dbrx smaug-bpe", llama3)
	add(true, "tekken", tekken)
	add(false, "gpt-2 phi-2 mellum olmo", gpt2)
	add(false, "smollm starcoder refact command-r", `\p{N}`, gpt2)
	add(false, "qwen2 deepseek-r1-qwen stablelm2 megrez", qwen2)
	add(false, "qwen35", qwen35)
	add(false, "gpt-4o llama4", gpt4o)
	add(false, "seed-coder", seed)
	add(false, "deepseek-v3", `\p{N}{1,3}`, `[一-龥぀-ゟ゠-ヿ]+`, v3)
	add(false, "deepseek-coder", `[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, `[一-龥ࠀ-一가-퟿]+`, `\p{N}`)
	return all
}()

// PreTokenizers are the names of those that there are.
func PreTokenizers() []string { return slices.Sorted(maps.Keys(preTokenizers)) }

// NamedPreTokenizer is that of a name, if there is one.
func NamedPreTokenizer(name string) (PreTokenizer, bool) {
	pre, known := preTokenizers[name]
	return pre, known
}

// ByteLevel makes a tokenizer of a byte-level BPE vocabulary as GGUF has it: tokens whose characters stand for bytes, and pairs of them that become
// one, with a space between, in order. begin is what texts begin with. name is only that of the file in errors.
func ByteLevel(name string, pieces []Piece, merges []string, pre PreTokenizer, begin []uint32) (*Tokenizer, error) {
	var f jsonFile
	f.Model.Vocab = make(map[string]uint32, len(pieces))
	f.Model.IgnoreMerges = pre.Whole
	apart := map[string]bool{} // tokens that nothing is merged to
	for i, p := range pieces {
		if _, twice := f.Model.Vocab[p.Text]; p.Kind == NormalPiece && !twice { // of equal tokens the first counts
			f.Model.Vocab[p.Text] = uint32(i)
		} else if p.Kind != NormalPiece {
			apart[p.Text] = true
		}
		if p.Kind == ControlPiece || p.Kind == UserPiece {
			f.AddedTokens = append(f.AddedTokens, addedToken{ID: uint32(i), Content: p.Text, Special: p.Kind == ControlPiece})
		}
	}
	var parts []part
	for _, expression := range pre.expressions {
		parts = append(parts, part{Type: "Split", Pattern: pattern{Regex: &expression}, Behavior: "Isolated"})
	}
	no := false
	parts = append(parts, part{Type: "ByteLevel", AddPrefixSpace: &no, UseRegex: &no})
	f.PreTokenizer.part = &part{Type: "Sequence", Pretokenizers: parts}
	f.Decoder.part = &part{Type: "ByteLevel"}
	t, err := f.tokenizer(name, len(pieces), nil)
	if err != nil {
		return nil, err
	}
	t.begin = begin
	for i, p := range pieces {
		if p.Kind == NormalPiece {
			t.pieces[i] = t.pieces[f.Model.Vocab[p.Text]]
		}
	}
	return t, t.model.merge(file(name), merges, apart)
}

// merge adds merges, but those of tokens apart, which are found in the text before.
func (m *bpe) merge(f file, merges []string, apart map[string]bool) error {
	for i, text := range merges {
		left, right, two := strings.Cut(text, " ")
		if !two || strings.Contains(right, " ") {
			return f.bad("model.merges", "merge %d, %q, is not two tokens with a space between", i, text)
		}
		if !apart[left] && !apart[right] && !apart[left+right] {
			if err := m.pair(f, left, right, i); err != nil {
				return err
			}
		}
	}
	return nil
}
