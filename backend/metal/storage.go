//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"encoding/binary"
	"slices"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// Behind the function constants of abi.h are those that say how keys and values are stored, each as its
// type's number among the quantized ones in storedBits bits (kernels/metal/attend.h). Kernels of
// attention to quantized caches take them in place of abi.AttendArgs' words, so that the compiler leaves out
// what other types need. That is no more pipelines for a model, whose caches have one pair of types.
const (
	storedBits = 4
	constants  = abi.Constants + 2*storedBits
)

// storages is the storage words of the quantized types, as kernels/storage.h lists them.
var storages = func() (words []uint32) {
	for dt := range backend.StorageTypes {
		if dt.Quantized() {
			words = append(words, abi.Storage(dt))
		}
	}
	return words
}()

// storedAs is the bits of the function constants for the storage words of keys and values.
func storedAs(k, v uint32) uint32 {
	number := func(word uint32) uint32 { return uint32(slices.Index(storages, word)) & (1<<storedBits - 1) }
	return number(k)<<abi.Constants | number(v)<<(abi.Constants+storedBits)
}

// stored is those of a call, which has the words among its arguments; 0 for kernels that do not ask.
func stored(c *launch.Call) uint32 {
	if c.Kernel.Out != launch.Quant {
		return 0
	}
	const k, v = unsafe.Offsetof(abi.AttendArgs{}.KStorage), unsafe.Offsetof(abi.AttendArgs{}.VStorage)
	args := c.Args()
	return storedAs(binary.NativeEndian.Uint32(args[k:]), binary.NativeEndian.Uint32(args[v:]))
}

// variantOf is what a kernel of attention is compiled as for a format and the function constants of abi.h.
func variantOf(k launch.Kernel, f backend.Format, has uint32) variant {
	if k.Out == launch.Quant {
		has |= storedAs(abi.Storage(f.K), abi.Storage(f.V))
	}
	return variant{k, has}
}
