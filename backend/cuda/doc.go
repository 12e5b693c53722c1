// Package cuda is the device of NVIDIA GPUs of compute capability 8.0 and newer.
//
// It needs no CUDA toolkit: the driver library is opened at run time (package driver), and compiled
// kernels are part of the program (kernels/cuda). Without the driver, without cgo, with the tag
// nocuda, or on another system than Linux, the device is listed as not available, with the reason.
//
// # Memory and streams of the runner
//
// A Backend uses the device's primary context, that of the CUDA runtime. Import and Handle exchange
// a CUdeviceptr, ImportStream and Stream.Handle a CUstream; an empty Handle is the legacy default
// stream. No call changes the current context of the runner's threads.
//
// # Synchronisation
//
// On devices with stream-ordered memory pools each Backend has a pool: Alloc does not wait for
// work, and Free waits on the device, not on the host. Uploads and downloads go through page-locked
// memory of the stream, and operations only enqueue.
//
// # Graphs
//
// [backend.Capture] makes a CUDA graph of operations, with a relaxed capture, which restricts no
// other thread or stream. Launches run on the stream of the capture; values that cannot be
// quantized are reported by that stream's Sync.
//
// When a runner captures an imported stream itself, operations become part of its graph, in any
// capture mode: kernels are loaded and page-locked memory is allocated in the relaxed mode of the
// thread. Calls that cannot be in a graph (Upload, Download, events, Sync, a Copy that overlaps
// itself), and Free of any buffer, are ErrCapture until the capture has ended. The library does not
// know which buffers such a graph uses: the runner must keep them as long as the graph.
//
// # Blocks to host memory and back
//
// A set of blocks (backend.NewBlockSet) gathers blocks of all planes in memory of the device, from where one copy takes them to
// the host, and the same back: nothing waits, and what is staged at once is bounded. HostAlloc gives page-locked memory, up to
// FERRUM_CUDA_PINNED_BYTES and as far as the system has some, and other memory then, which is copied twice and waited for;
// Info.Host counts both. Page-locked memory may be used and closed when its device is closed: the context ends with the last of them.
//
// # A lost device
//
// An error that cannot be repaired, such as an illegal address, is returned once as the driver
// reported it. Everything after it is ErrLost, until Close, which releases what can be released.
// Another device can be opened then. The same one can be opened again when nothing else in the
// process uses the broken context and the driver creates a new one, which NVIDIA guarantees for new
// processes only.
//
// # Environment
//
// FERRUM_CUDA_DRIVER is the path of a library to open instead of libcuda.so.1. FERRUM_CUDA_PINNED_BYTES is the most host memory
// that a Backend has page-locked at a time, without which it is a quarter of what the process may use.
package cuda
