package backendtest

import (
	"encoding/binary"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// bytesOf is the storage of n elements; n counts what a check made itself and
// never overflows.
func bytesOf(dt backend.DType, n int) int {
	size, ok := dt.Size(n)
	if !ok {
		panic("backendtest: size of " + dt.String())
	}
	return int(size)
}

// poison is n elements that no result may depend on: NaNs, with a payload where there
// is room, or integers that are no index.
func poison(dt backend.DType, n int) []byte {
	out := make([]byte, bytesOf(dt, n))
	for i := 0; i < len(out); {
		switch {
		case dt == backend.F32:
			binary.LittleEndian.PutUint32(out[i:], 0x7fc0dead)
			i += 4
		case dt == backend.F16:
			binary.LittleEndian.PutUint16(out[i:], 0x7ead)
			i += 2
		case dt == backend.BF16:
			binary.LittleEndian.PutUint16(out[i:], 0x7fed)
			i += 2
		case byHead(dt):
			out[i] = 0x7f
			i++
		default:
			out[i] = 0xa5
			i++
		}
	}
	return out
}

// encode rounds values to a float storage type.
func encode(dt backend.DType, values []float32) []byte {
	out := make([]byte, 0, bytesOf(dt, len(values)))
	for _, v := range values {
		switch dt {
		case backend.F32:
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		case backend.F16:
			out = binary.LittleEndian.AppendUint16(out, quant.F16(v))
		case backend.BF16:
			out = binary.LittleEndian.AppendUint16(out, quant.BF16(v))
		default:
			panic("backendtest: encode to " + dt.String())
		}
	}
	return out
}

// decode is the values of elements of a float storage type.
func decode(dt backend.DType, data []byte) []float32 {
	out := make([]float32, 0, len(data)*8/dt.Bits())
	for len(data) > 0 {
		switch dt {
		case backend.F32:
			out = append(out, math.Float32frombits(binary.LittleEndian.Uint32(data)))
			data = data[4:]
		case backend.F16:
			out = append(out, quant.FromF16(binary.LittleEndian.Uint16(data)))
			data = data[2:]
		case backend.BF16:
			out = append(out, quant.FromBF16(binary.LittleEndian.Uint16(data)))
			data = data[2:]
		default:
			panic("backendtest: decode from " + dt.String())
		}
	}
	return out
}

// widen is values in float64, where everything is compared.
func widen(values []float32) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = float64(v)
	}
	return out
}
