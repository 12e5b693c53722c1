//go:build linux && cgo && !nocuda

package standin

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing/fstest"

	"github.com/klauspost/compress/zstd"

	cudakernels "github.com/ferrumkv/ferrumkv/kernels/cuda"
	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

// Set is the kernels of a folder of kernels/cuda/variants as package variants takes them, without their being compiled for
// a device. The stand-in calls them NAME@folder.
func (c *Control) Set(folder string) (*cudakernels.Set, error) {
	as := map[string]string{}
	for _, registered := range c.Kernels() {
		if name, of, _ := strings.Cut(registered, "@"); of == folder {
			as[name] = registered
		}
	}
	files, err := c.Files(as)
	if err != nil {
		return nil, err
	}
	return cudakernels.Open(files)
}

// Files are the folder of a set of kernels, by symbol, and which kernel of the stand-in runs as each. Their image is a fat
// binary without code, in which the stand-in finds these names.
func (c *Control) Files(as map[string]string) (fstest.MapFS, error) {
	embedded, err := cudakernels.Load()
	if err != nil {
		return nil, err
	}
	m := &manifest.Manifest{ABI: embedded.ABI, Compiler: "none", Compressor: "zstd", Architectures: []string{"sm_90a"}}
	var code strings.Builder
	have := c.Kernels()
	for _, symbol := range slices.Sorted(maps.Keys(as)) {
		i := slices.Index(have, as[symbol])
		if i < 0 {
			return nil, fmt.Errorf("standin: no kernel %s", as[symbol])
		}
		threads, shared := c.Launch(i)
		m.Kernels = append(m.Kernels, manifest.Kernel{Symbol: symbol, Family: "standin", Threads: threads, Shared: shared, Registers: []int{0}})
		code.WriteString(".text." + symbol + "=" + as[symbol] + " ")
	}
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
	return fstest.MapFS{"MANIFEST": {Data: []byte(m.String())}, "standin.zst": {Data: archive}}, nil
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
