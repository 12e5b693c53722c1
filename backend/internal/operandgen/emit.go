package main

import (
	"bytes"
	"embed"
	"fmt"
	"go/format"
	"strings"
	"text/template"
)

//go:embed *.tmpl
var templates embed.FS

// Page is what a template sees.
type Page struct {
	*Source
	Package, Build string
	Docs           map[string]string // of the operations on GPUs
}

// Render is the text of a generated file.
func Render(name string, p Page) ([]byte, error) {
	t, err := template.New(name).Funcs(template.FuncMap{"unwrap": unwrap, "walk": walk, "lists": lists}).ParseFS(templates, "*.tmpl")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name, p); err != nil {
		return nil, err
	}
	return format.Source(b.Bytes())
}

// unwrap copies the parameters at from to those at to, which are zero and whose operands are a
// device's own.
func unwrap(s *Struct, to, from string) string {
	var b strings.Builder
	for _, f := range s.Fields {
		dst, src := to+"."+f.Name, from+"."+f.Name
		line := ""
		switch {
		case f.Kind == Buffer:
			line = fmt.Sprintf("%s = u.buf(%s)", dst, src)
		case f.Kind == Optional:
			line = fmt.Sprintf("if %s.Set {\n%s = Some(u.buf(%s.Buf))\n}", src, dst, src)
		case f.Kind == Nested && f.Struct.Generic:
			line = fmt.Sprintf("u.%s(&%s, &%s)", f.Struct.Method(), dst, src)
		default:
			line = fmt.Sprintf("%s = %s", dst, src)
		}
		line = f.when(from, line)
		if _, unless := f.unless(); unless && f.Kind == Nested { // what is not an operand is still told
			line = fmt.Sprintf("%s else {\n%s\n}\n", strings.TrimSuffix(line, "\n"), f.Struct.plain(dst, src))
		}
		b.WriteString(line)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// plain copies what is neither an operand nor has one.
func (s *Struct) plain(to, from string) string {
	var lines []string
	for _, f := range s.Fields {
		if f.Kind == Plain {
			lines = append(lines, fmt.Sprintf("%s.%s = %s.%s", to, f.Name, from, f.Name))
		}
	}
	return strings.Join(lines, "\n")
}

// unless is the flag with which the field is no operand.
func (f Field) unless() (flag string, ok bool) { return strings.CutPrefix(f.When, "!") }

// when is a line about an operand that may not be one.
func (f Field) when(of, line string) string {
	if f.When == "" {
		return line + "\n"
	}
	if flag, ok := f.unless(); ok {
		return fmt.Sprintf("if !%s.%s {\n%s\n}\n", of, flag, line)
	}
	return fmt.Sprintf("if %s.%s != 0 {\n%s\n}\n", of, f.When, line)
}

// walk visits the operands of the parameters at from. Parts whose operands have the names of
// the fields that hold them are visited there, others have a function.
func walk(s *Struct, from string) string { return s.walk(from, "") }

func (s *Struct) walk(from, holder string) string {
	var b strings.Builder
	for _, f := range s.Fields {
		src, name := from+"."+f.Name, strings.ReplaceAll(f.Operand, "*", holder)
		line := ""
		switch {
		case f.Kind == Buffer:
			line = fmt.Sprintf("o.Buf(%q, %s)", name, src)
		case f.Kind == Optional:
			line = fmt.Sprintf("o.opt(%q, %s)", name, src)
		case f.Kind != Nested || !f.Struct.Generic:
			continue
		case f.Struct.Held():
			line = f.Struct.walk(src, name)
		default:
			line = fmt.Sprintf("o.%s(&%s)", f.Struct.Method(), src)
		}
		b.WriteString(f.when(from, line))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// lists are the slices on the host of the parameters at from.
func lists(s *Struct, from string) (paths []string) {
	for _, f := range s.Fields {
		switch f.Kind {
		case List:
			paths = append(paths, from+"."+f.Name)
		case Nested:
			paths = append(paths, lists(f.Struct, from+"."+f.Name)...)
		}
	}
	return paths
}
