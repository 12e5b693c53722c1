// Package backend is the contract between the KV cache and the devices that hold it: typed device
// memory, ordered streams, and the dozen operations that a key-value cache needs, such as writing
// new keys and values, attending over them, and copying, moving, rotating and gathering them.
//
// A device package (backend/cpu, backend/cuda, backend/metal) opens a device as a Backend[B], where
// B is that device's own buffer type, so passing a buffer to another kind of device does not
// compile. A program that chooses its device at run time calls [Open], which returns the same
// device as Backend[AnyBuffer].
//
// # Addressing
//
// There is one addressing model. The keys of a layer are a buffer of shape [blocks, heads, block,
// dim], its values another one, and a token lies at slot block*BlockSize + offset. A contiguous
// cache [heads, cap, dim] is one block of cap slots, so every kernel has one body for both layouts.
//
// # Memory of the runner
//
// A model runner that has its own device memory and queue passes them in with [Backend.Import] and
// [Backend.ImportStream], and gets the library's memory with [Backend.Handle]: queries, keys and
// values need no copy through the host. [Backend.SubBuffer] makes a part of a buffer a buffer.
//
// # Graphs
//
// From one decode step to the next only the contents of buffers change, not what is enqueued.
// [Capture] records it as one launch, on devices that have graphs.
//
// # Errors
//
// Types are matched by errors.As, or by errors.Is with the zero value:
// errors.Is(err, backend.ErrArgument{}). An operation that returns an error before it was
// enqueued has changed nothing; errors of the device itself may arrive at a later Stream.Sync.
//
//   - [ErrArgument]: an operand is too small, of another type, or out of range. The text names
//     the operand and what it needs.
//   - [ErrUnsupported]: this device or configuration cannot do it. Choose another type or
//     size from the device's Caps, or set what the text names.
//   - [ErrUnavailable]: the backend cannot be opened here. The text says why.
//   - [ErrOutOfMemory]: a buffer does not fit the device. It has what would fit, where
//     the device knows.
//   - [ErrNonFinite]: an infinity or NaN was to be quantized. Look for an overflow before it,
//     or set Saturate.
//   - [ErrCapture]: a call that cannot be part of a graph, on a stream that is being captured.
//     The text names the call and when to make it.
//   - [ErrFreed], [ErrOtherDevice], [ErrClosed]: the buffer was freed, the buffer or stream belongs
//     to another device, or the device or stream was closed.
//   - [ErrLost]: the device failed for good. Nothing that was on it is trusted, and only Close
//     is left.
//
// # Writing a backend
//
// Implement Backend, run backendtest.Run over it, and register it with [Register]. No method may
// silently do nothing: what a device cannot do is an [ErrUnsupported].
package backend
