package main

import (
	"fmt"
	"go/format"
	"strings"
)

const generated = "// Code generated from kernels/abi.h by backend/internal/abi/gen. DO NOT EDIT.\n\npackage abi\n\n"

var goTypes = map[string]string{"uint32_t": "uint32", "int64_t": "int64", "uint64_t": "uint64", "float": "float32"}

// spellings are words that Go does not write as a capital and small letters. The
// name of the package is not repeated in its constants.
var spellings = map[string]string{"abi": "", "alibi": "ALiBi", "kcache": "KCache", "kv": "KV", "lse": "LSE", "rope": "RoPE", "vcache": "VCache"}

// goName is the Go name of FKV_SOME_NAME, fkv_some_name or some_name.
func goName(c string) string {
	var b strings.Builder
	for _, w := range strings.Split(strings.TrimPrefix(strings.ToLower(c), "fkv_"), "_") {
		s, ok := spellings[w]
		if !ok && w != "" {
			s = strings.ToUpper(w[:1]) + w[1:]
		}
		b.WriteString(s)
	}
	return b.String()
}

// Source is the package's constants, structs and methods.
func Source(h *Header) ([]byte, error) {
	var b strings.Builder
	b.WriteString(generated)
	b.WriteString("import \"unsafe\"\n")
	buffers, args := 0, 0
	for i, d := range h.Decls {
		switch {
		case d.Lines != nil:
			emitStruct(&b, d)
			if d.IsArgs() {
				args = max(args, d.Size())
			}
		case d.Value != "":
			if i == 0 || d.Doc != "" || h.Decls[i-1].Value == "" {
				emitNumbers(&b, h.Decls[i:])
			}
		default:
			emitEnum(&b, d)
			buffers = max(buffers, len(d.Names)-1)
		}
	}
	fmt.Fprintf(&b, "\n// What no kernel exceeds.\nconst (\nMaxBuffers = %d // buffers of a kernel\nMaxArgs = %d // bytes of a kernel's scalars\n)\n", buffers, args)
	return format.Source([]byte(b.String()))
}

// emitNumbers writes the number at the front and those that follow it without a
// comment above them.
func emitNumbers(b *strings.Builder, decls []Decl) {
	b.WriteString("\n")
	emitDoc(b, decls[0].Doc)
	b.WriteString("const (\n")
	for i, d := range decls {
		if d.Value == "" || i > 0 && d.Doc != "" {
			break
		}
		fmt.Fprintf(b, "%s = %s%s\n", goName(d.Names[0]), d.Value, note(d.Note))
	}
	b.WriteString(")\n")
}

func emitEnum(b *strings.Builder, d Decl) {
	b.WriteString("\n")
	emitDoc(b, d.Doc)
	b.WriteString("const (\n")
	for i, n := range d.Names {
		b.WriteString(goName(n))
		if i == 0 {
			b.WriteString(" = iota")
		}
		b.WriteString("\n")
	}
	b.WriteString(")\n")
}

func emitStruct(b *strings.Builder, d Decl) {
	name := goName(d.Names[0])
	doc := d.Doc
	if doc == "" {
		doc = fmt.Sprintf("%s is struct %s.", name, d.Names[0])
	}
	b.WriteString("\n")
	emitDoc(b, doc)
	fmt.Fprintf(b, "type %s struct {\n", name)
	for _, l := range d.Lines {
		names := make([]string, len(l.Names))
		for i, n := range l.Names {
			names[i] = goName(n)
			if n == "pad" {
				names[i] = "_"
			}
		}
		fmt.Fprintf(b, "%s %s%s\n", strings.Join(names, ", "), goTypes[l.Type], note(l.Note))
	}
	b.WriteString("}\n")
	if d.IsArgs() {
		fmt.Fprintf(b, `
// Encode sets Size and returns the struct as the kernel reads it. The bytes are the
// struct's own memory.
func (a *%s) Encode() []byte {
	a.Size = uint32(unsafe.Sizeof(*a))
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}
`, name)
	}
}

// Tables is the test's side: what C calls the constants, structs and fields.
func Tables(h *Header) ([]byte, error) {
	var b strings.Builder
	b.WriteString(generated)
	b.WriteString("import \"reflect\"\n\n// cConstants are the header's constants by their names in C.\nvar cConstants = map[string]uint32{\n")
	for _, d := range h.Decls {
		if d.Lines == nil {
			for _, n := range d.Names {
				fmt.Fprintf(&b, "%q: %s,\n", n, goName(n))
			}
		}
	}
	b.WriteString("}\n\n// cStructs are the header's structs with the names of their fields in C.\nvar cStructs = []struct {\nname string\nlayout reflect.Type\nfields []string\n}{\n")
	for _, d := range h.Decls {
		if d.Lines != nil {
			var fields []string
			for _, l := range d.Lines {
				fields = append(fields, l.Names...)
			}
			fmt.Fprintf(&b, "{%q, reflect.TypeFor[%s](), %#v},\n", d.Names[0], goName(d.Names[0]), fields)
		}
	}
	b.WriteString("}\n")
	return format.Source([]byte(b.String()))
}

func emitDoc(b *strings.Builder, doc string) {
	if doc == "" {
		return
	}
	for _, l := range strings.Split(doc, "\n") {
		b.WriteString(strings.TrimRight("// "+l, " ") + "\n")
	}
}

func note(n string) string {
	if n == "" {
		return ""
	}
	return " // " + n
}
