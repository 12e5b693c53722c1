//go:build noasm || !(amd64 || arm64)

package product

func native() []*kernel { return nil }
