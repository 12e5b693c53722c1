// Package zerotest calls every exported method of values that no constructor made, for tests:
// a program that forgot New gets an error that it can print, not a panic.
package zerotest

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Types are the zero values of all exported types of a package that have methods, as pointers.
type Types struct {
	// Made are what only a constructor makes. Their methods return an error where they can,
	// unless they are asked for nothing, and else nothing: zeros, and what has no elements.
	Made []any
	// Plain are what a program may make by itself. Their methods need only return.
	Plain []any
	// Free are the methods of Made whose zero is as good as any: "Claim.Blocks".
	Free []string
}

// Check calls the methods of all types, and reports those of the package in the working
// directory that are not among them.
func Check(t *testing.T, types Types) {
	t.Helper()
	known := map[string]bool{}
	for i, zero := range append(append([]any(nil), types.Made...), types.Plain...) {
		of := reflect.TypeOf(zero).Elem()
		name, _, _ := strings.Cut(of.Name(), "[")
		known[name] = true
		for m := range reflect.PointerTo(of).NumMethod() {
			method := reflect.PointerTo(of).Method(m)
			full := name + "." + method.Name
			made := i < len(types.Made)
			for _, free := range types.Free {
				made = made && free != full
			}
			call(t, full, reflect.New(of).Method(m), reflect.Zero, made, false)
			call(t, full, reflect.New(of).Method(m), plausible, made, made)
		}
	}
	for _, name := range structs(t) {
		if !known[name] {
			t.Errorf("%s has exported methods: call them, too", name)
		}
	}
}

// call calls a method and looks at what it returns.
func call(t *testing.T, name string, method reflect.Value, give func(reflect.Type) reflect.Value, made, fails bool) {
	t.Helper()
	of := method.Type()
	var args []reflect.Value
	for i := range of.NumIn() {
		switch {
		case !of.IsVariadic() || i < of.NumIn()-1:
			args = append(args, give(of.In(i)))
		case fails: // one, of as many as may be
			args = append(args, give(of.In(i).Elem()))
		}
	}
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("%s panics: %v", name, r)
		}
	}()
	results := method.Call(args)
	if !made {
		return
	}
	for _, r := range results {
		switch {
		case r.Type() == reflect.TypeFor[error]():
			if fails && r.IsNil() {
				t.Errorf("%s returns no error", name)
			}
		case r.Kind() == reflect.Func:
			yields(t, name, r)
		case !empty(r, args):
			t.Errorf("%s returns %v", name, r)
		}
	}
}

// empty reports whether a result has nothing in it, or no more than the slice of an argument.
func empty(v reflect.Value, args []reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice:
		for _, a := range args {
			if a.Type() == v.Type() && a.Len() == v.Len() {
				return true
			}
		}
		return v.Len() == 0
	case reflect.Struct:
		for i := range v.NumField() {
			if !empty(v.Field(i), nil) {
				return false
			}
		}
		return true
	case reflect.String, reflect.Bool: // what it is, and that it is empty
		return true
	}
	return v.IsZero()
}

// yields ranges over an iterator, which must have no elements.
func yields(t *testing.T, name string, seq reflect.Value) {
	t.Helper()
	if seq.IsNil() {
		t.Errorf("%s returns an iterator that is nil", name)
		return
	}
	yield := reflect.MakeFunc(seq.Type().In(0), func([]reflect.Value) []reflect.Value {
		t.Errorf("%s yields something", name)
		return []reflect.Value{reflect.ValueOf(false)}
	})
	seq.Call([]reflect.Value{yield})
}

// plausible is an argument that a program would pass.
func plausible(of reflect.Type) reflect.Value {
	v := reflect.New(of).Elem()
	switch {
	case of == reflect.TypeFor[context.Context]():
		return reflect.ValueOf(context.Background())
	case v.CanInt():
		v.SetInt(1)
	case v.CanUint():
		v.SetUint(1)
	case of.Kind() == reflect.Slice:
		return reflect.MakeSlice(of, 1, 1)
	case of.Kind() == reflect.Pointer:
		return reflect.New(of.Elem())
	case of.Kind() == reflect.Func:
		return reflect.MakeFunc(of, func([]reflect.Value) (out []reflect.Value) {
			for i := range of.NumOut() {
				out = append(out, reflect.Zero(of.Out(i)))
			}
			return out
		})
	}
	return v
}

// structs are the exported types with exported methods of the package in the working directory,
// on any platform.
func structs(t *testing.T) (names []string) {
	t.Helper()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if method, ok := d.(*ast.FuncDecl); ok && method.Recv != nil && method.Name.IsExported() {
				if name := receiver(method.Recv.List[0].Type); ast.IsExported(name) && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	if len(names) == 0 {
		t.Fatal("the package has no methods to look for")
	}
	return names
}

// receiver is the name of a method's type.
func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.Ident:
		return of.Name
	}
	return ""
}
