// Package cudakernels holds the compiled CUDA kernels: fat binaries, one for a family of kernels that are
// loaded together, with code for every architecture of the MANIFEST, which says what is in them. They
// are compressed, those for the same head sizes as one archive. It knows no driver and starts nothing.
//
// The sources beside it are CUDA C++. `make kernels-cuda` compiles them and writes archives and
// MANIFEST; `make kernels-check` compares all three.
package cudakernels

import (
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"

	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

//go:embed MANIFEST *.zst
var files embed.FS

// Load returns the kernels that are embedded. They are the same for all callers. Safe for concurrent use.
var Load = sync.OnceValues(func() (*Set, error) { return Open(files) })

// Set is compiled kernels: a MANIFEST, which must not be modified, and the archives that it lists. It is safe for
// concurrent use.
type Set struct {
	*manifest.Manifest
	archives archives
}

// Open returns the kernels of a folder.
func Open(folder fs.FS) (*Set, error) {
	text, err := fs.ReadFile(folder, "MANIFEST")
	if err != nil {
		return nil, fmt.Errorf("kernels: %w", err)
	}
	m, err := manifest.Parse(string(text))
	if err != nil {
		return nil, err
	}
	return &Set{Manifest: m, archives: archives{files: folder}}, nil
}

// Image returns a family's fat binary, as cuModuleLoadData takes it. It unpacks the family's archive,
// which takes tens of milliseconds and megabytes; other images of it are at hand until the garbage
// collector finds that no image is in use any more. The image may be shared: it must not be modified.
// ErrDamaged where it is not the one that was compiled.
func (s *Set) Image(family string) ([]byte, error) { return s.archives.image(s.Manifest, family) }

// Runs reports whether a device of that compute capability runs machine code of the set, or compiles its PTX. Code of
// an architecture such as sm_90a runs on that one alone.
func (s *Set) Runs(major, minor int) bool {
	for _, a := range s.Architectures {
		kind, number, _ := strings.Cut(a, "_")
		alone := strings.HasSuffix(number, "a")
		n, err := strconv.Atoi(strings.TrimSuffix(number, "a"))
		have := 10*major + minor
		switch {
		case err != nil:
		case alone && n == have, !alone && kind == "sm" && n/10 == major && n <= have, !alone && kind == "compute" && n <= have:
			return true
		}
	}
	return false
}
