package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

// module is a family with its kernels and its fat binary.
type module struct {
	manifest.Family
	kernels []manifest.Kernel
	image   []byte
}

// compile makes the modules of a file from copies of its sources: of these and no other files, and
// unharmed by an editor at work meanwhile, for nvcc reads them once for each architecture.
func compile(unit manifest.Unit, sources []source) ([]module, error) {
	start := time.Now()
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
	for _, arch := range architectures {
		names, err := toPTX(folder, unit.File, virtual(arch))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			families[name] = true
		}
	}
	var modules []module
	for _, name := range slices.Sorted(maps.Keys(families)) {
		m, err := assemble(folder, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		m.File = unit.File
		modules = append(modules, m)
	}
	kernels, bytes := 0, 0
	for _, m := range modules {
		kernels += len(m.kernels)
		bytes += len(m.image)
	}
	fmt.Printf("%-20s %3d modules %3d kernels %6d KiB %6.1f s\n", unit.File, len(modules), kernels, bytes>>10, time.Since(start).Seconds())
	return modules, nil
}

// toPTX compiles a file and divides it: into family.compute_90.ptx of each.
func toPTX(folder, file, virtual string) (families []string, err error) {
	whole := virtual + ".ptx"
	if _, err := os.Stat(filepath.Join(folder, whole)); err == nil { // for machine code as well
		return nil, nil
	}
	if _, err := output(folder, "nvcc", append(slices.Clone(options), "-arch="+virtual, "-ptx", "-o", whole, file)...); err != nil {
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
func assemble(folder, family string) (module, error) {
	fatbin := family + ".fatbin"
	args := []string{"--create=" + fatbin, "-64", "--compress=false", "--cicc-cmdline=-ftz=0 -prec_div=1 -prec_sqrt=1 -fmad=1 "}
	for _, arch := range architectures {
		_, number, _ := strings.Cut(arch, "_")
		kind, file := "ptx", family+"."+virtual(arch)+".ptx"
		if arch != virtual(arch) {
			kind = "elf"
			cubin := family + "." + arch + ".cubin"
			if _, err := output(folder, "ptxas", "-arch="+arch, "-m64", file, "-o", cubin); err != nil {
				return module{}, err
			}
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
	kernels, err := entries(family, im)
	return module{manifest.Family{Name: family, Size: len(image), Sum: sum(image)}, kernels, image}, err
}
