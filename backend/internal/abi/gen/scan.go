package main

import (
	"fmt"
	"regexp"
	"strings"
)

// A token is a word, a punctuation mark, a whole comment or a whole directive.
type token struct {
	kind tokenKind
	text string // of a comment: without its marks and the stars of its lines
	line int
	own  bool // first token of its line
}

type tokenKind int

const (
	end tokenKind = iota
	word
	mark
	comment
	directive // without #
)

// scanned matches one token at the front of the text.
var scanned = regexp.MustCompile(`(?s)^(?:(/\*.*?\*/)|(#[^\n/]*)|(\w+)|([{}();,]))`)

func scan(text string) ([]token, error) {
	var tokens []token
	line, own := 1, true
	for text != "" {
		if space := text[0]; space == ' ' || space == '\t' || space == '\n' || space == '\r' {
			if space == '\n' {
				line, own = line+1, true
			}
			text = text[1:]
			continue
		}
		m := scanned.FindStringSubmatch(text)
		if m == nil {
			rest, _, _ := strings.Cut(text, "\n")
			return nil, fmt.Errorf("line %d: %q is not understood: the header holds comments /* */, enums without values, #define of a number, structs of scalars", line, rest)
		}
		t := token{line: line, own: own}
		switch {
		case m[1] != "":
			t.kind, t.text = comment, prose(m[1])
		case m[2] != "":
			t.kind, t.text = directive, strings.TrimSpace(m[2][1:])
		case m[3] != "":
			t.kind, t.text = word, m[3]
		default:
			t.kind, t.text = mark, m[4]
		}
		tokens = append(tokens, t)
		text, own = text[len(m[0]):], false
		line += strings.Count(m[0], "\n")
	}
	return append(tokens, token{kind: end, line: line}), nil
}

// prose is the text of a comment, line for line.
func prose(c string) string {
	lines := strings.Split(strings.TrimSuffix(strings.TrimPrefix(c, "/*"), "*/"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(l), "*"))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
