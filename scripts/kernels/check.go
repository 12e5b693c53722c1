package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

// What the compiled kernels may take at most.
const (
	maxKernels = 400
	maxBytes   = 9 << 20
	maxShared  = 99 << 10 // of a block, static and dynamic: what any GPU of 8.0 or later has
)

// check compares sources, MANIFEST and archives; with the toolkit also the machine code. The error
// names everything that is wrong.
func check(dir string, toolkit bool, jobs int) error {
	m, err := readManifest(dir)
	if err != nil {
		return err
	}
	images, problems := checkFiles(dir, m)
	if toolkit {
		found := make([][]error, len(m.Families))
		each(len(m.Families), jobs, func(i int) { found[i] = checkCode(m.Families[i].Name, images[m.Families[i].Name], m) })
		problems = append(problems, slices.Concat(found...)...)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%w\nkernels-check: %d problems; make kernels-cuda compiles what changed", errors.Join(problems...), len(problems))
	}
	fmt.Printf("kernels-check: %d kernels in %d families agree with the sources and the MANIFEST\n", len(m.Kernels), len(m.Families))
	return nil
}

// checkFiles is the part of the check that any machine can do. It returns the images that are as the
// MANIFEST lists them.
func checkFiles(dir string, m *manifest.Manifest) (images map[string][]byte, problems []error) {
	report := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if v, err := headerVersion(dir); err != nil {
		report("%w", err)
	} else if v != m.ABI {
		report("MANIFEST: compiled for version %d of the ABI, %s is version %d", m.ABI, header, v)
	}
	if !slices.Equal(m.Options, embedded.options) || !slices.Equal(m.Architectures, embedded.architectures) {
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
	files, err := units(dir)
	if err != nil {
		report("%w", err)
	}
	for _, file := range files {
		if !slices.ContainsFunc(m.Units, func(u manifest.Unit) bool { return u.File == file }) {
			report("%s was not compiled", file)
		}
	}
	for _, u := range m.Units {
		src, err := sources(dir, u.File)
		if err != nil {
			report("%w", err)
			continue
		}
		problems = append(problems, stale(m, u.File, src)...)
	}
	images, total := map[string][]byte{}, 0
	for _, a := range m.Archives {
		if file, err := os.Stat(archiveFile(dir, a.Name)); err == nil {
			total += int(file.Size())
		}
		of, err := unpack(dir, m, a)
		if err != nil {
			report("%w", err)
		}
		maps.Copy(images, of)
	}
	if total > maxBytes {
		report("the archives have %d bytes, want at most %d", total, maxBytes)
	}
	extra, err := unlisted(dir, m)
	if err != nil {
		report("%w", err)
	}
	for _, f := range extra {
		report("%s is not in the MANIFEST", f)
	}
	return images, problems
}

// stale compares a unit's sources with those it was compiled from.
func stale(m *manifest.Manifest, file string, now []source) (problems []error) {
	var compiled manifest.Unit
	if i := slices.IndexFunc(m.Units, func(u manifest.Unit) bool { return u.File == file }); i >= 0 {
		compiled = m.Units[i]
	}
	for _, path := range compiled.Sources {
		if !slices.Contains(paths(now), path) {
			problems = append(problems, fmt.Errorf("%s: compiled from %s, which it no longer includes", file, path))
		}
	}
	for _, s := range now {
		if !slices.Contains(compiled.Sources, s.Path) {
			problems = append(problems, fmt.Errorf("%s: compiled without %s, which it now includes", file, s.Path))
		} else if !slices.Contains(m.Sources, s.Source) {
			problems = append(problems, fmt.Errorf("%s: %s has changed since it was compiled", file, s.Path))
		}
	}
	return problems
}

// unlisted are the archives that the MANIFEST does not name.
func unlisted(dir string, m *manifest.Manifest) (extra []string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.zst"))
	for _, f := range files {
		name := filepath.Base(f)
		if !slices.ContainsFunc(m.Archives, func(a manifest.Archive) bool { return a.Name+".zst" == name }) {
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
