package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

// module is a family with its kernels and its fat binary.
type module struct {
	manifest.Family
	kernels []manifest.Kernel
	image   []byte
	code    image  // what the fat binary holds; nil where it was not taken apart
	remarks []byte // of the assembler
}

// compile makes the modules of a file from copies of its sources: of these and no other files, and
// unharmed by an editor at work meanwhile, for nvcc reads them once for each architecture.
func (t target) compile(file string, sources []source) ([]module, error) {
	tmp, err := os.MkdirTemp("", "kernels")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	folder := filepath.Join(tmp, "cuda")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return nil, err
	}
	for _, s := range sources {
		if err := os.WriteFile(filepath.Join(folder, s.Path), s.text, 0o644); err != nil {
			return nil, err
		}
	}
	families := map[string]bool{}
	for _, arch := range t.architectures {
		names, err := t.toPTX(folder, file, virtual(arch))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			families[name] = true
		}
	}
	var modules []module
	for _, name := range slices.Sorted(maps.Keys(families)) {
		m, err := t.assemble(folder, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		m.File = file
		modules = append(modules, m)
	}
	return modules, nil
}

// toPTX compiles a file and divides it: into family.compute_90.ptx of each.
func (t target) toPTX(folder, file, virtual string) (families []string, err error) {
	whole := virtual + ".ptx"
	if _, err := os.Stat(filepath.Join(folder, whole)); err == nil { // for machine code as well
		return nil, nil
	}
	if _, err := output(folder, "nvcc", append(slices.Clone(t.options), "-arch="+virtual, "-ptx", "-o", whole, file)...); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(folder, whole))
	if err != nil {
		return nil, err
	}
	parts, err := divide(text, func(symbol string) string { return familyOf(strings.TrimSuffix(file, ".cu"), symbol) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for name, part := range parts {
		if err := os.WriteFile(filepath.Join(folder, name+"."+whole), part, 0o644); err != nil {
			return nil, err
		}
		families = append(families, name)
	}
	return families, nil
}

// assemble makes a family's fat binary of its PTX.
func (t target) assemble(folder, family string) (module, error) {
	var remarks []byte
	fatbin := family + ".fatbin"
	args := []string{"--create=" + fatbin, "-64", "--compress=false", "--cicc-cmdline=-ftz=0 -prec_div=1 -prec_sqrt=1 -fmad=1 "}
	for _, arch := range t.architectures {
		_, number, _ := strings.Cut(arch, "_")
		kind, file := "ptx", family+"."+virtual(arch)+".ptx"
		if arch != virtual(arch) {
			kind = "elf"
			cubin := family + "." + arch + ".cubin"
			_, said, err := outputs(folder, "ptxas", "-arch="+arch, "-m64", file, "-o", cubin)
			if err != nil {
				return module{}, err
			}
			remarks = append(remarks, said...)
			file = cubin
		}
		args = append(args, "--image3=kind="+kind+",sm="+number+",file="+file)
	}
	if _, err := output(folder, "fatbinary", args...); err != nil {
		return module{}, err
	}
	image, err := os.ReadFile(filepath.Join(folder, fatbin))
	if err != nil {
		return module{}, err
	}
	im, err := inspect(image)
	if err != nil {
		return module{}, err
	}
	kernels, err := t.entries(family, im)
	f := manifest.Family{Name: family, Size: len(image), Sum: sum(image)}
	return module{Family: f, kernels: kernels, image: image, code: im, remarks: remarks}, err
}
