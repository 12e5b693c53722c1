package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	modeldata "github.com/ferrumkv/ferrumkv/testdata/model"
)

// files writes the files of a model with their sizes and SHA-256. Of a folder these are all in JSON and safetensors, of which a model is read.
func (p *proof) files(ctx context.Context, model modelFlags) error {
	folder, names, err := model.files()
	for _, name := range names {
		if err == nil {
			err = p.file(ctx, folder, name)
		}
	}
	return err
}

func (p *proof) file(ctx context.Context, folder fs.FS, name string) error {
	f, err := folder.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, until{ctx, f})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p.line("file", "%s, %d bytes, SHA-256 %x", name, n, h.Sum(nil))
	return nil
}

// until reads as long as nobody interrupts that.
type until struct {
	ctx context.Context
	io.Reader
}

func (u until) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.Reader.Read(p)
}

var firstPart = regexp.MustCompile(`-00001-of-(\d{5}\.gguf)$`)

// files are a model's by name: all parts of one that is split.
func (f modelFlags) files() (folder fs.FS, names []string, err error) {
	if f.model == "" {
		return modeldata.Files, []string{"config.json", "model.safetensors"}, nil
	}
	info, err := os.Stat(f.model)
	if err != nil {
		return nil, nil, err
	}
	dir, patterns := filepath.Dir(f.model), []string{firstPart.ReplaceAllString(filepath.Base(f.model), "-?????-of-$1")}
	if info.IsDir() {
		dir, patterns = f.model, []string{"*.json", "*.safetensors"}
	}
	folder = os.DirFS(dir)
	for _, pattern := range patterns {
		found, err := fs.Glob(folder, pattern)
		if err != nil || len(found) == 0 && !info.IsDir() { // a name that is no pattern
			found = []string{filepath.Base(f.model)}
		}
		names = append(names, found...)
	}
	return folder, names, nil
}

// system is the operating system's name for people, where a file says it.
func system() string {
	f, err := os.Open("/etc/os-release")
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "PRETTY_NAME="); ok {
			return strings.Trim(name, `"`)
		}
	}
	return ""
}
