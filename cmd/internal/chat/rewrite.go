package chat

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// rewrite makes of a template one that has no text outside of tags: text becomes expressions that print it. White space around tags is
// what Jinja leaves with trim_blocks and lstrip_blocks, as transformers sets them; the library has rules of its own. Escapes in strings are
// resolved as in Python, and tags that only mark what is trained on are left out.
func rewrite(source string) (string, error) {
	if len(source) > maxSource {
		return "", fmt.Errorf("has %d bytes, at most %d are accepted", len(source), maxSource)
	}
	source = strings.TrimSuffix(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(source), "\n")
	r := rewriter{rest: source, fresh: true}
	for r.rest != "" {
		if err := r.next(); err != nil {
			return "", fmt.Errorf("line %d: %w", 1+strings.Count(source[:len(source)-len(r.rest)], "\n"), err)
		}
	}
	return r.out.String(), nil
}

type rewriter struct {
	rest  string
	out   strings.Builder
	fresh bool // rest begins a line
}

// opener is where a tag begins, with the sign that says what becomes of the white space before it.
var opener = regexp.MustCompile(`\{([{%#])([-+]?)`)

// endOfRaw is the tag that ends text in which there are none.
var endOfRaw = regexp.MustCompile(`\{%([-+]?)\s*endraw\s*([-+]?)%\}`)

// next takes the text up to a tag, and the tag.
func (r *rewriter) next() error {
	at := opener.FindStringSubmatchIndex(r.rest)
	if at == nil {
		r.print(r.rest)
		r.rest = ""
		return nil
	}
	kind, sign := r.rest[at[2]:at[3]], r.rest[at[4]:at[5]]
	r.print(r.before(r.rest[:at[0]], kind, sign))
	r.rest = r.rest[at[1]:]
	if kind == "#" {
		_, rest, closed := strings.Cut(r.rest, "#}")
		if !closed {
			return fmt.Errorf("a comment has no end")
		}
		sign = lastSign(r.rest[:len(r.rest)-len(rest)-2])
		r.rest = rest
		r.after(kind, sign)
		return nil
	}
	inside, sign, err := r.inside(kind)
	if err != nil {
		return err
	}
	r.after(kind, sign)
	switch {
	case kind == "{":
		r.out.WriteString("{{ " + inside + " }}")
	case strings.TrimSpace(inside) == "raw":
		end := endOfRaw.FindStringSubmatchIndex(r.rest)
		if end == nil {
			return fmt.Errorf("raw has no end")
		}
		r.print(r.before(r.rest[:end[0]], "%", r.rest[end[2]:end[3]]))
		sign = r.rest[end[4]:end[5]]
		r.rest = r.rest[end[1]:]
		r.after("%", sign)
	case strings.TrimSpace(inside) != "generation" && strings.TrimSpace(inside) != "endgeneration":
		r.out.WriteString("{% " + inside + " %}")
	}
	return nil
}

// before is what is left of the text before a tag.
func (r *rewriter) before(text, kind, sign string) string {
	switch line := strings.LastIndexByte(text, '\n') + 1; {
	case sign == "-":
		return strings.TrimRight(text, spaces)
	case sign == "" && kind != "{" && (line > 0 || r.fresh) && strings.Trim(text[line:], spaces) == "":
		return text[:line]
	}
	return text
}

// after takes the white space after a tag that belongs to it.
func (r *rewriter) after(kind, sign string) {
	rest := r.rest
	switch {
	case sign == "-":
		rest = strings.TrimLeft(rest, spaces)
	case sign == "" && kind != "{":
		rest = strings.TrimPrefix(rest, "\n")
	}
	taken := r.rest[:len(r.rest)-len(rest)]
	r.rest, r.fresh = rest, strings.HasSuffix(taken, "\n")
}

// spaces are the white space of ASCII, as templates have it.
const spaces = " \t\n\v\f\r"

func lastSign(text string) string {
	if strings.HasSuffix(text, "-") || strings.HasSuffix(text, "+") {
		return text[len(text)-1:]
	}
	return ""
}

// inside takes the rest of a tag and returns what is in it, and the sign at its end. An end counts outside of strings and brackets.
func (r *rewriter) inside(kind string) (inside, sign string, err error) {
	end := map[string]string{"{": "}}", "%": "%}"}[kind]
	var out strings.Builder
	for depth := 0; r.rest != ""; {
		c := r.rest[0]
		if c == '\'' || c == '"' {
			text, err := r.quoted()
			if err != nil {
				return "", "", err
			}
			out.WriteString(quote(text))
			continue
		}
		if depth == 0 {
			for _, sign := range []string{"", "-", "+"} {
				if rest, ends := strings.CutPrefix(r.rest, sign+end); ends && (sign != "+" || kind == "%") {
					r.rest = rest
					return out.String(), sign, nil
				}
			}
		}
		out.WriteByte(c)
		switch c {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
			out.WriteByte(' ') // or two of them would end the tag
		}
		r.rest = r.rest[1:]
	}
	return "", "", fmt.Errorf("a tag has no end")
}

// quoted takes a string in quotes.
func (r *rewriter) quoted() (string, error) {
	mark := r.rest[0]
	var out []byte
	for s := r.rest[1:]; s != ""; {
		if s[0] == mark {
			r.rest = s[1:]
			return string(out), nil
		}
		if strings.HasPrefix(s, "\\\n") { // the line goes on
			s = s[2:]
			continue
		}
		if len(s) > 1 && s[0] == '\\' && (s[1] == '\'' || s[1] == '"') {
			out, s = append(out, s[1]), s[2:]
			continue
		}
		if char, _, rest, err := strconv.UnquoteChar(s, 0); s[0] == '\\' && err == nil {
			out, s = utf8.AppendRune(out, char), rest // \xe9 is a character, not a byte
			continue
		}
		out, s = append(out, s[0]), s[1:]
	}
	return "", fmt.Errorf("a string has no end")
}

// quote is a string as the library reads it.
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(text) + `"`
}

// print appends text.
func (r *rewriter) print(text string) {
	if text != "" {
		r.out.WriteString("{{ " + quote(text) + " }}")
		r.fresh = false
	}
}
