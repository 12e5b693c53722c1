//go:build !linux

package cpu

import "testing"

// guarded is n elements, all 0.
func guarded[T float32 | float64 | uint32 | uint16 | byte](_ testing.TB, n int) []T {
	return make([]T, n)
}

// guard is a copy of x.
func guard[T float32 | float64 | uint32 | uint16 | byte](_ testing.TB, x []T) []T {
	return append([]T{}, x...)
}
