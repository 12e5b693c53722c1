package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Load reads a package and finds the arrows between its files, without its tests.
func Load(dir string) (*Graph, error) {
	files, exports, err := list(dir)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	var parsed []*ast.File
	for _, f := range files {
		file, err := parser.ParseFile(set, filepath.Join(dir, f), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, file)
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	conf := types.Config{Importer: importer.ForCompiler(set, "gc", open)}
	pkg, err := conf.Check(dir, set, parsed, info)
	if err != nil {
		return nil, err
	}
	seen := map[Arrow]bool{}
	for id, o := range info.Uses {
		o = origin(o)
		if o.Pkg() != pkg || !named(o, pkg) {
			continue
		}
		a := Arrow{From: filepath.Base(set.Position(id.Pos()).Filename), To: filepath.Base(set.Position(o.Pos()).Filename), Name: o.Name()}
		if a.From != a.To {
			seen[a] = true
		}
	}
	g := &Graph{Files: files}
	for a := range seen {
		g.Arrows = append(g.Arrows, a)
	}
	slices.SortFunc(g.Arrows, func(a, b Arrow) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Name, b.Name))
	})
	return g, nil
}

// origin is the declaration of an instance's name.
func origin(o types.Object) types.Object {
	switch o := o.(type) {
	case *types.Func:
		return o.Origin()
	case *types.Var:
		return o.Origin()
	}
	return o
}

// named reports whether a name is one of the package, or a field or method of its types: no
// parameter or local variable.
func named(o types.Object, pkg *types.Package) bool {
	switch o := o.(type) {
	case *types.Func:
		return true
	case *types.Var:
		return o.IsField() || o.Parent() == pkg.Scope()
	}
	return o.Parent() == pkg.Scope()
}

// list is a package's files, and where the compiler's data of what it imports is.
func list(dir string) (files []string, exports map[string]string, err error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,GoFiles,DepOnly", ".")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list: %w", err)
	}
	exports = map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Export string
			GoFiles            []string
			DepOnly            bool
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return files, exports, nil
		} else if err != nil {
			return nil, nil, err
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly {
			files = p.GoFiles
		}
	}
}
