//go:build linux && cgo && !nocuda

package standin

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"testing/fstest"

	"github.com/klauspost/compress/zstd"

	cudakernels "github.com/ferrumkv/ferrumkv/kernels/cuda"
	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

// Set is the kernels of a folder of kernels/cuda/variants as package variants takes them, without their being compiled for
// a device. Their image is a fat binary without code, in which the stand-in finds what it calls them: NAME@folder.
func (c *Control) Set(folder string) (*cudakernels.Set, error) {
	embedded, err := cudakernels.Load()
	if err != nil {
		return nil, err
	}
	m := &manifest.Manifest{ABI: embedded.ABI, Compiler: "none", Compressor: "zstd", Architectures: []string{"sm_90a"}}
	var code strings.Builder
	for i, registered := range c.Kernels() {
		name, of, _ := strings.Cut(registered, "@")
		if of != folder {
			continue
		}
		threads, shared := c.Launch(i)
		m.Kernels = append(m.Kernels, manifest.Kernel{Symbol: name, Family: "standin", Threads: threads, Shared: shared, Registers: []int{0}})
		code.WriteString(".text." + registered + " ")
	}
	slices.SortFunc(m.Kernels, func(a, b manifest.Kernel) int { return strings.Compare(a.Symbol, b.Symbol) })
	image := fatbin(code.String())
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		return nil, err
	}
	archive := encoder.EncodeAll(image, nil)
	m.Sources = []manifest.Source{{Path: "standin.cu", Sum: sum(nil)}}
	m.Units = []manifest.Unit{{File: "standin.cu", Sources: []string{"standin.cu"}}}
	m.Archives = []manifest.Archive{{Name: "standin", Sum: sum(archive)}}
	m.Families = []manifest.Family{{Name: "standin", File: "standin.cu", Archive: "standin", Size: len(image), Sum: sum(image)}}
	return cudakernels.Open(fstest.MapFS{"MANIFEST": {Data: []byte(m.String())}, "standin.zst": {Data: archive}})
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// fatbin is an image of machine code for 9.0, as kernels/simt/driver/fatbin.cpp reads one.
func fatbin(code string) []byte {
	const header, entry, machineCode, architecture = 16, 32, 2, 90
	code += strings.Repeat(" ", -len(code)&7)
	b := binary.LittleEndian.AppendUint32(nil, 0xba55ed50)
	b = binary.LittleEndian.AppendUint16(b, 1)
	b = binary.LittleEndian.AppendUint16(b, header)
	b = binary.LittleEndian.AppendUint64(b, uint64(entry+len(code)))
	b = binary.LittleEndian.AppendUint16(b, machineCode)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint32(b, entry)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(code)))
	b = append(b, make([]byte, 12)...)
	return append(binary.LittleEndian.AppendUint32(b, architecture), code...)
}
