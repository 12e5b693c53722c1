package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// tools are what compiles variants.
type tools struct {
	compiler, compressor func() (string, error) // names and versions
	compile              func(t target, file string, sources []source) ([]module, error)
	pack                 func(whole, base []byte) ([]byte, error)
}

var installed = tools{compiler, compressor, target.compile, pack}

// variants compiles those of these names, or all, of dir's variants.json, each into a folder of out. A folder is replaced
// as soon as all of its variant is compiled; one that fails stops no other.
func (with tools) variants(dir, out string, names []string, jobs int) error {
	all, err := readVariants(filepath.Join(dir, "variants"))
	if err != nil {
		return err
	}
	chosen, err := choose(all, names)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "variants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	var trials []*trial
	var work []func()
	for _, v := range chosen {
		t := &trial{variant: v}
		trials = append(trials, t)
		t.problem = errors.Join(t.replaceable(out), t.prepare(dir, filepath.Join(tmp, v.Name)))
		t.left.Store(int32(len(t.files)))
		for i := range t.files {
			work = append(work, func() {
				compile := func(file string, sources []source) ([]module, error) {
					return with.compile(t.target(), file, sources)
				}
				t.files[i].make(compile, t.Name+"/"+t.files[i].file)
				if t.left.Add(-1) > 0 {
					return
				}
				if t.problem = problems(t.files); t.problem == nil {
					t.problem = t.publish(out, with.pack)
				}
			})
		}
	}
	if err := failed(trials); err != nil {
		return err
	}
	compiler, err := with.compiler()
	if err != nil {
		return err
	}
	compressor, err := with.compressor()
	if err != nil {
		return err
	}
	for _, t := range trials {
		t.manifest.Compiler, t.manifest.Compressor = compiler, compressor
	}
	each(len(work), jobs, func(i int) { work[i]() })
	return failed(trials)
}

// failed is what is wrong with trials.
func failed(trials []*trial) error {
	var all []error
	for _, t := range trials {
		if t.problem != nil {
			all = append(all, fmt.Errorf("kernels variant %s: %w", t.Name, t.problem))
		}
	}
	return errors.Join(all...)
}
