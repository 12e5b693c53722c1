//go:build !linux && !darwin && !windows

package cpu

// processorName is the vendor's name of the processor: unknown here.
func processorName() string { return "" }
