// Command proxy adds a module of this repository, as it is at HEAD, to a folder that can be a
// GOPROXY (file://DIR). The zip has what a public proxy would serve, and is as large.
//
//	go run ./scripts/proxy DIR FOLDER VERSION
//
// FOLDER has the module's go.mod; it is below the current folder. What it requires of modules that are in DIR already is
// of the version there, as it will be when both are released.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: go run ./scripts/proxy DIR FOLDER VERSION")
		os.Exit(2)
	}
	if err := add(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
		os.Exit(1)
	}
}

func add(proxy, folder, version string) error {
	root, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return fmt.Errorf("git rev-parse: %w", err)
	}
	folder = filepath.ToSlash(filepath.Clean(folder))
	text, err := exec.Command("git", "show", "HEAD:./"+folder+"/go.mod").Output()
	if err != nil {
		return fmt.Errorf("%s: no go.mod at HEAD", folder)
	}
	mod, err := modfile.Parse(folder+"/go.mod", text, nil)
	if err != nil {
		return err
	}
	for _, r := range mod.Require {
		if there, err := os.ReadFile(filepath.Join(proxy, r.Mod.Path, "@v", "list")); err == nil {
			if err := mod.AddRequire(r.Mod.Path, strings.TrimSpace(string(there))); err != nil {
				return err
			}
		}
	}
	if text, err = mod.Format(); err != nil {
		return err
	}
	path := mod.Module.Mod.Path
	dir := filepath.Join(proxy, filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	archive, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		return err
	}
	if folder == "." {
		folder = ""
	}
	err = zip.CreateFromVCS(archive, module.Version{Path: path, Version: version}, strings.TrimSpace(string(root)), "HEAD", folder)
	write := func(name string, content []byte) error { return os.WriteFile(filepath.Join(dir, name), content, 0o644) }
	return errors.Join(err, archive.Close(), write(version+".mod", text), write("list", []byte(version+"\n")),
		write(version+".info", []byte(`{"Version":"`+version+`","Time":"2026-01-01T00:00:00Z"}`+"\n")))
}
