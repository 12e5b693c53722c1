package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// checkOutput says beforehand why the file that a flag names could not be written.
// No name is no file.
func checkOutput(flag, file string) error {
	if file == "" {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() {
		return fmt.Errorf("--%s %s: there is no directory %s", flag, file, filepath.Dir(file))
	}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return fmt.Errorf("--%s %s: is a directory", flag, file)
	}
	return nil
}

// snapshotMagic is what a snapshot begins with (docs/snapshot.md).
const snapshotMagic = "FKVSNAP1"

// checkSave says beforehand why the file of --save could not be written, and keeps what is no snapshot from being replaced by one. What is
// written takes its place at the end, as a whole. No name is no file.
func checkSave(file string) error {
	if err := checkOutput("save", file); err != nil || file == "" {
		return err
	}
	if info, err := os.Stat(file); err == nil {
		if !info.Mode().IsRegular() {
			return fmt.Errorf("--save %s: only a regular file can be replaced", file)
		}
		begins, err := beginning(file, int64(len(snapshotMagic)))
		if err != nil {
			return fmt.Errorf("--save: %w", err)
		}
		if info.Size() > 0 && string(begins) != snapshotMagic {
			return fmt.Errorf("--save %s: is there and no snapshot; name another file, or remove it", file)
		}
	}
	folder := filepath.Dir(file)
	if target, err := filepath.EvalSymlinks(file); err == nil { // which is what is replaced
		folder = filepath.Dir(target)
	}
	probe, err := os.CreateTemp(folder, ".snapshot-*")
	if err != nil {
		if failed, ok := errors.AsType[*os.PathError](err); ok {
			err = failed.Err
		}
		return fmt.Errorf("--save %s: nothing can be written there: %w", file, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// beginning is the first n bytes of a file, or all if it has fewer.
func beginning(file string, n int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, n))
}
