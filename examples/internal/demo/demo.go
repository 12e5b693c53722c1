// Package demo is what the example programs would otherwise repeat. A program of
// yours returns its errors; an example panics, so that its subject stays in sight.
package demo

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
)

// Must returns v, or panics.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Check panics on an error.
func Check(err error) {
	if err != nil {
		panic(err)
	}
}

// Floats is a buffer on the device that holds values, as f32.
func Floats(be *cpu.Backend, s backend.Stream, values ...float32) *cpu.Buffer {
	return Must(backend.AllocFrom(be, s, backend.F32, values))
}

// Zeros is a buffer of n zeros on the device, as f32.
func Zeros(be *cpu.Backend, s backend.Stream, n int) *cpu.Buffer {
	return Floats(be, s, make([]float32, n)...)
}

// Read waits for the stream and returns what a buffer of f32 holds.
func Read(be *cpu.Backend, s backend.Stream, b *cpu.Buffer) []float32 {
	values := make([]float32, b.Len())
	Check(backend.Download(be, s, values, b, 0))
	return values
}
