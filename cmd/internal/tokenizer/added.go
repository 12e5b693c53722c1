package tokenizer

import (
	"cmp"
	"slices"
	"sort"
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

	find    string
	shorter int // see longest
}

// inWords is what words are made of.
var inWords = []*unicode.RangeTable{
	unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control,
}

// longest is the number of the longest of sorted tokens with which text begins, negative if there is none.
// Whatever lies between that one and text in order begins with it, too.
func longest(tokens []addedToken, text string) int {
	i := sort.Search(len(tokens), func(i int) bool { return tokens[i].find > text }) - 1
	for i >= 0 && !strings.HasPrefix(text, tokens[i].find) {
		i = tokens[i].shorter
	}
	return i
}

// cutter is a step that divides a span into tokens and the text between them, as Hugging Face's library does:
// those that begin in white space which the token before took are found, too.
func cutter(tokens []addedToken) step {
	slices.SortStableFunc(tokens, func(a, b addedToken) int { return cmp.Compare(a.find, b.find) })
	for i := range tokens {
		tokens[i].shorter = longest(tokens[:i], tokens[i].find)
	}
	return func(s span) (out []span) {
		done, blank := 0, 0 // the end of the token before; that of the last white space taken on the right
		for at := 0; at < len(s.text); {
			i := longest(tokens, s.text[at:])
			if i < 0 || tokens[i].find == "" { // normalizing left nothing of that one
				at++
				continue
			}
			token, begin, end := tokens[i], at, at+len(tokens[i].find)
			at = end
			before, _ := utf8.DecodeLastRuneInString(s.text[:begin])
			after, _ := utf8.DecodeRuneInString(s.text[end:])
			if token.SingleWord && (unicode.In(before, inWords...) || unicode.In(after, inWords...)) {
				continue
			}
			if token.RStrip {
				if end > blank { // else it was looked at for another one; again for each would take too long
					blank = len(s.text) - len(strings.TrimLeftFunc(s.text[end:], unicode.IsSpace))
				}
				end = max(end, blank)
			}
			if token.LStrip {
				if end <= done { // nothing is left of it; the library leaves it out, or fails
					continue
				}
				begin = done + len(strings.TrimRightFunc(s.text[done:max(done, begin)], unicode.IsSpace))
			}
			out = append(s.part(out, done, max(done, begin)), span{token: token.ID, known: true})
			done = end
		}
		return s.part(out, done, len(s.text))
	}
}

// added comes last: the tokens that are found in raw text, and in normalized text, which are normalized, too.
func (r *jsonReader) added(tokens []addedToken, normalizers, decoders []step) (raw, normal []addedToken) {
	for _, t := range tokens {
		field := "added_tokens " + t.Content
		id, there := r.model.vocab[t.Content]
		switch {
		case t.Content == "":
			r.keep(r.bad("added_tokens", "token %d is empty", t.ID))
		case there && id != t.ID:
			r.keep(r.bad(field, "is token %d, in the vocabulary %d", t.ID, id))
		case uint64(t.ID) >= uint64(len(r.pieces)): // for another model of the family, such as one with pictures
		case !there && r.taken[t.ID]:
			r.keep(r.bad(field, "token %d is another one in the vocabulary", t.ID))
		case r.err == nil:
			list := &raw
			if t.find = t.Content; t.Normalized {
				list, t.find = &normal, edited(t.Content, normalizers)
			}
			*list = append(*list, t)
			if r.pieces[t.ID] = edited(t.find, decoders); t.Special {
				r.pieces[t.ID], r.names[t.ID] = "", t.Content
			}
		}
	}
	return raw, normal
}
