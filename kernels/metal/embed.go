// Package metalkernels holds the Metal kernels: their source, which is compiled on the
// user's machine when a kernel is first used, and, where `make kernels-metal` was run on
// a Mac before the build, a library of all of them. It knows no device and starts nothing.
//
// A family is a file, append.metal, and what it includes. Most families are compiled for
// one set of types and head dims at a time, which macros name; see [Instance].
package metalkernels

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"

	"github.com/ferrumkv/ferrumkv/kernels"
)

// The library, and the sum of the sources that it was made of, are there or not.
//
//go:embed *.metal* *.h
var files embed.FS

const (
	libraryFile = "ferrumkv.metallib"
	sumFile     = "ferrumkv.metallib.sum"
)

// Library is the compiled library of all kernels; ok is false when this program has none,
// or one of other sources.
func Library() (data []byte, ok bool) {
	sum, err := files.ReadFile(sumFile)
	if err != nil || strings.TrimSpace(string(sum)) != Sum() {
		return nil, false
	}
	data, err = files.ReadFile(libraryFile)
	return data, err == nil
}

// Sum is the SHA-256 of all sources.
func Sum() string {
	h := sha256.New()
	for _, from := range []embed.FS{kernels.Headers, files} {
		for _, name := range sources(from) {
			text, _ := from.ReadFile(name) // it is one of those that are there
			fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// sources are the names of all sources in a folder, sorted.
func sources(from embed.FS) []string {
	var names []string
	for _, pattern := range []string{"*.h", "*.metal"} {
		found, _ := fs.Glob(from, pattern) // the patterns are good
		names = append(names, found...)
	}
	return names
}
