package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is a token that is found in the text before anything else is done with it.
type addedToken struct {
	ID         uint32
	Content    string
	SingleWord bool `json:"single_word"` // only where no letter or digit is beside it
	LStrip     bool // takes the white space before it
	RStrip     bool
	Normalized bool // is found in normalized text
	Special    bool // stands for no text
}

// trie finds the longest of many strings at a place.
type trie struct {
	next map[edge]int       // the number of the node, 0 is the root
	ends map[int]addedToken // by node
}

type edge struct {
	node int
	char byte
}

func (t *trie) add(text string, token addedToken) {
	if t.next == nil {
		*t = trie{map[edge]int{}, map[int]addedToken{}}
	}
	node := 0
	for i := range len(text) {
		next, ok := t.next[edge{node, text[i]}]
		if !ok {
			next = len(t.next) + 1
			t.next[edge{node, text[i]}] = next
		}
		node = next
	}
	t.ends[node] = token
}

// longest is the length of the longest string with which text begins, 0 if there is none.
func (t *trie) longest(text string) (token addedToken, length int) {
	node, ok := 0, true
	for i := range len(text) {
		if node, ok = t.next[edge{node, text[i]}]; !ok {
			break
		}
		if end, ok := t.ends[node]; ok {
			token, length = end, i+1
		}
	}
	return token, length
}

// cut divides a span into tokens and the text between them.
func (t *trie) cut(s span) (out []span) {
	done := 0
	for at := 0; at < len(s.text); {
		token, n := t.longest(s.text[at:])
		begin, end := at, at+n
		at += max(n, 1)
		if n == 0 || token.SingleWord && (isWord(utf8.DecodeLastRuneInString(s.text[:begin])) || isWord(utf8.DecodeRuneInString(s.text[end:]))) {
			continue
		}
		if token.LStrip {
			begin = max(done, len(strings.TrimRightFunc(s.text[:begin], unicode.IsSpace)))
		}
		if token.RStrip {
			end = len(s.text) - len(strings.TrimLeftFunc(s.text[end:], unicode.IsSpace))
		}
		if begin < done {
			continue
		}
		out = append(s.part(out, done, begin), span{token: token.ID, known: true})
		done = end
	}
	return s.part(out, done, len(s.text))
}

// isWord reports whether a character, size bytes long, is a part of a word.
func isWord(r rune, size int) bool {
	return size > 0 && unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)
}

// readAdded comes last: a token that is found in normalized text is normalized, too.
func (r *jsonReader) readAdded(tokens []addedToken, decode func(string) string) {
	for _, t := range tokens {
		field := "added_tokens " + t.Content
		id, there := r.model.vocab[t.Content]
		switch {
		case t.Content == "":
			r.keep(r.bad("added_tokens", "token %d is empty", t.ID))
		case there && id != t.ID:
			r.keep(r.bad(field, "is token %d, in the vocabulary %d", t.ID, id))
		case !there && uint64(t.ID) < uint64(len(r.taken)) && r.taken[t.ID]:
			r.keep(r.bad(field, "token %d is another one in the vocabulary", t.ID))
		}
		if r.err != nil {
			return
		}
		if uint64(t.ID) >= uint64(r.vocab) { // for another model of the family, as one with pictures
			continue
		}
		find, text := &r.raw, t.Content
		if t.Normalized {
			find, text = &r.normal, r.normalize(text, inside)
		}
		find.add(text, t)
		r.pieces[t.ID] = decode(text)
		if t.Special {
			r.pieces[t.ID] = ""
		}
	}
}
