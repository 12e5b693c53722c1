// Package backend is the contract between the KV cache and the devices that
// hold it: typed device memory, ordered streams, and the dozen operations that
// a key-value cache needs (write new keys and values, attend over them, copy,
// move, rotate and gather them).
//
// A device package (backend/cpu, and the GPU packages beside it) opens a device
// as a Backend[B], where B is that device's own buffer type: a buffer of one
// kind of device cannot reach another kind at compile time. A program that
// chooses its device at run time calls [Open], which returns the same device
// as Backend[AnyBuffer].
//
// # Addressing
//
// There is one addressing model. A layer's keys are a buffer of shape
// [blocks, heads, block, dim], its values a twin of it, and a token's place is
// its slot: block*BlockSize + offset. A contiguous cache [heads, cap, dim] is
// one block of cap slots, so every kernel has one body for both layouts.
//
// # Memory of the runner
//
// A model runner that has its own device memory and queue hands them in with
// [Backend.Import] and [Backend.ImportStream] and takes ours out with
// [Backend.Handle]: queries, keys and values never cross the host on behalf of
// this library.
//
// # Graphs
//
// What a step enqueues is the same from step to step but for the contents of buffers.
// [Capture] makes one launch of it, on devices that can.
//
// # Writing a backend
//
// Implement Backend, run backendtest.Run over it, and register it with
// [Register]. No method has a default that does nothing: what a device cannot
// do is an [ErrUnsupported].
package backend
