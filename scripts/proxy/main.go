// Command proxy adds a module of this repository, as it is at HEAD, to a folder that can be a
// GOPROXY (file://DIR). The zip has what a public proxy would serve, and is as large.
//
//	go run ./scripts/proxy DIR FOLDER VERSION
//
// FOLDER has the module's go.mod; it is below the current folder.
package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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

type file struct {
	name    string
	content []byte
}

var moduleLine = regexp.MustCompile(`(?m)^module (\S+)$`)

func add(proxy, folder, version string) error {
	files, err := committed(folder)
	if err != nil {
		return err
	}
	root := slices.IndexFunc(files, func(f file) bool { return f.name == "go.mod" })
	if root < 0 {
		return fmt.Errorf("%s: no go.mod at HEAD", folder)
	}
	mod := files[root].content
	line := moduleLine.FindSubmatch(mod)
	if line == nil {
		return fmt.Errorf("%s: go.mod names no module", folder)
	}
	module := string(line[1])
	archive, err := zipped(own(files), module+"@"+version+"/")
	if err != nil {
		return err
	}
	dir := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	write := func(name string, content []byte) error { return os.WriteFile(filepath.Join(dir, name), content, 0o644) }
	return errors.Join(
		write(version+".zip", archive), write(version+".mod", mod), write("list", []byte(version+"\n")),
		write(version+".info", []byte(`{"Version":"`+version+`","Time":"2026-01-01T00:00:00Z"}`+"\n")))
}

// committed is the files of a folder at HEAD, with the line ends that they have there.
func committed(folder string) (files []file, err error) {
	var complaint bytes.Buffer
	cmd := exec.Command("git", "-c", "core.autocrlf=input", "-c", "core.eol=lf", "archive", "--format=tar", "HEAD:./"+folder)
	cmd.Stderr = &complaint
	archive, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git archive: %w: %s", err, complaint.Bytes())
	}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg { // what a module cannot have, and folders, which are no entries of its zip
			continue
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		files = append(files, file{h.Name, content})
	}
}

// own is the files without those of other modules: of folders with a go.mod of their own.
func own(files []file) []file {
	var others []string
	for _, f := range files {
		if dir, name := path.Split(f.name); name == "go.mod" && dir != "" {
			others = append(others, dir)
		}
	}
	return slices.DeleteFunc(files, func(f file) bool {
		return slices.ContainsFunc(others, func(dir string) bool { return strings.HasPrefix(f.name, dir) })
	})
}

func zipped(files []file, prefix string) ([]byte, error) {
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for _, f := range files {
		entry, err := w.Create(prefix + f.name)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return archive.Bytes(), err
}
