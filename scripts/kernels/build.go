package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

// build compiles the files that changed, and writes archives and MANIFEST. A file that does not compile
// is left out of both, so the next build has only that one to do.
func build(dir string, all bool, jobs int) error {
	files, err := units(dir)
	if err != nil {
		return err
	}
	m := &manifest.Manifest{Options: embedded.options, Architectures: embedded.architectures}
	if m.ABI, err = headerVersion(dir); err != nil {
		return err
	}
	if m.Compiler, err = compiler(); err != nil {
		return err
	}
	if m.Compressor, err = compressor(); err != nil {
		return err
	}
	had := &former{}
	if !all {
		had = before(dir, m)
	}
	made := make([]compiled, len(files))
	for i, file := range files {
		made[i].file = file
		if made[i].sources, err = sources(dir, file); err != nil {
			return err
		}
	}
	each(len(made), jobs, func(i int) {
		if made[i].modules = had.modules(made[i].file, made[i].sources); made[i].modules == nil {
			made[i].make(embedded.compile, made[i].file)
		}
	})
	images := list(m, made)
	return errors.Join(problems(made), write(dir, m, images, had))
}

// former is what an earlier build made, by file.
type former struct {
	manifest.Manifest
	images map[string][]byte
}

// before returns what is there, as far as it is of the compiler and options of m and not damaged.
func before(dir string, m *manifest.Manifest) *former {
	old, err := readManifest(dir)
	if err != nil || old.Compiler != m.Compiler || !slices.Equal(old.Options, m.Options) || !slices.Equal(old.Architectures, m.Architectures) {
		return &former{}
	}
	f := &former{*old, map[string][]byte{}}
	for _, a := range old.Archives {
		if images, err := unpack(dir, old, a); err == nil {
			maps.Copy(f.images, images)
		}
	}
	return f
}

// modules are those of a file; nil where it has changed, or an image is missing.
func (f *former) modules(file string, now []source) (modules []module) {
	if len(stale(&f.Manifest, file, now)) > 0 {
		return nil
	}
	for _, family := range f.Families {
		if family.File != file {
			continue
		}
		image, ok := f.images[family.Name]
		if !ok {
			return nil
		}
		modules = append(modules, module{Family: family, kernels: listed(&f.Manifest, family.Name), image: image})
	}
	return modules
}

// listed are a family's kernels.
func listed(m *manifest.Manifest, family string) (kernels []manifest.Kernel) {
	for _, k := range m.Kernels {
		if k.Family == family {
			kernels = append(kernels, k)
		}
	}
	return kernels
}

// entries are the kernels of an image, which must be the same for all its machines.
func (t target) entries(family string, im image) ([]manifest.Kernel, error) {
	var list []manifest.Kernel
	first := t.machines()[0]
	for _, symbol := range slices.Sorted(maps.Keys(im[first])) {
		list = append(list, manifest.Kernel{
			Symbol: symbol, Family: family,
			Threads: im[first][symbol].threads, Shared: im[first][symbol].shared,
		})
	}
	for _, arch := range t.machines() {
		for i := range list {
			list[i].Registers = append(list[i].Registers, im[arch][list[i].Symbol].registers)
		}
	}
	return list, errors.Join(t.agree(family, list, im)...)
}

// write writes the archives whose images changed and the MANIFEST, and removes archives that it does
// not list.
func write(dir string, m *manifest.Manifest, images map[string][]byte, had *former) error {
	m.Archives = archives(m.Families)
	for i, f := range m.Families {
		m.Families[i].Archive = archiveOf(f.Name).Name
	}
	for i, a := range m.Archives {
		whole, base := content(m, a.Name, images), []byte(nil)
		if a.Base != "" {
			base = content(m, a.Base, images)
		}
		if old, ok := had.Archive(a.Name); ok && m.Compressor == had.Compressor && old.Base == a.Base &&
			bytes.Equal(whole, content(&had.Manifest, a.Name, had.images)) && bytes.Equal(base, content(&had.Manifest, a.Base, had.images)) {
			m.Archives[i] = old
			continue
		}
		archive, err := pack(whole, base)
		if err != nil {
			return err
		}
		if err := os.WriteFile(archiveFile(dir, a.Name), archive, 0o644); err != nil {
			return err
		}
		m.Archives[i].Sum = sum(archive)
		fmt.Printf("%-20s %8d KiB packed to %6d\n", a.Name, len(whole)>>10, len(archive)>>10)
	}
	text := m.String()
	if _, err := manifest.Parse(text); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "MANIFEST"), []byte(text), 0o644); err != nil {
		return err
	}
	extra, err := unlisted(dir, m)
	for _, f := range extra {
		err = errors.Join(err, os.Remove(filepath.Join(dir, f)))
	}
	return err
}
