//go:build !linux

package bench

import "runtime"

// lastCache is the bytes of the last cache before memory: unknown here.
func lastCache() int { return 0 }

// cacheSizes is the caches of a processor, for people.
func cacheSizes() string { return "unknown" }

// processorKind is what a processor's name leaves out: unknown here.
func processorKind() string { return "unknown" }

// systemName is the operating system.
func systemName() string { return runtime.GOOS }

// freeMemory is the bytes that the system could give: unknown here.
func freeMemory() int { return 0 }
