// Package interop shows a runner that keeps its activations in its own memory:
// the library works on them without a copy.
package interop
