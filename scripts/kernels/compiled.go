package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

// compiled is a file with what was made of it, or why nothing was.
type compiled struct {
	file    string
	sources []source
	modules []module
	problem error
}

// make compiles the file and prints, under that name, what was made.
func (c *compiled) make(compile func(file string, sources []source) ([]module, error), name string) {
	start := time.Now()
	if c.modules, c.problem = compile(c.file, c.sources); c.problem != nil {
		return
	}
	kernels, bytes := 0, 0
	for _, m := range c.modules {
		kernels += len(m.kernels)
		bytes += len(m.image)
	}
	fmt.Printf("%-20s %3d modules %3d kernels %6d KiB %6.1f s\n", name, len(c.modules), kernels, bytes>>10, time.Since(start).Seconds())
}

// problems are those of all files.
func problems(files []compiled) error {
	all := make([]error, len(files))
	for i, c := range files {
		all[i] = c.problem
	}
	return errors.Join(all...)
}

// list adds what was made to a manifest, but for archives, and returns the images by family. A file that did not compile
// is left out.
func list(m *manifest.Manifest, files []compiled) (images map[string][]byte) {
	sums := map[string]string{}
	images = map[string][]byte{}
	for _, c := range files {
		if c.problem != nil {
			continue
		}
		m.Units = append(m.Units, manifest.Unit{File: c.file, Sources: paths(c.sources)})
		for _, s := range c.sources {
			sums[s.Path] = s.Sum
		}
		for _, module := range c.modules {
			m.Families = append(m.Families, module.Family)
			m.Kernels = append(m.Kernels, module.kernels...)
			images[module.Name] = module.image
		}
	}
	for _, path := range slices.Sorted(maps.Keys(sums)) {
		m.Sources = append(m.Sources, manifest.Source{Path: path, Sum: sums[path]})
	}
	slices.SortFunc(m.Units, func(a, b manifest.Unit) int { return strings.Compare(a.File, b.File) })
	slices.SortFunc(m.Families, func(a, b manifest.Family) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(m.Kernels, func(a, b manifest.Kernel) int { return strings.Compare(a.Symbol, b.Symbol) })
	return images
}
