package main

import (
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"strconv"
	"strings"
)

// lister writes the objects of a package as text.
type lister struct {
	pkg    *types.Package
	module string
	lines  []string
}

// objects is what a package exports, a line each, in no particular order.
func objects(pkg *types.Package, module string) []string {
	l := &lister{pkg: pkg, module: module}
	for _, name := range pkg.Scope().Names() {
		if !token.IsExported(name) {
			continue
		}
		switch o := pkg.Scope().Lookup(name).(type) {
		case *types.Const:
			value := o.Val().ExactString()
			if o.Val().Kind() == constant.Float { // exact ones are fractions
				value = o.Val().String()
			}
			l.add("const %s %s = %s", name, l.text(o.Type()), value)
		case *types.Var:
			l.add("var %s %s", name, l.text(o.Type()))
		case *types.Func:
			sig := o.Signature()
			l.add("func %s%s%s", name, l.parameters(sig.TypeParams()), l.signature(sig))
		case *types.TypeName:
			l.typeName(o)
		}
	}
	return l.lines
}

func (l *lister) add(format string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// typeName writes a type, with its fields and methods. An alias of an internal type is the only way to
// that one, so it is written as if the type were declared there.
func (l *lister) typeName(o *types.TypeName) {
	t, parameters := types.Unalias(o.Type()), ""
	if alias, is := o.Type().(*types.Alias); is {
		parameters = l.parameters(alias.TypeParams())
	}
	named, is := t.(*types.Named)
	if o.IsAlias() && !(is && l.internal(named.Obj().Pkg())) {
		if alias, is := o.Type().(*types.Alias); is {
			t = alias.Rhs()
		}
		l.add("type %s%s = %s", o.Name(), parameters, l.text(t))
		return
	}
	if !o.IsAlias() {
		parameters = l.parameters(named.TypeParams())
	}
	head := "type " + o.Name() + parameters
	switch under := named.Underlying().(type) {
	case *types.Struct:
		l.add("%s struct", head)
		l.fields(head+" struct, ", under)
	case *types.Interface:
		l.iface(head+" interface", under)
		return // these are its methods
	default:
		l.add("%s %s", head, l.text(under))
	}
	methods := types.NewMethodSet(types.NewPointer(named))
	for i := range methods.Len() {
		m := methods.At(i)
		if f := m.Obj().(*types.Func); f.Exported() && (len(m.Index()) == 1 || hidden(named, m.Index()[0])) {
			l.add("method (%s) %s%s", receiver(o, named, f), f.Name(), l.signature(m.Type().(*types.Signature)))
		}
	}
}

// internal reports whether a package is one of the module that others cannot import.
func (l *lister) internal(p *types.Package) bool {
	return p != nil && strings.HasPrefix(p.Path(), l.module+"/") && strings.Contains(p.Path()+"/", "/internal/")
}

// receiver is how a method's receiver is declared. One that an embedded type promotes counts as the outer type's.
func receiver(o *types.TypeName, named *types.Named, f *types.Func) string {
	var names []string
	for p := range named.TypeParams().TypeParams() {
		names = append(names, p.Obj().Name())
	}
	name := o.Name()
	if len(names) > 0 {
		name += "[" + strings.Join(names, ", ") + "]"
	}
	if _, pointer := f.Signature().Recv().Type().(*types.Pointer); pointer {
		return "*" + name
	}
	return name
}

// hidden reports whether a struct's field is an embedded one of a type that is not exported: what it
// promotes is found nowhere else. (Of exported ones the embedding says it.)
func hidden(named *types.Named, field int) bool {
	s, is := named.Underlying().(*types.Struct)
	return is && !s.Field(field).Exported()
}

// fields writes the exported fields of a struct, also those that it promotes from types that are not exported.
// Tags count: they decide the JSON form.
func (l *lister) fields(prefix string, s *types.Struct) {
	for i := range s.NumFields() {
		f, tag := s.Field(i), ""
		if s.Tag(i) != "" {
			tag = " " + strconv.Quote(s.Tag(i))
		}
		switch {
		case f.Exported() && f.Embedded():
			l.add("%sembedded %s%s", prefix, l.text(f.Type()), tag)
		case f.Exported():
			l.add("%s%s %s%s", prefix, f.Name(), l.text(f.Type()), tag)
		case f.Embedded():
			t := f.Type()
			if p, is := t.(*types.Pointer); is {
				t = p.Elem()
			}
			if inner, is := t.Underlying().(*types.Struct); is {
				l.fields(prefix, inner)
			}
		}
	}
}

// iface writes an interface: its whole method set, or the types that a constraint allows.
func (l *lister) iface(head string, i *types.Interface) {
	var names []string
	closed := false
	for m := range i.Methods() {
		if m.Exported() {
			names = append(names, m.Name())
			l.add("%s, %s%s", head, m.Name(), l.signature(m.Signature()))
		}
		closed = closed || !m.Exported()
	}
	if closed {
		names = append(names, "unexported methods") // no other package can implement it
	}
	for e := range i.EmbeddedTypes() {
		if under, is := e.Underlying().(*types.Interface); !is || !under.IsMethodSet() {
			names = append(names, l.text(e))
		}
	}
	l.add("%s { %s }", head, strings.Join(names, ", "))
}
