//go:build !linux

package cuda

const why = "only on Linux"
