//go:build race || asan

// Package race tells tests whether the race detector watches the program, or AddressSanitizer.
// Both allocate where the program does not; the race detector takes from pools what was put
// there, and makes arithmetic ten times slower.
package race

// Enabled is whether one of them watches.
const Enabled = true
