package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"reflect"
	"strconv"
	"strings"
)

// Parse reads the file of the parameters.
func Parse(name string, text []byte) (*Source, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	p := reader{known: map[string]*Struct{}, declared: map[string]*ast.TypeSpec{}}
	var order []*ast.TypeSpec
	for _, d := range file.Decls {
		if d, ok := d.(*ast.GenDecl); ok && d.Tok == token.TYPE {
			for _, spec := range d.Specs {
				if of := spec.(*ast.TypeSpec); isStruct(of) {
					p.declared[of.Name.Name] = of
					order = append(order, of)
				}
			}
		}
	}
	for _, of := range order {
		if _, err := p.read(of); err != nil {
			return nil, fmt.Errorf("%s: %w", files.Position(of.Pos()), err)
		}
	}
	return &p.source, nil
}

func isStruct(t *ast.TypeSpec) bool {
	_, ok := t.Type.(*ast.StructType)
	return ok
}

type reader struct {
	source   Source
	known    map[string]*Struct // nil while it is read
	declared map[string]*ast.TypeSpec
}

// read is a struct, which it reads once, after those of its fields.
func (p *reader) read(t *ast.TypeSpec) (*Struct, error) {
	of, ok := p.known[t.Name.Name]
	if ok {
		return of, nil // a struct that has itself does not compile
	}
	p.known[t.Name.Name] = nil
	of = &Struct{Name: t.Name.Name, Generic: t.TypeParams != nil}
	for _, f := range t.Type.(*ast.StructType).Fields.List {
		if len(f.Names) == 0 {
			return nil, fmt.Errorf("%s embeds %s: give it a name", of.Name, types.ExprString(f.Type))
		}
		for _, name := range f.Names {
			field, err := p.field(name.Name, f)
			if err != nil {
				return nil, fmt.Errorf("%s.%s: %w", of.Name, name.Name, err)
			}
			of.Fields = append(of.Fields, field)
		}
	}
	for _, f := range of.Fields {
		if err := of.count(f.When); err != nil {
			return nil, fmt.Errorf("%s.%s: %w", of.Name, f.Name, err)
		}
	}
	p.known[of.Name] = of
	p.source.Structs = append(p.source.Structs, of)
	return of, nil
}

// count is an error where a tag when does not name a plain field.
func (s *Struct) count(when string) error {
	if when == "" {
		return nil
	}
	name, unless := strings.CutPrefix(when, "!")
	for _, f := range s.Fields {
		if f.Name == name && f.Kind == Plain {
			return nil
		}
	}
	if unless {
		return fmt.Errorf("when: %s has no flag %s", s.Name, name)
	}
	return fmt.Errorf("when: %s has no count %s", s.Name, name)
}

func (p *reader) field(name string, f *ast.Field) (Field, error) {
	out := Field{Name: name, Operand: words(name)}
	operand := false
	if f.Tag != nil {
		text, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			return out, err
		}
		tag := reflect.StructTag(text)
		if named, ok := tag.Lookup("operand"); ok {
			out.Operand, operand = named, true
		}
		out.When = tag.Get("when")
	}
	switch t := types.ExprString(f.Type); {
	case t == "B":
		out.Kind = Buffer
	case t == "Opt[B]":
		out.Kind = Optional
	case p.values(f.Type):
		out.Kind = List
	default:
		nested, generic := strings.CutSuffix(t, "[B]")
		if of := p.declared[nested]; of != nil && generic == (of.TypeParams != nil) {
			var err error
			if out.Struct, err = p.read(of); err != nil {
				return out, err
			}
			out.Kind = Nested
		} else if _, plain := f.Type.(*ast.Ident); !plain {
			return out, fmt.Errorf("%s is not understood: have B, Opt[B], structs of this file, values, and slices of values", t)
		}
	}
	operands := out.Kind == Buffer || out.Kind == Optional || out.Struct != nil && out.Struct.Generic
	if !operands && (operand || out.When != "") {
		return out, fmt.Errorf("has a tag and is no operand")
	}
	return out, nil
}

// values reports whether t is a slice of values.
func (p *reader) values(t ast.Expr) bool {
	slice, ok := t.(*ast.ArrayType)
	if !ok || slice.Len != nil {
		return false
	}
	of, ok := slice.Elt.(*ast.Ident)
	return ok && of.Name != "B" && p.declared[of.Name] == nil
}
