package launch

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

var storages = [...]uint32{
	backend.Int8: abi.Int8, backend.Int8Asym: abi.Int8Asym, backend.FP8E4M3: abi.E4m3, backend.FP8E5M2: abi.E5m2,
	backend.Int4: abi.Int4, backend.Int4G64: abi.Int4G64, backend.Int4Channel: abi.Int4Channel,
}

// storage is a plane's type as kernels of Quant look it up; abi.Plain for the others.
func storage(dt backend.DType) uint32 {
	if !dt.Quantized() {
		return abi.Plain
	}
	return storages[dt]
}

// hadamard is the flag of keys that are stored turned.
func hadamard[B Buffer](p backend.Plane[B]) uint32 {
	if p.Hadamard {
		return abi.Hadamard
	}
	return 0
}
