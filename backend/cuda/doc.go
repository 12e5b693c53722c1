// Package cuda is the device of NVIDIA GPUs of compute capability 8.0 and newer.
//
// It needs no toolkit: the driver library is opened at run time (package driver)
// and the kernels, compiled beforehand, are part of the program (kernels/cuda).
// Where the driver is missing, or the program was built without cgo or with the
// tag nocuda, or for another system than Linux, the device is listed as not
// available with the reason.
//
// # What is shared with a model runner
//
// A Backend uses the device's primary context, the one of the CUDA runtime.
// Import and Handle exchange a CUdeviceptr, ImportStream and Stream.Handle a
// CUstream; an empty Handle is the legacy default stream. No call changes which
// context is current for the runner's threads.
//
// # What waits for what
//
// Memory comes from a pool of the Backend where the device has stream-ordered
// pools: Alloc does not wait for work, and Free waits on the device, not on the
// host. Uploads and downloads pass through page-locked memory that each stream
// keeps, and operations only enqueue.
//
// # Graphs
//
// [backend.Capture] makes a CUDA graph of operations. It is a relaxed capture, which forbids
// nothing to other threads and streams. Its launches are on the stream that it was captured
// from; what its kernels cannot quantize is reported by that stream's Sync.
//
// A runner that captures a stream of its own, which it has imported, gets the operations
// into its graph, in any mode: kernels are loaded, and page-locked memory is taken, in the
// relaxed mode of the thread. What cannot be in a graph (Upload, Download, events, Sync, a
// Copy that overlaps itself), and Free of any buffer, is ErrCapture until that capture has
// ended. Which buffers the graph uses nobody here knows: the runner keeps them as long.
//
// # A lost device
//
// An error that no call can repair, such as an illegal address, is returned once
// as the driver reported it. Everything after is ErrLost without asking the driver,
// until Close, which gives back what can be given back. Then another device can be
// opened, and the same one anew as soon as nobody else in the process holds the broken
// context, where the driver makes a new one: NVIDIA promises it to new processes only.
//
// # Environment
//
// FERRUM_CUDA_DRIVER names a library to be opened in place of libcuda.so.1.
package cuda
