//go:build noasm || !(amd64 || arm64)

package cpu

// native is none: this build has the kernels in Go only.
func native() []*kernels { return nil }
