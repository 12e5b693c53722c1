// Package cudakernels holds the compiled CUDA kernels: one fat binary a family
// (append.cu becomes append.fatbin) with code for every architecture of the MANIFEST,
// and the MANIFEST, which says what is in them. It knows no driver and starts nothing.
//
// The sources beside it are CUDA C++. `make kernels-cuda` compiles them and writes
// both; `make kernels-check` compares all three.
package cudakernels

import (
	"embed"
	"fmt"
	"sync"

	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

//go:embed MANIFEST *.fatbin
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

// Image returns a family's fat binary, as cuModuleLoadData takes it: a copy, which
// the caller may drop once the module is loaded.
func Image(family string) ([]byte, error) {
	image, err := files.ReadFile(family + ".fatbin")
	if err != nil {
		return nil, fmt.Errorf("kernels: no family %q: %w", family, err)
	}
	return image, nil
}
