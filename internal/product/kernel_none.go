//go:build noasm || !amd64

package product

func native() []*kernel { return nil }
