//go:build !windows

package parts

func Mount() string { return "/" }
