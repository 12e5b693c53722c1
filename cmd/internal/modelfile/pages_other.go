//go:build !linux

package modelfile

func largePages([]byte) {}
