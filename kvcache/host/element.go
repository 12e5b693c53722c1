package host

import "unsafe"

// Element is what rows consist of. The caches of this package copy elements and never compute with them, so that the 16 bits of
// an f16 or a bf16 are as good as a float32.
type Element interface {
	~float32 | ~float64 | ~uint16
}

// elementBytes is the size of an element.
func elementBytes[T Element]() int {
	var zero T
	return int(unsafe.Sizeof(zero))
}
