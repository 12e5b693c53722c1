package main

import (
	"go/types"
	"strings"
)

// text writes a type without the names of parameters, and with packages as lines name them.
func (l *lister) text(t types.Type) string {
	return types.TypeString(nameless(t), func(p *types.Package) string {
		if p == l.pkg {
			return ""
		}
		return short(p.Path(), l.module)
	})
}

func (l *lister) signature(s *types.Signature) string {
	return strings.TrimPrefix(l.text(s), "func")
}

// parameters writes type parameters with their constraints, in brackets; nothing where there are none.
func (l *lister) parameters(list *types.TypeParamList) string {
	if list.Len() == 0 {
		return ""
	}
	var out []string
	for p := range list.TypeParams() {
		out = append(out, p.Obj().Name()+" "+l.text(p.Constraint()))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// nameless is a type whose functions, however deep, have parameters without names: these can change without
// a change for callers.
func nameless(t types.Type) types.Type {
	switch t := t.(type) {
	case *types.Pointer:
		return types.NewPointer(nameless(t.Elem()))
	case *types.Slice:
		return types.NewSlice(nameless(t.Elem()))
	case *types.Array:
		return types.NewArray(nameless(t.Elem()), t.Len())
	case *types.Map:
		return types.NewMap(nameless(t.Key()), nameless(t.Elem()))
	case *types.Chan:
		return types.NewChan(t.Dir(), nameless(t.Elem()))
	case *types.Signature:
		return types.NewSignatureType(nil, nil, nil, tuple(t.Params()), tuple(t.Results()), t.Variadic())
	case *types.Struct:
		var fields []*types.Var
		var tags []string
		for i := range t.NumFields() {
			f := t.Field(i)
			fields = append(fields, types.NewField(f.Pos(), f.Pkg(), f.Name(), nameless(f.Type()), f.Embedded()))
			tags = append(tags, t.Tag(i))
		}
		return types.NewStruct(fields, tags)
	case *types.Interface:
		return namelessMethods(t)
	case *types.Named:
		if t.TypeArgs().Len() == 0 {
			return t
		}
		var args []types.Type
		for a := range t.TypeArgs().Types() {
			args = append(args, nameless(a))
		}
		if of, err := types.Instantiate(nil, t.Origin(), args, false); err == nil {
			return of
		}
	}
	return t
}

func namelessMethods(t *types.Interface) types.Type {
	if t.NumExplicitMethods() == 0 {
		return t
	}
	var methods []*types.Func
	for m := range t.ExplicitMethods() {
		methods = append(methods, types.NewFunc(m.Pos(), m.Pkg(), m.Name(), nameless(m.Signature()).(*types.Signature)))
	}
	var embedded []types.Type
	for e := range t.EmbeddedTypes() {
		embedded = append(embedded, e)
	}
	return types.NewInterfaceType(methods, embedded).Complete()
}

func tuple(t *types.Tuple) *types.Tuple {
	var vars []*types.Var
	for v := range t.Variables() {
		vars = append(vars, types.NewParam(v.Pos(), v.Pkg(), "", nameless(v.Type())))
	}
	return types.NewTuple(vars...)
}
