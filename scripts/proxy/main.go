// Command proxy adds a module of this repository, as it is at HEAD, to a folder that can be a
// GOPROXY (file://DIR). The zip has what a public proxy would serve, and is as large.
//
//	go run ./scripts/proxy DIR FOLDER VERSION
//
// FOLDER has the module's go.mod; it is below the current folder.
package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
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

// committed is a file of git's archive for package zip of x/mod, which on its own wants a repository that is no worktree.
type committed struct{ *zip.File }

func (f committed) Path() string                { return f.Name }
func (f committed) Lstat() (fs.FileInfo, error) { return f.FileInfo(), nil }

func add(proxy, folder, version string) error {
	folder = filepath.ToSlash(filepath.Clean(folder))
	text, err := exec.Command("git", "show", "HEAD:./"+folder+"/go.mod").Output()
	if err != nil {
		return fmt.Errorf("%s: no go.mod at HEAD", folder)
	}
	path := modfile.ModulePath(text)
	if path == "" {
		return fmt.Errorf("%s/go.mod names no module", folder)
	}
	archive, err := exec.Command("git", "archive", "--format=zip", "HEAD:./"+folder).Output()
	if err != nil {
		return fmt.Errorf("git archive: %w", err)
	}
	listed, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return err
	}
	var files []modzip.File
	for _, f := range listed.File {
		if f.Mode().IsRegular() {
			files = append(files, committed{f})
		}
	}
	dir := filepath.Join(proxy, filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		return err
	}
	err = modzip.Create(out, module.Version{Path: path, Version: version}, files)
	write := func(name string, content []byte) error { return os.WriteFile(filepath.Join(dir, name), content, 0o644) }
	return errors.Join(err, out.Close(), write(version+".mod", text), write("list", []byte(version+"\n")),
		write(version+".info", []byte(`{"Version":"`+version+`","Time":"2026-01-01T00:00:00Z"}`+"\n")))
}
