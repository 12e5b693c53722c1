package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

// bases are the archives that others of attention are compressed against: code of like sizes is alike. Those that are not here use root.
var bases = map[string]string{"attend_96_96": "attend_80_80", "attend_112_112": "attend_80_80", "attend_192_192": "attend_192_128"}

const root = "attend_128_128"

// archiveOf is the archive that a family is in. A model has one pair of head sizes: it unpacks the
// attention of those, and what is not attention.
func archiveOf(family string) manifest.Archive {
	m := attention.FindStringSubmatch("fkv_" + family)
	if m == nil {
		return manifest.Archive{Name: "other"}
	}
	a := manifest.Archive{Name: "attend_" + m[2] + "_" + m[3]}
	if a.Name != root {
		a.Base = cmp.Or(bases[a.Name], root)
	}
	return a
}

// archives are those of the families, sorted.
func archives(families []manifest.Family) (list []manifest.Archive) {
	for _, f := range families {
		if a := archiveOf(f.Name); !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	for i, a := range list {
		if !slices.ContainsFunc(list, func(b manifest.Archive) bool { return b.Name == a.Base }) { // it did not compile
			list[i].Base = ""
		}
	}
	slices.SortFunc(list, func(a, b manifest.Archive) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// archiveFile is where an archive lies.
func archiveFile(dir, name string) string { return filepath.Join(dir, name+".zst") }

// content is what an archive is of: the images of its families.
func content(m *manifest.Manifest, name string, images map[string][]byte) []byte {
	var whole []byte
	for _, f := range m.Families {
		if f.Archive == name {
			whole = append(whole, images[f.Name]...)
		}
	}
	return whole
}

var zstdVersion = regexp.MustCompile(`v(\d+\.\d+\.\d+)`)

// compressor is the name and version of the program that packs: Go's packs a fifth larger.
func compressor() (string, error) {
	out, err := output("", "zstd", "--version")
	if err != nil {
		return "", err
	}
	m := zstdVersion.FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("zstd --version names no version: %s", out)
	}
	return "zstd " + string(m[1]), nil
}

// pack compresses images as one, by matches in themselves and in base, however far back: they
// are alike. The same version of the compressor makes the same of the same.
func pack(whole, base []byte) ([]byte, error) {
	tmp, err := os.MkdirTemp("", "kernels")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	args := []string{"-q", "--single-thread", "--ultra", "-22", "--long=27", "images", "-o", "images.zst"}
	if base != nil {
		args = append([]string{"--patch-from=base"}, args...)
		if err := os.WriteFile(filepath.Join(tmp, "base"), base, 0o644); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(tmp, "images"), whole, 0o644); err != nil {
		return nil, err
	}
	if _, err := output(tmp, "zstd", args...); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(tmp, "images.zst"))
}

// unpack returns the images of an archive by their families; an error if it is not the one that the
// MANIFEST lists.
func unpack(dir string, m *manifest.Manifest, a manifest.Archive) (map[string][]byte, error) {
	if file, err := os.ReadFile(archiveFile(dir, a.Name)); err != nil {
		return nil, err
	} else if sum(file) != a.Sum {
		return nil, fmt.Errorf("%s.zst is not the one that the MANIFEST lists", a.Name)
	}
	whole, err := decompress(dir, m, a)
	if err != nil {
		return nil, fmt.Errorf("%s.zst: %w", a.Name, err)
	}
	images := map[string][]byte{}
	for _, f := range m.Families {
		if f.Archive != a.Name {
			continue
		}
		if f.Size > len(whole) || sum(whole[:f.Size]) != f.Sum {
			return nil, fmt.Errorf("%s.zst: %s is not the one that the MANIFEST lists", a.Name, f.Name)
		}
		images[f.Name], whole = whole[:f.Size:f.Size], whole[f.Size:]
	}
	if len(whole) > 0 {
		return nil, fmt.Errorf("%s.zst: %d bytes are not in the MANIFEST", a.Name, len(whole))
	}
	return images, nil
}

func decompress(dir string, m *manifest.Manifest, a manifest.Archive) ([]byte, error) {
	options := []zstd.DOption{zstd.WithDecoderConcurrency(1)}
	if i := slices.IndexFunc(m.Archives, func(b manifest.Archive) bool { return b.Name == a.Base }); i >= 0 {
		base, err := decompress(dir, m, m.Archives[i])
		if err != nil {
			return nil, err
		}
		options = append(options, zstd.WithDecoderDictRaw(0, base))
	}
	compressed, err := os.ReadFile(archiveFile(dir, a.Name))
	if err != nil {
		return nil, err
	}
	decoder, err := zstd.NewReader(nil, options...)
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	return decoder.DecodeAll(compressed, nil)
}
