// Operandgen writes what follows from the parameters of the operations: what visits the
// operands of a call, or passes a call on. It is run in the folder of backend/params.go.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// outputs are the files that are generated, in the folder of params.go.
var outputs = []struct{ path, template, build string }{
	{path: "from_params.go", template: "erased.tmpl"},
	{path: "internal/check/from_params.go", template: "check.tmpl"},
	{path: "internal/device/from_params.go", template: "device.tmpl"},
	{path: "cuda/from_params.go", template: "gpu.tmpl", build: "linux && cgo && !nocuda"},
	{path: "metal/from_params.go", template: "gpu.tmpl", build: "cgo && !nometal && (darwin || metalsimt)"},
	{path: "backendtest/faulty_from_params.go", template: "faulty.tmpl"},
	{path: "backendtest/late_from_params.go", template: "late.tmpl"},
}

func main() {
	files, err := Generate(".")
	for path, text := range files {
		if err == nil {
			err = os.WriteFile(path, text, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "operandgen:", err)
		os.Exit(1)
	}
}

// Generate is the text of every generated file of a folder, by its path.
func Generate(dir string) (map[string][]byte, error) {
	params := filepath.Join(dir, "params.go")
	text, err := os.ReadFile(params)
	if err != nil {
		return nil, err
	}
	source, err := Parse(params, text)
	if err != nil {
		return nil, err
	}
	docs, err := docsOf(filepath.Join(dir, "internal/launch"), source.Operations())
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, o := range outputs {
		path := filepath.Join(dir, o.path)
		pkg := filepath.Base(filepath.Dir(o.path))
		if pkg == "." {
			pkg = "backend"
		}
		files[path], err = Render(o.template, Page{Source: source, Package: pkg, Build: o.build, Docs: docs})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.path, err)
		}
	}
	return files, nil
}

// docsOf is the comments of the operations' launches, which say of all GPUs what they do.
func docsOf(dir string, ops []*Struct) (map[string]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	docs := map[string]string{}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Doc != nil {
				docs[f.Name.Name] = "// " + strings.ReplaceAll(strings.TrimSuffix(f.Doc.Text(), "\n"), "\n", "\n// ") + "\n"
			}
		}
	}
	for _, op := range ops {
		if docs[op.Op()] == "" {
			return nil, fmt.Errorf("%s has no commented function %s", dir, op.Op())
		}
	}
	return docs, nil
}
