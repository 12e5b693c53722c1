package cudakernels

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"sync"
	"unsafe"
	"weak"

	"github.com/klauspost/compress/zstd"

	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

// ErrDamaged is an archive of kernels that is not the one that was compiled.
type ErrDamaged struct {
	File string // "attend_128_128.zst"
	Err  error
}

func (e ErrDamaged) Error() string {
	return fmt.Sprintf("kernels/cuda/%s, which this program was built with, is damaged: %v; build it again, after go clean -modcache where it came as a module, "+
		"git checkout kernels/cuda or make kernels-cuda in a checkout", e.File, e.Err)
}

func (e ErrDamaged) Unwrap() error { return e.Err }

// archives unpacks images. It keeps none alive: a program that has loaded its kernels needs them no more.
type archives struct {
	files fs.FS

	mu       sync.Mutex // one is unpacked at a time: others mostly want the same
	unpacked map[string]weak.Pointer[byte]
}

// image returns a family's image.
func (a *archives) image(m *manifest.Manifest, family string) ([]byte, error) {
	f, at, ok := m.Family(family)
	if !ok {
		return nil, fmt.Errorf("kernels: no family %q in the MANIFEST", family)
	}
	a.mu.Lock()
	whole, err := a.open(m, f.Archive)
	a.mu.Unlock()
	if err != nil {
		return nil, err
	}
	image := whole[at : at+f.Size : at+f.Size]
	if sum := sha256.Sum256(image); hex.EncodeToString(sum[:]) != f.Sum {
		return nil, ErrDamaged{f.Archive + ".zst", fmt.Errorf("%s has another sum than in the MANIFEST", family)}
	}
	return image, nil
}

// open returns the content of an archive. The caller holds mu.
func (a *archives) open(m *manifest.Manifest, name string) ([]byte, error) {
	size := m.Bytes(name)
	if first := a.unpacked[name].Value(); first != nil {
		return unsafe.Slice(first, size), nil
	}
	options := []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true)}
	if archive, _ := m.Archive(name); archive.Base != "" {
		base, err := a.open(m, archive.Base)
		if err != nil {
			return nil, err
		}
		options = append(options, zstd.WithDecoderDictRaw(0, base))
	}
	whole, err := a.decompress(name, size, options)
	if err != nil {
		return nil, ErrDamaged{name + ".zst", err}
	}
	if a.unpacked == nil {
		a.unpacked = map[string]weak.Pointer[byte]{}
	}
	a.unpacked[name] = weak.Make(&whole[0])
	return whole, nil
}

func (a *archives) decompress(name string, size int, options []zstd.DOption) ([]byte, error) {
	compressed, err := fs.ReadFile(a.files, name+".zst")
	if err != nil {
		return nil, err
	}
	decoder, err := zstd.NewReader(nil, options...)
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	whole, err := decoder.DecodeAll(compressed, make([]byte, 0, size))
	if err == nil && len(whole) != size {
		err = fmt.Errorf("it holds %d bytes, want %d", len(whole), size)
	}
	return whole, err
}
