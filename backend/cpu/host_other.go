//go:build !linux && !darwin && !windows

package cpu

// physicalMemory is the bytes of the machine's memory: unknown here.
func physicalMemory() int64 { return 0 }

// processorName is the vendor's name of the processor: unknown here.
func processorName() string { return "" }
