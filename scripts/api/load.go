package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// loader type-checks packages of a module from their sources, for one platform and without
// the bodies of functions, so that no compiler of C and no other platform's Go is needed.
type loader struct {
	root, module string
	context      build.Context
	files        *token.FileSet
	foreign      types.Importer
	checked      map[string]*types.Package
}

// source reads the files of a package, and is nil where the platform has none of them.
func (l *loader) source(pkg string) (*build.Package, error) {
	p, err := l.context.ImportDir(filepath.Join(l.root, strings.TrimPrefix(pkg, l.module)), 0)
	if none := (*build.NoGoError)(nil); errors.As(err, &none) {
		return nil, nil
	}
	return p, err
}

func (l *loader) own(pkg string) bool {
	return pkg == l.module || strings.HasPrefix(pkg, l.module+"/")
}

// imports adds what a package of the module imports of others, itself and through those of the module.
func (l *loader) imports(pkg string, seen, foreign map[string]bool) error {
	if seen[pkg] {
		return nil
	}
	seen[pkg] = true
	p, err := l.source(pkg)
	if err != nil || p == nil {
		return err
	}
	for _, to := range p.Imports {
		if !l.own(to) {
			foreign[to] = true
		} else if err := l.imports(to, seen, foreign); err != nil {
			return err
		}
	}
	return nil
}

// Import is part of types.Importer.
func (l *loader) Import(pkg string) (*types.Package, error) {
	if !l.own(pkg) {
		return l.foreign.Import(pkg)
	}
	if p := l.checked[pkg]; p != nil {
		return p, nil
	}
	p, err := l.source(pkg)
	if err != nil || p == nil {
		return nil, err
	}
	var parsed []*ast.File
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
		file, err := l.parse(p, name)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, file)
	}
	// Packages of the system are those of this machine: other platforms' have names that these lack. Such
	// an error matters only where what is exported needs the name, and invalid types are refused.
	conf := types.Config{Importer: l, IgnoreFuncBodies: true, FakeImportC: true, Error: func(error) {}}
	checked, _ := conf.Check(pkg, l.files, parsed, nil)
	l.checked[pkg] = checked
	return checked, nil
}

var (
	headerNumber = regexp.MustCompile(`(?m)^\s*(?:#define\s+(\w+)\s+|(\w+)\s*=\s*)(\d+)\b`)
	nameOfC      = regexp.MustCompile(`\bC\.(\w+)`)
)

// parse parses a file of a package. Names of C that stand for numbers in the package's headers are
// replaced by these: lengths and values of what is exported are known without a compiler of C.
func (l *loader) parse(p *build.Package, name string) (*ast.File, error) {
	text, err := os.ReadFile(filepath.Join(p.Dir, name))
	if err != nil {
		return nil, err
	}
	if slices.Contains(p.CgoFiles, name) {
		numbers := map[string]string{}
		for _, h := range p.HFiles {
			header, err := os.ReadFile(filepath.Join(p.Dir, h))
			if err != nil {
				return nil, err
			}
			for _, m := range headerNumber.FindAllStringSubmatch(string(header), -1) {
				numbers[m[1]+m[2]] = m[3]
			}
		}
		text = nameOfC.ReplaceAllFunc(text, func(use []byte) []byte {
			if n, is := numbers[string(use[len("C."):])]; is {
				return []byte(n)
			}
			return use
		})
	}
	return parser.ParseFile(l.files, filepath.Join(p.Dir, name), text, parser.SkipObjectResolution)
}

// exportData is an importer of packages outside of the module, from what the compiler has of them.
func exportData(root string, set *token.FileSet, pkgs map[string]bool) (types.Importer, error) {
	args := []string{"list", "-e", "-export", "-deps", "-json=ImportPath,Export", "--"}
	for pkg := range pkgs {
		if pkg != "C" {
			args = append(args, pkg)
		}
	}
	slices.Sort(args[6:])
	out, err := command(root, args...)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p struct{ ImportPath, Export string }
		if err := d.Decode(&p); err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
	}
	return importer.ForCompiler(set, "gc", func(pkg string) (io.ReadCloser, error) {
		return os.Open(exports[pkg])
	}), nil
}
