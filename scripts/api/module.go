package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// moduleOf is the folder and the path of the module that a folder lies in.
func moduleOf(dir string) (root, path string, err error) {
	out, err := command(dir, "list", "-m", "-f", "{{.Dir}}\n{{.Path}}")
	root, path, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
	return root, strings.TrimSpace(path), err
}

func command(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stderr, cmd.Env = dir, os.Stderr, append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", args[0], err)
	}
	return out, nil
}

// public is the packages of a module that other modules can import and that are meant for it.
func public(root, module string) (pkgs []string, err error) {
	err = filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(name, "go.mod")); rel != "." && err == nil || rel != "." && private(rel, d.Name()) {
			return filepath.SkipDir
		}
		if found, _ := filepath.Glob(filepath.Join(name, "*.go")); len(found) > 0 {
			pkgs = append(pkgs, path.Join(module, filepath.ToSlash(rel)))
		}
		return nil
	})
	return pkgs, err
}

func private(rel, name string) bool {
	return slices.Contains([]string{"cmd", "examples", "scripts", "kernels", "docs", "build", "bin"}, rel) ||
		name == "internal" || name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}
