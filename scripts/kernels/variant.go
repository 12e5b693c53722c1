package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	experiments "github.com/ferrumkv/ferrumkv/internal/pack"
)

// variant is an entry of variants.json: sources that are not chosen yet, as a difference from kernels/cuda, and how they
// are compiled. It has machine code of one architecture and no PTX.
type variant struct {
	// For the program that compares variants on a device: name, what, shapes, conform and predict_us. Its folder there is
	// variants/name.
	experiments.Variant

	Sources      string   `json:"sources"`      // folder beside variants.json; its files join those of kernels/cuda or replace them; "" for none
	Patch        string   `json:"patch"`        // beside variants.json: a unified diff of what the sources make, a/attend.cuh; "" for none
	Units        []string `json:"units"`        // the .cu files that are compiled of the result
	Defines      []string `json:"defines"`      // macros: FKV_WIDE_BOXES=false
	Architecture string   `json:"architecture"` // sm_90 or sm_90a
}

const variantsFile = "variants.json"

var (
	variantName  = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)
	variantUnit  = regexp.MustCompile(`^\w[\w-]*\.cu$`)
	variantMacro = regexp.MustCompile(`^[A-Za-z_]\w*(=[^\s]*)?$`) // a MANIFEST divides options at spaces
)

// readVariants reads variants.json of a folder. The error names what is wrong in all entries.
func readVariants(dir string) ([]variant, error) {
	path := filepath.Join(dir, variantsFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("kernels variant: %w; run it in the repository's root, or say -dir", err)
	}
	var file struct {
		Variants []variant `json:"variants"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return nil, fmt.Errorf("%s: %w; the fields are those of variant in scripts/kernels/variant.go and of Variant in internal/pack", path, err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fmt.Errorf("%s: more follows the object; write one, {\"variants\": [...]}", path)
	}
	var problems []error
	for i := range file.Variants {
		v := &file.Variants[i]
		if v.Folder != "" {
			problems = append(problems, fmt.Errorf("%s: variant %q: folder is that of its images in a pack; write \"sources\" for its files", path, v.Name))
		}
		v.Folder = "variants/" + v.Name
		if slices.ContainsFunc(file.Variants[:i], func(w variant) bool { return w.Name == v.Name }) {
			problems = append(problems, fmt.Errorf("%s: two variants are called %q; rename one", path, v.Name))
		}
		for _, problem := range v.problems(dir) {
			problems = append(problems, fmt.Errorf("%s: variant %q: %w", path, v.Name, problem))
		}
	}
	return file.Variants, errors.Join(problems...)
}

// problems are what is wrong with an entry of dir's variants.json, as far as it can be seen without its sources.
func (v variant) problems(dir string) (problems []error) {
	report := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if !variantName.MatchString(v.Name) {
		report("write the name of a-z, 0-9 and -, such as wide-copy")
	} else if err := v.Check(); err != nil {
		report("%w", err)
	}
	if v.What == "" {
		report("what is empty; say what it tries")
	}
	if v.Architecture != "sm_90" && v.Architecture != "sm_90a" {
		report("architecture is %q; write sm_90, or sm_90a where it has instructions of 9.0a", v.Architecture)
	}
	if len(v.Units) == 0 {
		report("units is empty; name the .cu files to compile")
	}
	for i, u := range v.Units {
		if !variantUnit.MatchString(u) {
			report("unit %q is no name of a .cu file; write it without folders", u)
		} else if slices.Contains(v.Units[:i], u) {
			report("unit %s is there twice; remove one", u)
		}
	}
	for _, d := range v.Defines {
		if !variantMacro.MatchString(d) {
			report("define %q is no macro; write NAME or NAME=value, without spaces and -D", d)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, v.Sources)); v.Sources != "" && (filepath.Base(v.Sources) != v.Sources || err != nil || !info.IsDir()) {
		report("no folder %q beside %s; make it, or leave sources out", v.Sources, variantsFile)
	}
	if info, err := os.Stat(filepath.Join(dir, v.Patch)); v.Patch != "" && (filepath.Base(v.Patch) != v.Patch || err != nil || info.IsDir()) {
		report("no patch %q beside %s; put it there, or leave patch out", v.Patch, variantsFile)
	}
	return problems
}

// target is what it is compiled for: a variant without problems.
func (v variant) target() target {
	t := target{options: slices.Clone(embedded.options), architectures: []string{v.Architecture}}
	for _, d := range v.Defines {
		t.options = append(t.options, "-D"+d)
	}
	return t
}

// choose returns the variants of those names, in the order of the list; all where there are no names.
func choose(all []variant, names []string) (chosen []variant, err error) {
	var known []string
	for _, v := range all {
		known = append(known, v.Name)
		if len(names) == 0 || slices.Contains(names, v.Name) {
			chosen = append(chosen, v)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("kernels variant: no variant %q in %s; it has %s", name, variantsFile, strings.Join(known, ", "))
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("kernels variant: %s has no variants", variantsFile)
	}
	return chosen, nil
}
