// Package driver calls the CUDA driver library, which it opens at run time: a
// program needs no toolkit to be built and starts where there is no driver.
//
// The prototypes and constants are its own (types.h, calls.h), under the names
// that the library exports, version suffix included; a test compares them with
// the toolkit's cuda.h where that is installed. Each call makes its context
// current and restores the caller's, so it may come from any thread, and leaves
// the state of a model runner's own threads alone.
//
// Nothing here allocates on the Go heap except what opens or describes something.
package driver
