package main

import (
	"strings"
	"unicode"
)

// Kind is what a field of parameters is.
type Kind int

const (
	Plain    Kind = iota // a value
	List                 // a slice on the host
	Buffer               // B
	Optional             // Opt[B]
	Nested               // a struct of the same file
)

// Field is a field of parameters.
type Field struct {
	Name    string
	Kind    Kind
	Struct  *Struct // of Nested
	Operand string  // the tag, or the words of the name
	When    string  // the tag: a count of the same struct
}

// Struct is a struct of parameters, or of parts of them.
type Struct struct {
	Name    string
	Generic bool // over B: it has operands
	Fields  []Field
}

// Source is what the generator reads: the structs in their order, each after those that it has.
type Source struct{ Structs []*Struct }

// suffix ends the names of structs that are all parameters of an operation.
const suffix = "Params"

// Operations are the structs that are all parameters of one.
func (s *Source) Operations() (ops []*Struct) {
	for _, of := range s.Structs {
		if of.Generic && strings.HasSuffix(of.Name, suffix) {
			ops = append(ops, of)
		}
	}
	return ops
}

// Parts are the structs with operands that operations have in common.
func (s *Source) Parts() (parts []*Struct) {
	for _, of := range s.Structs {
		if of.Generic && !strings.HasSuffix(of.Name, suffix) {
			parts = append(parts, of)
		}
	}
	return parts
}

// Op is the name of an operation: of its method and, in small letters, in errors.
func (s *Struct) Op() string { return strings.TrimSuffix(s.Name, suffix) }

// EachLayer reports whether a step does an operation for each layer, with the same operands as
// the last step: calls of these are remembered.
func (s *Struct) EachLayer() bool {
	return s.Op() == "Append" || s.Op() == "Attend" || s.Op() == "AttendScores"
}

// Words is the name of an operation in errors.
func (s *Struct) Words() string { return words(s.Op()) }

// Method is the name of a function about a part of parameters.
func (s *Struct) Method() string { return strings.ToLower(s.Name[:1]) + s.Name[1:] }

// Held reports whether operands of a part have the name of the field that holds it.
func (s *Struct) Held() bool {
	for _, f := range s.Fields {
		if strings.Contains(f.Operand, "*") {
			return true
		}
	}
	return false
}

// words is a name in small letters: block size of BlockSize.
func words(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
