package tokenizer

import "unicode/utf8"

// bpe merges neighbours: pairs of a list, the first of the list first, or with scores all that make a token, the best score
// first, as SentencePiece does.
type bpe struct {
	vocab  map[string]uint32
	merges map[[2]int]merged
	scores []float32    // by token
	bytes  map[byte]int // tokens of bytes, for characters that are none
	unk    int          // the token of unknown characters; -1: they are left out
	fuse   bool         // unknown neighbours are one token
	whole  bool         // a word that is a token is not merged
}

type merged struct{ token, rank int }

// encode appends the tokens of a word.
func (m *bpe) encode(word string, tokens []uint32) []uint32 {
	if id, ok := m.vocab[word]; ok && m.whole {
		return append(tokens, id)
	}
	var symbols []symbol
	for at, end := 0, 0; at < len(word); at = end {
		_, size := utf8.DecodeRuneInString(word[at:])
		end = at + size
		last := len(symbols) - 1
		switch id, ok := m.vocab[word[at:end]]; {
		case ok:
			symbols = append(symbols, symbol{at, end, int(id)})
		case m.scores != nil: // may become a part of a token, or is bytes
			symbols = append(symbols, symbol{at, end, -1})
		case m.inBytes(word[at:end]):
			for ; at < end; at++ {
				symbols = append(symbols, symbol{at, at + 1, m.bytes[word[at]]})
			}
		case m.fuse && last >= 0 && symbols[last].token == m.unk && symbols[last].end == at:
			symbols[last].end = end
		case m.unk >= 0:
			symbols = append(symbols, symbol{at, end, m.unk})
		}
	}
	for _, s := range merge(symbols, func(l, r symbol) (token int, rank float64, ok bool) {
		if m.scores == nil {
			j, ok := m.merges[[2]int{l.token, r.token}]
			return j.token, float64(j.rank), ok
		}
		id, ok := m.vocab[word[l.begin:r.end]]
		return int(id), -float64(m.scores[id]), ok
	}) {
		if s.token >= 0 {
			tokens = append(tokens, uint32(s.token))
			continue
		}
		for ; s.begin < s.end; s.begin++ { // token 0, unknown, where there is none of a byte
			tokens = append(tokens, uint32(m.bytes[word[s.begin]]))
		}
	}
	return tokens
}

func (m *bpe) inBytes(text string) bool {
	for i := range len(text) {
		if _, ok := m.bytes[text[i]]; !ok {
			return false
		}
	}
	return true
}

// readModel reads the vocabulary, and the text of every token.
func (r *jsonReader) readModel(f *jsonFile, decoders []step) {
	m := &f.Model
	if m.Dropout != 0 || m.SubwordPrefix != "" || m.WordSuffix != "" {
		r.refuse("model", "dropout, continuing_subword_prefix or end_of_word_suffix")
	}
	r.model = bpe{vocab: m.Vocab, merges: make(map[[2]int]merged, len(m.Merges)), bytes: map[byte]int{}, unk: -1, fuse: m.FuseUnk, whole: m.IgnoreMerges}
	for text, id := range m.Vocab {
		if uint64(id) >= uint64(len(r.pieces)) || r.taken[id] {
			r.keep(r.bad("model.vocab", "%q is token %d, which is another one or beyond the model's %d", text, id, len(r.pieces)))
			return
		}
		r.taken[id], r.pieces[id] = true, edited(text, decoders)
	}
	for i, pair := range m.Merges {
		left, ok := m.Vocab[pair[0]]
		right, ok2 := m.Vocab[pair[1]]
		token, ok3 := m.Vocab[pair[0]+pair[1]]
		if !ok || !ok2 || !ok3 {
			r.keep(r.bad("model.merges", "%q and %q of merge %d, or what they become, are no tokens", pair[0], pair[1], i))
			return
		}
		r.model.merges[[2]int{int(left), int(right)}] = merged{int(token), i}
	}
	if m.UnkToken != nil {
		id, ok := m.Vocab[*m.UnkToken]
		if !ok {
			r.keep(r.bad("model.unk_token", "%q is no token", *m.UnkToken))
		}
		r.model.unk = int(id)
	}
	for name, b := range byteNames {
		if id, ok := m.Vocab[name]; ok && m.ByteFallback {
			r.model.bytes[b[0]] = int(id)
		}
	}
}
