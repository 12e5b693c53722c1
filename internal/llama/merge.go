package llama

import (
	"slices"
	"unicode/utf8"
)

// symbol is the part [begin, end) of a text. With the symbol after it, it makes
// the token merged, if there is one.
type symbol struct {
	begin, end int
	merged     uint32
	mergeable  bool
}

// merge appends the tokens of text to dst: starting from characters, the pair of
// neighbours with the best score, of equal ones the first, becomes one symbol
// until no pair is a token. What is no token by then becomes its bytes. The time
// is the square of the length, which prompts that fit a model's context can afford.
func (t *Tokenizer) merge(text string, dst []uint32) []uint32 {
	var list []symbol
	for at, size := 0, 0; at < len(text); at += size {
		_, size = utf8.DecodeRuneInString(text[at:])
		list = append(list, symbol{begin: at, end: at + size})
	}
	look := func(i int) { // for a token that symbol i and the next one make
		if s := &list[i]; i+1 < len(list) {
			s.merged, s.mergeable = t.ids[text[s.begin:list[i+1].end]]
		} else {
			s.mergeable = false
		}
	}
	for i := range list {
		look(i)
	}
	for {
		best := -1
		for i, s := range list {
			if s.mergeable && (best < 0 || t.pieces[s.merged].score > t.pieces[list[best].merged].score) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		list[best].end = list[best+1].end
		list = slices.Delete(list, best+1, best+2)
		look(best)
		if best > 0 {
			look(best - 1)
		}
	}
	for _, s := range list {
		if id, ok := t.ids[text[s.begin:s.end]]; ok {
			dst = append(dst, id)
			continue
		}
		for _, b := range []byte(text[s.begin:s.end]) {
			dst = append(dst, t.bytes[b])
		}
	}
	return dst
}
