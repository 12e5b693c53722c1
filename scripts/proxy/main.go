// Command proxy adds a module of this repository, as it is at HEAD, to a folder that can be a
// GOPROXY (file://DIR). The zip has what a public proxy would serve, but for the root's LICENSE, which
// that adds to a module below the root that has none.
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
	"strings"

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

// committed is a file of git's archive for package zip of x/mod, whose own reader of repositories fails in a worktree.
type committed struct{ *zip.File }

func (f committed) Path() string                { return f.Name }
func (f committed) Lstat() (fs.FileInfo, error) { return f.FileInfo(), nil }

// git is what a command of git prints; its complaint is part of the error.
func git(arguments ...string) ([]byte, error) {
	out, err := exec.Command("git", arguments...).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return nil, fmt.Errorf("git %s: %w: %s", strings.Join(arguments, " "), err, bytes.TrimSpace(failed.Stderr))
	}
	return out, err
}

func add(proxy, folder, version string) error {
	folder = filepath.ToSlash(filepath.Clean(folder))
	text, err := git("show", "HEAD:./"+folder+"/go.mod")
	if err != nil {
		return err
	}
	path := modfile.ModulePath(text)
	if path == "" {
		return fmt.Errorf("%s/go.mod names no module", folder)
	}
	archive, err := git("-c", "core.autocrlf=input", "-c", "core.eol=lf", "archive", "--format=zip", "HEAD:./"+folder)
	if err != nil {
		return err
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
	err = errors.Join(modzip.Create(out, module.Version{Path: path, Version: version}, files), out.Close())
	if err != nil {
		return errors.Join(err, os.Remove(out.Name()))
	}
	write := func(name string, content []byte) error { return os.WriteFile(filepath.Join(dir, name), content, 0o644) }
	return errors.Join(write(version+".mod", text), write("list", []byte(version+"\n")),
		write(version+".info", []byte(`{"Version":"`+version+`","Time":"2026-01-01T00:00:00Z"}`+"\n")))
}
