package tokenizer

import (
	"slices"
	"unicode/utf8"
)

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

// pair adds a merge, which comes after those of lower ranks.
func (m *bpe) pair(f file, a, b string, rank int) error {
	left, ok := m.vocab[a]
	right, ok2 := m.vocab[b]
	token, ok3 := m.vocab[a+b]
	if !ok || !ok2 || !ok3 {
		return f.bad("model.merges", "%q and %q of merge %d, or what they become, are no tokens", a, b, rank)
	}
	m.merges[[2]int{int(left), int(right)}] = merged{int(token), rank}
	return nil
}

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
		case !slices.ContainsFunc([]byte(word[at:end]), m.lacks):
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

func (m *bpe) lacks(b byte) bool {
	_, ok := m.bytes[b]
	return !ok
}

// symbol is a part of a text that is, or may become a part of, a token.
type symbol struct {
	begin, end int // in the text
	token      int // -1: none
}

// pair is a symbol and the next one.
type pair struct {
	prev, next int // numbers of the symbols beside this one
	token      int // what the two become
	rank       float64
	joins      bool
}

// before reports whether p is joined before q: the lowest rank first, of equal ones the leftmost.
func (p pair) before(q pair) bool {
	return p.joins && (!q.joins || p.rank < q.rank || p.rank == q.rank && p.prev < q.prev)
}

// merge joins neighbours, the pair of the lowest rank first, until no pair has one,
// in n log n steps for n symbols. It reuses symbols for its result.
func merge(symbols []symbol, rank func(left, right symbol) (token int, rank float64, ok bool)) []symbol {
	n := len(symbols)
	pairs := make([]pair, n+1)  // the last one is that of no symbol
	winners := make([]int, 2*n) // a tournament of the pairs, which are from n on: i is the winner of 2i and 2i+1
	play := func(left int) {
		p := &pairs[left]
		if p.joins = p.next < n; p.joins {
			p.token, p.rank, p.joins = rank(symbols[left], symbols[p.next])
		}
		for i := (n + left) / 2; i > 0; i /= 2 {
			winners[i] = winners[2*i]
			if other := winners[2*i+1]; pairs[other].before(pairs[winners[i]]) {
				winners[i] = other
			}
		}
	}
	for i := range symbols {
		pairs[i], winners[n+i] = pair{prev: i - 1, next: i + 1}, i
		play(i)
	}
	for n > 0 && pairs[winners[1]].joins {
		left := winners[1]
		p, right := &pairs[left], pairs[left].next
		symbols[left].end, symbols[left].token = symbols[right].end, p.token
		symbols[right].end = -1 // gone
		p.next, pairs[right].next = pairs[right].next, n
		pairs[p.next].prev = left
		play(max(p.prev, 0))
		play(left)
		play(right)
	}
	return slices.DeleteFunc(symbols, func(s symbol) bool { return s.end < 0 })
}
