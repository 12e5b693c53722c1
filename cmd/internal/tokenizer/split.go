package tokenizer

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// pattern is a string or a regular expression.
type pattern struct{ String, Regex *string }

// together says for every behavior whether a part stays together with the next one, of which each may be a match.
var together = map[string]func(match, next bool) bool{
	"Removed":            func(_, _ bool) bool { return false },
	"Isolated":           func(_, _ bool) bool { return false },
	"Contiguous":         func(match, next bool) bool { return match == next },
	"MergedWithPrevious": func(match, next bool) bool { return !match && next },
	"MergedWithNext":     func(match, next bool) bool { return match && !next },
}

// split is a step that divides spans at the matches of a pattern.
func (r *jsonReader) split(p pattern, behavior string, invert bool) step {
	next, joined := r.find(p), together[behavior]
	if joined == nil {
		r.refuse("it reads "+strings.Join(slices.Sorted(maps.Keys(together)), ", "), ".behavior %q", behavior)
	}
	return func(s span) (out []span) {
		at, matched := 0, false // the end of the part before, and whether that is a match
		for at < len(s.text) {
			before, size := next(s.text[at:])
			for i, size := range []int{before, size} {
				match, end, last := (i == 1) != invert, at+size, len(out)-1
				switch {
				case size == 0:
					continue
				case match && behavior == "Removed":
				case last >= 0 && joined(matched, match):
					out[last].text = s.text[at-len(out[last].text) : end]
				default:
					out = s.part(out, at, end)
				}
				at, matched = end, match
			}
		}
		return out
	}
}

const (
	// blanks is how patterns end that leave the last of several spaces to the word
	// after it. Go's regular expressions cannot look ahead.
	blanks = `|\s+(?!\S)|\s+`
	words  = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+` // what GPT-2's pattern has before that
	// maxPatterns bounds what compiled patterns need: \p{L} has hundreds of ranges.
	maxPatterns = 4096
	readsRegex  = `it reads expressions of at most 4096 bytes that match something, without sets in sets, groups that capture or are repeated, or looking around other than by \s+(?!\S)|\s+ at the end`

	// What is taken of Oniguruma's expressions. There are no sets of sets, nor repeats of groups, which could need much memory.
	escapes  = `\\(?:[pP]\{\w+\}|[rntds]|[[:punct:]])`
	elements = escapes + `|\\S|\[\^?(?:` + escapes + `|[^][\\])+\]|\(\?i?:|\)|\{\d(?:,\d)?\}|[^][\\(){}^]`
	// space is what \s is there, for a set. A range is last, so that a hyphen after it is one.
	space = `\t-\r \x{85}\x{a0}\x{1680}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{2000}-\x{200a}`
)

var (
	escape  = regexp.MustCompile(escapes)
	element = regexp.MustCompile(elements)
	nested  = regexp.MustCompile(`\)\{|&&`)
	inSet   = map[string]string{`\s`: space, `\d`: `\p{Nd}`}
	outside = map[string]string{`\s`: "[" + space + "]", `\S`: "[^" + space + "]", `\d`: `\p{Nd}`, "$": "(?m:$)"}
)

// find gives what finds the first match of a pattern in a text: how much is before it, and how long it is.
func (r *jsonReader) find(p pattern) func(text string) (before, size int) {
	if literal := p.String; literal != nil && *literal != "" {
		return func(text string) (int, int) {
			before, _, _ := strings.Cut(text, *literal)
			return len(before), min(len(*literal), len(text)-len(before))
		}
	}
	if p.Regex == nil {
		r.refuse("it splits at a String or a Regex", ".pattern without one")
		return nil
	}
	source, looks := strings.CutSuffix(*p.Regex, blanks)
	translated := element.ReplaceAllStringFunc(source, func(e string) string {
		if e[0] == '[' {
			return escape.ReplaceAllStringFunc(e, func(e string) string { return cmp.Or(inSet[e], e) })
		}
		return cmp.Or(outside[e], e)
	})
	if looks {
		translated += "|([" + space + "]+)"
	}
	r.patterns += len(*p.Regex)
	if r.patterns > maxPatterns || element.ReplaceAllString(source, "") != "" || nested.MatchString(source) {
		translated = "" // refused below, like all that can match nothing
	}
	expression, err := regexp.Compile(translated)
	if err != nil || expression.MatchString("") {
		r.refuse(readsRegex, ".pattern.Regex %q", *p.Regex)
		return nil
	}
	return func(text string) (int, int) {
		m := expression.FindStringSubmatchIndex(text)
		if m == nil {
			return len(text), 0
		}
		if looks && m[2] >= 0 && m[1] < len(text) {
			if _, last := utf8.DecodeLastRuneInString(text[:m[1]]); m[0] < m[1]-last {
				m[1] -= last
			}
		}
		return m[0], m[1] - m[0]
	}
}
