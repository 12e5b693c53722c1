package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

// trial is a variant at work.
type trial struct {
	variant
	manifest *manifest.Manifest
	files    []compiled
	left     atomic.Int32 // of the files, to compile
	problem  error
}

// prepare reads the sources, of the variant's copy of dir in tmp.
func (t *trial) prepare(dir, tmp string) error {
	folder, err := overlay(dir, tmp, t.variant)
	if err != nil {
		return err
	}
	to := t.target()
	t.manifest = &manifest.Manifest{Options: to.options, Architectures: to.architectures}
	if t.manifest.ABI, err = headerVersion(folder); err != nil {
		return err
	}
	for _, unit := range t.Units {
		found, err := sources(folder, unit)
		if err != nil {
			return err
		}
		t.files = append(t.files, compiled{file: unit, sources: found})
	}
	return nil
}

// replaceable refuses a folder of out that is not a variant's: -o may name any.
func (t *trial) replaceable(out string) error {
	folder := filepath.Join(out, t.Name)
	files, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(files) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	for _, made := range []string{"MANIFEST", filepath.Base(archiveFile(folder, t.Name))} {
		if !slices.ContainsFunc(files, func(f os.DirEntry) bool { return f.Name() == made }) {
			return fmt.Errorf("%s has files and no %s, so it is not replaced; name another folder, -o build/variants, or remove it", folder, made)
		}
	}
	return nil
}

// publish writes what was compiled as a folder of out, with one archive, and prints what its kernels take.
func (t *trial) publish(out string, pack func(whole, base []byte) ([]byte, error)) error {
	m := t.manifest
	images := list(m, t.files)
	if len(m.Families) == 0 {
		return fmt.Errorf("its units have no kernel; correct units in %s", variantsFile)
	}
	for i := range m.Families {
		m.Families[i].Archive = t.Name
	}
	if err := t.serialized(); err != nil {
		return err
	}
	archive, err := pack(content(m, t.Name, images), nil)
	if err != nil {
		return err
	}
	m.Archives = []manifest.Archive{{Name: t.Name, Sum: sum(archive)}}
	if _, err := manifest.Parse(m.String()); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(out, ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	folder, made, former := filepath.Join(out, t.Name), filepath.Join(tmp, "made"), filepath.Join(tmp, "former")
	err = errors.Join(os.Mkdir(made, 0o755), os.WriteFile(archiveFile(made, t.Name), archive, 0o644),
		os.WriteFile(filepath.Join(made, "MANIFEST"), []byte(m.String()), 0o644))
	if err != nil {
		return err
	}
	if err := os.Rename(folder, former); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Rename(made, folder); err != nil {
		os.Rename(former, folder) // what was there, if anything
		return err
	}
	fmt.Printf("%s: %d kernels, %d KiB\n%s", folder, len(m.Kernels), len(archive)>>10, t.report())
	return nil
}

// serialized refuses products of warpgroups that the assembler makes wait for each other (C7510): remarks are not read on the device.
func (t *trial) serialized() error {
	for _, f := range t.files {
		for _, m := range f.modules {
			for line := range bytes.Lines(m.remarks) {
				if bytes.Contains(line, []byte("C7510")) {
					return fmt.Errorf("%s: %s; keep the products' registers untouched from the fence to the wait", f.file, bytes.TrimSpace(line))
				}
			}
		}
	}
	return nil
}

// report is a line for each kernel and each remark of the assembler.
func (t *trial) report() string {
	var b strings.Builder
	for _, f := range t.files {
		for _, m := range f.modules {
			kernels := m.code[t.Architecture]
			for _, symbol := range slices.Sorted(maps.Keys(kernels)) {
				k := kernels[symbol]
				fmt.Fprintf(&b, "  %s: %d registers, %d HGMMA, %d HMMA", symbol, k.registers, k.hgmma, k.hmma)
				if k.stack > 0 || k.usage.local > 0 || k.accesses > 0 {
					fmt.Fprintf(&b, "; SPILLS: %d bytes of stack, %d of local memory, %d accesses to it", k.stack, k.usage.local, k.accesses)
				}
				b.WriteByte('\n')
			}
			for line := range bytes.Lines(m.remarks) {
				if line = bytes.TrimSpace(line); len(line) > 0 {
					fmt.Fprintf(&b, "  %s\n", line)
				}
			}
		}
	}
	return b.String()
}
