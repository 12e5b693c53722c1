package store

import (
	"math/bits"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Vector is a host slice, which its user fills, and its copy on the device, which only grows.
type Vector[B backend.Buffer, T backend.Number] struct {
	Host []T
	Buf  backend.Opt[B]
}

// Fit makes room for n elements on the device.
func (v *Vector[B, T]) Fit(be backend.Backend[B], n int) error {
	if v.Buf.Set && v.Buf.Buf.Len() >= n {
		return nil
	}
	grown, err := be.Alloc(v.dtype(), 1<<bits.Len(uint(max(n, 64)-1)))
	if err != nil {
		return err
	}
	v.Free(be)
	v.Buf = backend.Some(grown)
	return nil
}

// Upload brings the host slice to the device.
func (v *Vector[B, T]) Upload(be backend.Backend[B], s backend.Stream) error {
	if err := v.Fit(be, len(v.Host)); err != nil {
		return err
	}
	return backend.Upload(be, s, v.Buf.Buf, 0, v.Host)
}

// Free ends the vector's life. It writes nothing: when a pool is closed under its
// users they may be reading v.
func (v *Vector[B, T]) Free(be backend.Backend[B]) {
	if v.Buf.Set {
		_ = be.Free(v.Buf.Buf) // ours and live
	}
}

func (v *Vector[B, T]) bytes() []byte           { return backend.BytesOf(v.Host) }
func (v *Vector[B, T]) device() *backend.Opt[B] { return &v.Buf }

// dtype is the type of the elements on the device.
func (v *Vector[B, T]) dtype() backend.DType {
	var zero T
	switch any(zero).(type) {
	case int64:
		return backend.I64
	case int32:
		return backend.I32
	case float32:
		return backend.F32
	}
	return backend.U32
}

func (v *Vector[B, T]) move(mem []byte) {
	var zero T
	to := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/int(unsafe.Sizeof(zero)))
	v.Host = to[:copy(to, v.Host)]
}
