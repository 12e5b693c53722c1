// Package metal is the device of Apple GPUs of family Apple7 (M1) and newer, on macOS 13 and newer;
// bf16 needs macOS 14.
//
// The kernels are part of the program as source (kernels/metal), which the system compiles when a
// kernel is first used, or as a library compiled by `make kernels-metal`. Package mtl calls the
// framework. On a Mac without such a GPU, without cgo, with the tag nometal, or on another system
// than macOS, the device is listed as not available, with the reason.
//
// Open and Buffer exist only in builds with Metal: programs for several systems use
// backend.Open("metal:0").
//
// # Memory and queues of the runner
//
// Import and Handle exchange an MTLBuffer and an offset in bytes, ImportStream and Stream.Handle an
// MTLCommandQueue: Handle.Addr is the object's pointer. Imported objects are retained until Free or
// Close. Metal orders the uses of imported buffers that it tracks (the default outside of heaps);
// for the others see Import. The memory of all buffers is shared with the host, and HostBytes returns
// it, except for imported buffers that are private to the GPU.
//
// # Synchronisation
//
// The operations of a stream are collected in one command buffer, over the layers of a step. It is
// committed when the program waits for it or records an event, and when it has some 64 launches or,
// by a careful estimate, 30 ms of work: the system ends those that keep the GPU for too long. The
// attention of a long prompt is more than one launch and command buffer. On a
// queue that is shared with the runner, because it was imported or its Handle was requested, each
// operation is committed before the call returns, so it is in order with the runner's own command
// buffers, as far as they use the same tracked buffers.
//
// Alloc does not wait for work, unless there is too little memory and freed buffers are still in
// use. The system gets a freed buffer back when the command buffers that use it are done. An upload
// to an idle stream is a copy by the host. Any other upload, and each one on a shared queue, goes
// through memory that the stream keeps.
//
// # Memory
//
// Metal allocates more memory than the GPU can work on, and then swaps it, or results are wrong. So
// this package keeps to the working set that the system recommends for the device, counting all
// that the process has allocated there, and to the device's largest buffer size. Beyond that Alloc
// is ErrOutOfMemory, which says how much is left.
//
// # A lost device
//
// A command buffer that failed is reported by the next Sync, with Metal's code and what it means
// (docs/metal.md). Its results may be missing, so every later call is ErrLost, until Close. The
// device can then be opened again.
//
// After code 4, access revoked, it cannot: the system ignores all work of a process that has caused too
// many errors, for as long as the process runs. Such an error is ErrUnavailable as well as
// ErrLost, and Open and backend.List then say ErrUnavailable for each Metal device of
// the process. Only a new process can use it.
package metal
