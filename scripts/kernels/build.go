package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

// built is a family with what it was made of and what is in it.
type built struct {
	family  manifest.Family
	sources []source
	kernels []manifest.Kernel
}

// build compiles the families that changed and writes the MANIFEST. A family that does
// not compile is left out of it, so the next build has only that one to do.
func build(dir string, all bool, jobs int) error {
	names, err := families(dir)
	if err != nil {
		return err
	}
	m := &manifest.Manifest{Options: options(), Architectures: architectures}
	if m.ABI, err = headerVersion(dir); err != nil {
		return err
	}
	if m.Compiler, err = compiler(); err != nil {
		return err
	}
	old, err := readManifest(dir)
	if err != nil || all || old.Compiler != m.Compiler || !slices.Equal(old.Options, m.Options) {
		old = &manifest.Manifest{} // nothing of it is of use
	}
	work := make([]*built, len(names))
	for i, name := range names {
		src, err := sources(dir, name)
		if err != nil {
			return err
		}
		work[i] = &built{manifest.Family{Name: name, Sources: paths(src)}, src, nil}
	}
	problems := make([]error, len(names))
	each(len(names), jobs, func(i int) {
		if !work[i].keep(dir, old) {
			problems[i] = work[i].compile(dir)
		}
	})
	sums := map[string]string{}
	for i, b := range work {
		if problems[i] != nil {
			continue
		}
		m.Families = append(m.Families, b.family)
		m.Kernels = append(m.Kernels, b.kernels...)
		for _, s := range b.sources {
			sums[s.Path] = s.Sum
		}
	}
	for _, path := range slices.Sorted(maps.Keys(sums)) {
		m.Sources = append(m.Sources, manifest.Source{Path: path, Sum: sums[path]})
	}
	slices.SortFunc(m.Kernels, func(a, b manifest.Kernel) int { return strings.Compare(a.Symbol, b.Symbol) })
	problems = append(problems, write(dir, m))
	return errors.Join(problems...)
}

// keep takes the family over from old, if it is there and nothing of it has changed.
func (b *built) keep(dir string, old *manifest.Manifest) bool {
	i := slices.IndexFunc(old.Families, func(f manifest.Family) bool { return f.Name == b.family.Name })
	if i < 0 || len(stale(old, old.Families[i], b.sources)) > 0 {
		return false
	}
	image, err := os.ReadFile(filepath.Join(dir, b.family.Name+".fatbin"))
	if err != nil || sum(image) != old.Families[i].Sum {
		return false
	}
	b.family = old.Families[i]
	for _, k := range old.Kernels {
		if k.Family == b.family.Name {
			b.kernels = append(b.kernels, k)
		}
	}
	return true
}

// compile compiles the family from copies of its sources: of these and no other files,
// and unharmed by an editor at work meanwhile, for nvcc reads them once for each
// architecture.
func (b *built) compile(dir string) error {
	start := time.Now()
	name := b.family.Name
	tmp, err := os.MkdirTemp("", "kernels")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	folder := filepath.Join(tmp, "cuda")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	for _, s := range b.sources {
		if err := os.WriteFile(filepath.Join(folder, s.Path), s.text, 0o644); err != nil {
			return err
		}
	}
	fatbin := name + ".fatbin"
	if _, err := output(folder, "nvcc", append(options(), "-o", fatbin, name+".cu")...); err != nil {
		return err
	}
	im, err := inspect(filepath.Join(folder, fatbin))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if b.kernels, err = entries(name, im); err != nil {
		return err
	}
	image, err := os.ReadFile(filepath.Join(folder, fatbin))
	if err != nil {
		return err
	}
	b.family.Sum = sum(image)
	fmt.Printf("%-20s %3d kernels %6d KiB %6.1f s\n", name, len(b.kernels), len(image)>>10, time.Since(start).Seconds())
	return os.WriteFile(filepath.Join(dir, fatbin), image, 0o644)
}

// entries are the kernels of an image, which must be the same for all its machines.
func entries(family string, im image) ([]manifest.Kernel, error) {
	var list []manifest.Kernel
	first := machines()[0]
	for _, symbol := range slices.Sorted(maps.Keys(im[first])) {
		list = append(list, manifest.Kernel{
			Symbol: symbol, Family: family,
			Threads: im[first][symbol].threads, Shared: im[first][symbol].shared,
		})
	}
	for _, arch := range machines() {
		for i := range list {
			list[i].Registers = append(list[i].Registers, im[arch][list[i].Symbol].registers)
		}
	}
	return list, errors.Join(agree(family, list, im)...)
}

// write writes the MANIFEST and removes fat binaries that it does not list.
func write(dir string, m *manifest.Manifest) error {
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
