package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Header is what the header declares, in its order.
type Header struct {
	Decls []Decl
}

// Decl is a number, an enum or a struct: Value is "" for the last two, Lines is
// nil for the first two.
type Decl struct {
	Doc   string   // the comment above, "" when there is none
	Names []string // of the number, of the struct, or of the enum's constants
	Value string
	Note  string // the comment behind a number
	Lines []Line
}

// Line is one declaration of a struct: fields of one type.
type Line struct {
	Names []string
	Type  string
	Note  string
}

// sizes are the types there are. Each is aligned to its size in every compiler.
var sizes = map[string]int{"uint32_t": 4, "float": 4, "int64_t": 8, "uint64_t": 8}

// parser reads tokens; its methods panic with a parseError, which Parse returns.
type parser struct {
	tokens []token
	header Header
	seen   map[string]bool
}

type parseError struct{ error }

// Parse reads a header. What it does not know is an error, and so is a struct that
// two compilers could lay out differently.
func Parse(text string) (h *Header, err error) {
	tokens, err := scan(text)
	if err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil {
			failed, ok := r.(parseError)
			if !ok {
				panic(r)
			}
			h, err = nil, failed.error
		}
	}()
	p := &parser{tokens: tokens, seen: map[string]bool{}}
	p.parse()
	return &p.header, nil
}

func (p *parser) parse() {
	doc := ""
	for p.next().kind != end {
		t := p.take()
		switch {
		case t.kind == comment:
			doc = t.text
			continue
		case t.kind == directive:
			p.directive(t, doc)
		case t.text == "enum":
			p.enum(doc)
		case t.text == "struct":
			p.structure(doc)
		default:
			p.fail(t, "%q begins no enum, struct or #define", t.text)
		}
		doc = ""
	}
}

func (p *parser) directive(t token, doc string) {
	words := strings.Fields(t.text)
	switch {
	case len(words) == 3 && words[0] == "define":
		if _, err := strconv.ParseUint(words[2], 0, 32); err != nil {
			p.fail(t, "%s: %q is no number of 32 bits", words[1], words[2])
		}
		p.name(t, words[1], "FKV_")
		p.header.Decls = append(p.header.Decls, Decl{Doc: doc, Names: words[1:2], Value: words[2], Note: p.note(t)})
	case slices.Equal(words, []string{"include", "<stdint.h>"}), len(words) == 2 && words[0] == "define",
		len(words) == 2 && words[0] == "ifndef", len(words) == 1 && words[0] == "endif":
	default:
		p.fail(t, "#%s is not understood", t.text)
	}
}

func (p *parser) enum(doc string) {
	p.want("{")
	d := Decl{Doc: doc}
	for {
		t := p.want("")
		p.name(t, t.text, "FKV_")
		d.Names = append(d.Names, t.text)
		if p.next().text == "}" {
			break
		}
		p.want(",")
	}
	p.want("}")
	p.want(";")
	p.header.Decls = append(p.header.Decls, d)
}

func (p *parser) structure(doc string) {
	t := p.want("")
	p.name(t, t.text, "fkv_")
	d := Decl{Doc: doc, Names: []string{t.text}}
	p.want("{")
	offset, fields := 0, map[string]bool{}
	for p.next().text != "}" {
		l := Line{Type: p.want("").text}
		size, ok := sizes[l.Type]
		if !ok {
			p.fail(t, "%s: type %s is none of uint32_t, int64_t, uint64_t, float", t.text, l.Type)
		}
		for {
			field := p.want("")
			if offset%size != 0 {
				p.fail(field, "%s: %s at offset %d leaves a gap: put it on a multiple of %d", t.text, field.text, offset, size)
			}
			if fields[field.text] {
				p.fail(field, "%s: a second %s", t.text, field.text)
			}
			fields[field.text] = true
			offset += size
			l.Names = append(l.Names, field.text)
			if p.next().text == ";" {
				break
			}
			p.want(",")
		}
		l.Note = p.note(p.want(";"))
		d.Lines = append(d.Lines, l)
	}
	p.want("}")
	p.want(";")
	if offset == 0 || offset%8 != 0 {
		p.fail(t, "%s has %d bytes: append a field pad to reach a multiple of 8", t.text, offset)
	}
	if d.IsArgs() && (d.Lines[0].Names[0] != "size" || d.Lines[0].Type != "uint32_t") {
		p.fail(t, "%s: the first field of a kernel's scalars is uint32_t size", t.text)
	}
	p.header.Decls = append(p.header.Decls, d)
}

// IsArgs reports whether d is the struct of scalars of a kernel.
func (d Decl) IsArgs() bool { return d.Lines != nil && strings.HasSuffix(d.Names[0], "_args") }

// Size is the size of a struct in bytes.
func (d Decl) Size() int {
	n := 0
	for _, l := range d.Lines {
		n += len(l.Names) * sizes[l.Type]
	}
	return n
}

func (p *parser) name(t token, name, prefix string) {
	if !strings.HasPrefix(name, prefix) {
		p.fail(t, "%s does not begin with %s", name, prefix)
	}
	if p.seen[goName(name)] {
		p.fail(t, "a second %s (%s in Go)", name, goName(name))
	}
	p.seen[goName(name)] = true
}

// note takes the comment that follows t on its line.
func (p *parser) note(t token) string {
	if n := p.next(); n.kind == comment && n.line == t.line && !n.own {
		return strings.ReplaceAll(p.take().text, "\n", " ")
	}
	return ""
}

func (p *parser) next() token { return p.tokens[0] }

func (p *parser) take() token {
	t := p.tokens[0]
	if t.kind != end {
		p.tokens = p.tokens[1:]
	}
	return t
}

// want takes the mark text, or a word when text is empty.
func (p *parser) want(text string) token {
	t := p.take()
	if text == "" && t.kind != word {
		p.fail(t, "want a name, have %q", t.text)
	}
	if text != "" && t.text != text {
		p.fail(t, "want %q, have %q", text, t.text)
	}
	return t
}

func (p *parser) fail(t token, format string, args ...any) {
	panic(parseError{fmt.Errorf("line %d: %w", t.line, fmt.Errorf(format, args...))})
}
