package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// overlay makes the sources of a variant in tmp and returns their folder: a copy of dir, kernels/cuda, with the headers
// above it; then the variant's files; then its patch.
func overlay(dir, tmp string, v variant) (string, error) {
	folder := filepath.Join(tmp, "cuda")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	for to, pattern := range map[string]string{tmp: filepath.Join(dir, "../*.h"), folder: filepath.Join(dir, "*.cu*")} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		for _, file := range files {
			if err := copyFile(to, file); err != nil {
				return "", err
			}
		}
	}
	beside := filepath.Join(dir, "variants")
	if v.Sources != "" {
		files, err := os.ReadDir(filepath.Join(beside, v.Sources))
		if err != nil {
			return "", err
		}
		for _, f := range files {
			if f.IsDir() {
				return "", fmt.Errorf("%s has a folder, %s; put its files beside the others", v.Sources, f.Name())
			}
			if err := copyFile(folder, filepath.Join(beside, v.Sources, f.Name())); err != nil {
				return "", err
			}
		}
	}
	if v.Patch != "" {
		if err := applyPatch(folder, filepath.Join(beside, v.Patch)); err != nil {
			return "", err
		}
	}
	for _, unit := range v.Units {
		if _, err := os.Stat(filepath.Join(folder, unit)); err != nil {
			return "", fmt.Errorf("no unit %s in its sources, its patch and %s; correct units in %s", unit, dir, variantsFile)
		}
	}
	return folder, nil
}

func copyFile(to, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, filepath.Base(file)), text, 0o644)
}

// applyPatch applies a unified diff to the files of a folder: all of it or nothing, at exactly its lines.
func applyPatch(folder, patch string) error {
	path, err := filepath.Abs(patch)
	if err != nil {
		return err
	}
	cmd := exec.Command("git", "apply", "-p1", "--whitespace=nowarn", path)
	cmd.Dir = folder
	// In a repository git leaves out files that are not the repository's: it is to see none.
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "GIT_") }), "GIT_CEILING_DIRECTORIES="+filepath.Dir(folder))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s does not apply: %w; make it again from what kernels/cuda and its sources have now\n%s", patch, err, out)
	}
	return nil
}
