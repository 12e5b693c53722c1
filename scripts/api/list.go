package main

import (
	"fmt"
	"go/build"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// platforms differ in what of the devices a program can have.
var platforms = []struct {
	name, os, arch string
	cgo            bool
}{
	{"linux-amd64-cgo", "linux", "amd64", true},
	{"linux-amd64", "linux", "amd64", false},
	{"darwin-arm64-cgo", "darwin", "arm64", true},
	{"windows-amd64", "windows", "amd64", false},
}

// List is the exported objects of all public packages of the module in a folder, sorted by package and
// by text. What not all platforms have is marked with those that do.
func List(root, module string) ([]string, error) {
	pkgs, err := public(root, module)
	if err != nil {
		return nil, err
	}
	set, foreign := token.NewFileSet(), map[string]bool{}
	var loaders []*loader
	for _, p := range platforms {
		l := &loader{root: root, module: module, context: build.Default, files: set, checked: map[string]*types.Package{}}
		l.context.GOOS, l.context.GOARCH, l.context.CgoEnabled = p.os, p.arch, p.cgo
		l.context.BuildTags, l.context.ToolTags = nil, nil
		seen := map[string]bool{}
		for _, pkg := range pkgs {
			if err := l.imports(pkg, seen, foreign); err != nil {
				return nil, err
			}
		}
		loaders = append(loaders, l)
	}
	others, err := exportData(root, set, foreign)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, pkg := range pkgs {
		on := map[string][]string{} // the platforms that have an object
		for i, l := range loaders {
			l.foreign = others
			checked, err := l.Import(pkg)
			if err != nil {
				return nil, err
			}
			if checked == nil || checked.Name() == "main" {
				continue
			}
			for _, object := range objects(checked, module) {
				if strings.Contains(object, "invalid type") {
					return nil, fmt.Errorf("%s on %s: %s: types of C and of packages of another system cannot be exported", pkg, platforms[i].name, object)
				}
				on[object] = append(on[object], platforms[i].name)
			}
		}
		var of []string
		for object, names := range on {
			mark := ""
			if len(names) < len(platforms) {
				mark = " (" + strings.Join(names, " ") + ")"
			}
			of = append(of, "pkg "+short(pkg, module)+mark+", "+object)
		}
		slices.SortFunc(of, func(a, b string) int { return strings.Compare(afterPlatforms(a), afterPlatforms(b)) })
		lines = append(lines, of...)
	}
	return lines, nil
}

// afterPlatforms is the object of a line.
func afterPlatforms(line string) string {
	_, object, _ := strings.Cut(line, ", ")
	return object
}

// short is a package as lines name it: those of the module by their folder, its root by its name.
func short(pkg, module string) string {
	if pkg == module {
		return pkg[strings.LastIndex(pkg, "/")+1:]
	}
	return strings.TrimPrefix(pkg, module+"/")
}
