package backend

import "unsafe"

// Number is a host type whose slices can be copied to and from device memory. uint16 holds f16 and
// bf16; int8 and uint8 hold the one-byte types and the packed 4-bit ones.
type Number interface {
	~float32 | ~uint16 | ~int8 | ~uint8 | ~uint32 | ~int32 | ~int64
}

// BytesOf returns the memory of s as bytes, without a copy.
func BytesOf[T Number](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(zero)))
}

// HostHandle is a Handle of a host slice, for Import on a CPU.
func HostHandle[T Number](s []T) Handle { return Handle{Host: BytesOf(s)} }

const noBackend = "the backend is nil; open one with Open"

// Upload copies a host slice into dst from element off on.
func Upload[B Buffer, T Number](be Backend[B], s Stream, dst B, off int, src []T) error {
	if be == nil {
		return ErrArgument{Op: "upload", What: noBackend}
	}
	return be.Upload(s, dst, off, BytesOf(src))
}

// Download copies elements of src, from element off on, into a host slice.
func Download[B Buffer, T Number](be Backend[B], s Stream, dst []T, src B, off int) error {
	if be == nil {
		return ErrArgument{Op: "download", What: noBackend}
	}
	return be.Download(s, BytesOf(dst), src, off)
}

// AllocFrom allocates a buffer with the contents of a host slice.
func AllocFrom[B Buffer, T Number](be Backend[B], s Stream, dt DType, src []T) (B, error) {
	var zero B
	if be == nil {
		return zero, ErrArgument{Op: "alloc from", What: noBackend}
	}
	data := BytesOf(src)
	n := len(data)
	if bits := dt.Bits(); bits > 0 {
		n = int(int64(len(data)) * 8 / int64(bits))
	}
	b, err := be.Alloc(dt, n)
	if err != nil {
		return b, err
	}
	if err := be.Upload(s, b, 0, data); err != nil {
		_ = be.Free(b)
		return zero, err
	}
	return b, nil
}
