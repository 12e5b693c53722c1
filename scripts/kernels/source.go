package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

const header = "../abi.h" // from the folder of the kernels

var (
	included   = regexp.MustCompile(`(?m)^\s*#\s*include\s*"([^"]+)"`)
	abiVersion = regexp.MustCompile(`(?m)^#define FKV_ABI_VERSION (\d+)\s*$`)
)

// source is a file with its text at one moment.
type source struct {
	manifest.Source
	text []byte
}

// units are the .cu files, sorted.
func units(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.cu"))
	if err != nil {
		return nil, err
	}
	for i, f := range files {
		files[i] = filepath.Base(f)
	}
	slices.Sort(files)
	return files, nil
}

// sources are the files that a unit is made of, its .cu, what that includes and what those
// include, with their texts.
func sources(dir, unit string) ([]source, error) {
	var found []source
	queue := []string{unit}
	for len(queue) > 0 {
		file := queue[0]
		queue = queue[1:]
		if slices.ContainsFunc(found, func(s source) bool { return s.Path == file }) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return nil, err
		}
		found = append(found, source{manifest.Source{Path: file, Sum: sum(text)}, text})
		for _, m := range included.FindAllSubmatch(text, -1) {
			next := path.Join(path.Dir(file), string(m[1]))
			// A file that is not there is one of the emulator's, behind FKV_SIMT; nvcc
			// would miss any other.
			if _, err := os.Stat(filepath.Join(dir, next)); err == nil {
				queue = append(queue, next)
			}
		}
	}
	slices.SortFunc(found, func(a, b source) int { return strings.Compare(a.Path, b.Path) })
	return found, nil
}

// paths are the names of sources.
func paths(sources []source) []string {
	p := make([]string, len(sources))
	for i, s := range sources {
		p[i] = s.Path
	}
	return p
}

// headerVersion is the version of the ABI that the sources are written for.
func headerVersion(dir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, header))
	if err != nil {
		return 0, err
	}
	m := abiVersion.FindSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%s: no FKV_ABI_VERSION", header)
	}
	return strconv.Atoi(string(m[1]))
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
