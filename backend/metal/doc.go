// Package metal is the device of Apple GPUs of family Apple7 (M1) and newer, on macOS 13
// and newer; bf16 needs macOS 14.
//
// The kernels are part of the program as source (kernels/metal), which the system
// compiles when a kernel is first used, or as the library that `make kernels-metal` makes
// of it. Package mtl speaks to the framework. Where a Mac has no such GPU, or the
// program was built without cgo or with the tag nometal, or for another system than
// macOS, the device is listed as not available with the reason.
//
// Open and Buffer exist only where Metal does: programs for several systems use
// backend.Open("metal:0").
//
// # What is shared with a model runner
//
// Import and Handle exchange an MTLBuffer, with an offset in bytes, ImportStream and
// Stream.Handle an MTLCommandQueue: the object's pointer is Handle.Addr. What is imported is
// retained until Free or Close. Its buffers must be tracked by Metal (the default outside of
// heaps), on which the order of the runner's work and ours rests. The memory of all buffers
// is shared with the host, and HostBytes is that memory; an imported buffer that is private
// to the GPU has none.
//
// # What waits for what
//
// The operations of a stream are collected in one command buffer, over the layers of a
// step, which is committed when somebody waits for it or records an event, and before it
// grows long. On a queue that is shared with the runner, because it was imported or
// because its Handle was taken, each operation is committed before the call returns: so
// it lies between the runner's own command buffers where it was called.
//
// Alloc does not wait for work, unless there is too little memory, to get what was freed.
// A freed buffer goes back to the system when the command buffers that use it are done.
// An upload to a stream that has nothing to do is a copy by the host; any other, and each on
// a shared queue, which does not tell what the runner has there, passes through memory that
// the stream keeps.
//
// # Memory
//
// Metal gives more memory than the GPU can work on, and then moves it in and out, or
// computes nonsense. So this package keeps to the working set that the system recommends
// for the device, with everything counted that the process has allocated there, and to
// the largest buffer that the device takes. What is above is ErrMemory, which says how
// much can be had.
//
// # A lost device
//
// A command buffer that failed is reported by the Sync that finds it. What it was to
// write was perhaps not written, so everything after is ErrLost, until Close. The device
// can be opened anew.
package metal
