// Package interop shows a runner that keeps its activations in memory of its own:
// the library works on them without a copy.
package interop
