package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

// What the compiled kernels may take at most.
const (
	maxKernels = 400
	maxBytes   = 24 << 20
	maxShared  = 99 << 10 // of a block, static and dynamic: what PTX for compute_80 finds on any later GPU
)

// check compares sources, MANIFEST and fat binaries; with the toolkit also the machine
// code. The error names everything that is wrong.
func check(dir string, toolkit bool, jobs int) error {
	m, err := readManifest(dir)
	if err != nil {
		return err
	}
	problems := checkFiles(dir, m)
	if toolkit {
		found := make([][]error, len(m.Families))
		each(len(m.Families), jobs, func(i int) { found[i] = checkCode(dir, m.Families[i].Name, m) })
		problems = append(problems, slices.Concat(found...)...)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%w\nkernels-check: %d problems; make kernels-cuda compiles what changed", errors.Join(problems...), len(problems))
	}
	fmt.Printf("kernels-check: %d kernels in %d families agree with the sources and the MANIFEST\n", len(m.Kernels), len(m.Families))
	return nil
}

// checkFiles is the part of the check that any machine can do.
func checkFiles(dir string, m *manifest.Manifest) (problems []error) {
	report := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if v, err := headerVersion(dir); err != nil {
		report("%w", err)
	} else if v != m.ABI {
		report("MANIFEST: compiled for version %d of the ABI, %s is version %d", m.ABI, header, v)
	}
	if !slices.Equal(m.Options, options()) || !slices.Equal(m.Architectures, architectures) {
		report("MANIFEST: compiled with other options: %q for %q", m.Options, m.Architectures)
	}
	if len(m.Kernels) > maxKernels {
		report("MANIFEST: %d kernels, want at most %d", len(m.Kernels), maxKernels)
	}
	for _, k := range m.Kernels {
		if !strings.HasPrefix(k.Symbol, "fkv_") {
			report("MANIFEST: kernel %s does not begin with fkv_", k.Symbol)
		}
	}
	names, err := families(dir)
	if err != nil {
		report("%w", err)
	}
	for _, name := range names {
		if !slices.ContainsFunc(m.Families, func(f manifest.Family) bool { return f.Name == name }) {
			report("%s.cu was not compiled", name)
		}
	}
	total := 0
	for _, f := range m.Families {
		src, err := sources(dir, f.Name)
		if err != nil {
			report("%w", err)
			continue
		}
		problems = append(problems, stale(m, f, src)...)
		image, err := os.ReadFile(filepath.Join(dir, f.Name+".fatbin"))
		if err != nil {
			report("%w", err)
		} else if sum(image) != f.Sum {
			report("%s.fatbin is not the one that the MANIFEST lists", f.Name)
		}
		total += len(image)
	}
	if total > maxBytes {
		report("the fat binaries have %d bytes, want at most %d", total, maxBytes)
	}
	extra, err := unlisted(dir, m)
	if err != nil {
		report("%w", err)
	}
	for _, f := range extra {
		report("%s is not in the MANIFEST", f)
	}
	return problems
}

// stale compares a family's sources with those it was compiled from.
func stale(m *manifest.Manifest, f manifest.Family, now []source) (problems []error) {
	for _, path := range f.Sources {
		if !slices.Contains(paths(now), path) {
			problems = append(problems, fmt.Errorf("%s: compiled from %s, which it no longer includes", f.Name, path))
		}
	}
	for _, s := range now {
		if !slices.Contains(f.Sources, s.Path) {
			problems = append(problems, fmt.Errorf("%s: compiled without %s, which it now includes", f.Name, s.Path))
		} else if !slices.Contains(m.Sources, s.Source) {
			problems = append(problems, fmt.Errorf("%s: %s has changed since it was compiled", f.Name, s.Path))
		}
	}
	return problems
}

// unlisted are the fat binaries that the MANIFEST does not name.
func unlisted(dir string, m *manifest.Manifest) (extra []string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.fatbin"))
	for _, f := range files {
		name := filepath.Base(f)
		if !slices.ContainsFunc(m.Families, func(f manifest.Family) bool { return f.Name+".fatbin" == name }) {
			extra = append(extra, name)
		}
	}
	return extra, err
}

func readManifest(dir string) (*manifest.Manifest, error) {
	text, err := os.ReadFile(filepath.Join(dir, "MANIFEST"))
	if err != nil {
		return nil, err
	}
	return manifest.Parse(string(text))
}
