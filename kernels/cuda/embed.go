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
	"sync"

	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

//go:embed MANIFEST *.zst
var files embed.FS

// Load returns what the MANIFEST says. It is parsed at the first call, and the same
// for all callers: it must not be modified. Safe for concurrent use.
var Load = sync.OnceValues(func() (*manifest.Manifest, error) {
	text, err := files.ReadFile("MANIFEST")
	if err != nil {
		return nil, fmt.Errorf("kernels: %w", err)
	}
	return manifest.Parse(string(text))
})

var embedded = archives{files: files}

// Image returns a family's fat binary, as cuModuleLoadData takes it. It unpacks the family's archive,
// which takes tens of milliseconds and megabytes; other images of it are at hand until the garbage
// collector finds that no image is in use any more. The image may be shared: it must not be modified.
// ErrDamaged where it is not the one that was compiled. Safe for concurrent use.
func Image(family string) ([]byte, error) {
	m, err := Load()
	if err != nil {
		return nil, err
	}
	return embedded.image(m, family)
}
