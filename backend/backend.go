package backend

import (
	"math"
	"math/bits"
	"slices"
)

// Buffer is a piece of one device's memory. All its elements are of one DType. A Buffer is valid
// until it is freed or its backend is closed. The zero value of a buffer type, for instance a nil
// pointer, is no buffer: its methods return 0 and Invalid.
type Buffer interface {
	Len() int     // elements
	DType() DType // storage type of an element
	Bytes() int64 // storage of all elements
}

// Opt is an optional operand: the zero value is absent. No nil or zero B is ever passed.
type Opt[B Buffer] struct {
	Buf B
	Set bool
}

// Some returns an operand that is present.
func Some[B Buffer](b B) Opt[B] { return Opt[B]{Buf: b, Set: true} }

// Stream is an ordered queue of work. Operations only enqueue; each starts after
// the ones enqueued before it on the same stream. A Stream may be used by one
// goroutine at a time.
type Stream interface {
	// Sync waits for all enqueued work and returns the first error since the last Sync.
	Sync() error
	// Record sets e to this point of the stream, replacing an earlier mark.
	Record(e Event) error
	// Wait makes work that is enqueued later wait for the last mark recorded in e. It does not
	// block the host.
	Wait(e Event) error
	// Handle is the device's own queue (CUstream, MTLCommandQueue); empty on the CPU.
	Handle() Handle
	// Close waits for the stream's work and releases the stream. The queue of an imported stream
	// stays open: the caller owns it.
	Close() error
}

// Event is a mark in a stream. An event that was never recorded is done.
type Event interface {
	Done() (bool, error) // reports whether the device has reached the mark; never blocks
	Sync() error         // waits until it has
	Close() error
}

// Handle is memory or a queue that exists outside this library.
//
//   - CPU memory: Host, a slice (see HostHandle).
//   - CUDA: Addr, a CUdeviceptr or CUstream.
//   - Metal: Addr, an MTLBuffer or MTLCommandQueue, and Offset, in bytes. Untracked: Metal does not track the
//     buffer's hazards, and the caller orders his uses and the library's with events, as Import says.
type Handle struct {
	Addr      uintptr
	Offset    int64
	Host      []byte
	Untracked bool
}

// Info describes an open device. Byte counts are those at the time of the call.
type Info struct {
	Name         string // what Open accepts: "cpu", "cuda:0"
	Device       string // the vendor's name of the device
	Kernels      string // CPU only: the kernels in use, such as "avx512"
	ComputeUnits int    // worker threads, multiprocessors or GPU cores
	TotalMemory  int64  // bytes that a process can use; 0: unknown
	FreeMemory   int64  // bytes that Alloc can still return; 0: unknown
	Allocated    int64  // bytes this Backend holds, imported memory excluded
	Buffers      int    // live buffers of this Backend, imported ones included
	HostVisible  bool   // device memory is host memory

	Host HostUse // what HostAlloc has given
}

// Format is a combination of activation type and storage types that Append and
// Attend accept together.
type Format struct{ Act, K, V DType }

// Caps lists what a device accepts. The slices must not be modified.
type Caps struct {
	Formats          []Format
	HeadDims         [][2]int // accepted pairs of key and value head dims; nil: any
	Latent           bool     // latent caches are accepted (CacheView.Latent)
	LatentDims       [][2]int // accepted pairs of key and value head dims of those; nil: any
	BlockSizes       []int    // accepted block sizes in paged layout; nil: any power of two, or see AnyBlockSize
	AnyBlockSize     bool     // in paged layout blocks need not be of a power of two tokens
	MaxBuffer        int64    // bytes of the largest buffer
	AllocGranularity int64    // bytes: a buffer takes a multiple of this of device memory; 0: any size
	ChecksIDs        bool     // slots, block ids and lengths in device memory are range-checked (ErrArgument)
	Int8Query        []DType  // storage types of keys for which AttendParams.Int8Query may be set
	Chunk            bool     // Mask.Chunk
	Views            bool     // Ragged.Views, and Mask.Window with NonCausal
	TreeWords        int      // Ragged.TreeWords at most; 0: no Ragged.Tree
}

// Supports reports whether f is one of c.Formats.
func (c Caps) Supports(f Format) bool {
	for _, have := range c.Formats {
		if have == f {
			return true
		}
	}
	return false
}

// SupportsBlockSize reports whether blocks of n tokens are accepted in paged layout.
func (c Caps) SupportsBlockSize(n int) bool {
	for _, have := range c.BlockSizes {
		if have == n {
			return true
		}
	}
	return c.BlockSizes == nil && n > 0 && (c.AnyBlockSize || n&(n-1) == 0)
}

// SupportsDims reports whether heads of kDim keys and vDim values are accepted.
func (c Caps) SupportsDims(kDim, vDim int) bool {
	for _, d := range c.HeadDims {
		if d == [2]int{kDim, vDim} {
			return true
		}
	}
	return c.HeadDims == nil && kDim > 0 && vDim > 0
}

// SupportsLatent reports whether latent caches of kDim keys, of which the first vDim are values, are accepted.
func (c Caps) SupportsLatent(kDim, vDim int) bool {
	return c.Latent && 0 < vDim && vDim <= kDim && (c.LatentDims == nil || slices.Contains(c.LatentDims, [2]int{kDim, vDim}))
}

// Backend is an open device. Its methods are safe for concurrent use; each Stream may be used by
// one goroutine at a time.
//
// An operation that returns an error was not enqueued and has changed nothing. Errors of the device
// itself may be returned by a later Stream.Sync. Operations check the shapes and types of their
// operands (ErrArgument). A buffer or stream of another device is ErrOtherDevice, a freed buffer ErrFreed,
// and any call after Close ErrClosed.
//
// A slot or block id outside of the cache never leads to access outside of its memory. Devices with
// Caps.ChecksIDs report it as ErrArgument; on others the output of the row that it belongs to is
// unspecified.
type Backend[B Buffer] interface {
	Info() Info
	Caps() Caps

	// Alloc returns n uninitialised elements. ErrOutOfMemory when the device does not have enough
	// free memory; ErrArgument when n is negative or the size overflows.
	Alloc(dt DType, n int) (B, error)
	// Free releases a buffer. Work that was enqueued before may still use it: its memory is
	// released after that work. Freeing twice is ErrFreed.
	Free(b B) error
	// Import makes a buffer of n elements of memory that the caller owns, without a copy. The
	// memory must stay valid until Free and until all work that was enqueued before Free has
	// finished. Free does not release the memory itself.
	Import(h Handle, dt DType, n int) (B, error)
	// SubBuffer returns n elements of dt in the memory of b, from byte offset on, as a buffer. It
	// takes no device memory. Free of the sub-buffer leaves the memory of b as it is; Free of b
	// also frees all its sub-buffers. b may be imported, or a sub-buffer. ErrArgument when the
	// elements do not lie in b or offset is not a multiple of the element size.
	SubBuffer(b B, offset int64, dt DType, n int) (B, error)
	// Handle is the memory of b as the device's API knows it. The backend keeps ownership; the
	// handle must not be used after Free.
	Handle(b B) (Handle, error)

	NewStream() (Stream, error)
	// ImportStream wraps the caller's queue; an empty Handle is the device's default queue.
	ImportStream(h Handle) (Stream, error)
	NewEvent() (Event, error)

	// Upload copies src into dst from element off on. The caller may reuse src when Upload returns.
	Upload(s Stream, dst B, off int, src []byte) error
	// Download copies elements of src, from element off on, into dst. It waits for the stream: dst
	// is complete when Download returns.
	Download(s Stream, dst []byte, src B, off int) error
	// Copy copies n elements between buffers of one DType. The ranges may overlap.
	Copy(s Stream, dst B, dstOff int, src B, srcOff, n int) error
	// Fill sets n elements from off on to v, rounded to the storage type. Buffers of quantized
	// types accept only 0 on every device.
	Fill(s Stream, dst B, off, n int, v float64) error

	// Append writes new keys and values into the cache.
	Append(s Stream, p AppendParams[B]) error
	// PlanAttend splits the attention of one step over the device. It runs on the
	// host, once for all layers of a step.
	PlanAttend(shape AttendShape) (AttendPlan, error)
	// Attend computes softmax(q·K)·V over the cache, decode and prefill alike.
	Attend(s Stream, p AttendParams[B]) error
	// AttendScores adds to the attention scores of keys, relative to given log-sum-exps, for
	// instance those of Merge.
	AttendScores(s Stream, p AttendScoresParams[B]) error
	// Merge combines attention results over disjoint sets of keys.
	Merge(s Stream, p MergeParams[B]) error
	// Gather copies one sequence to dense memory [heads, length, dim], and its attention scores.
	Gather(s Stream, p GatherParams[B]) error
	// ClearScores sets the attention scores of single slots to 0.
	ClearScores(s Stream, p ClearScoresParams[B]) error
	// CopyBlocks copies whole blocks within a cache, or between caches of the same types.
	CopyBlocks(s Stream, p CopyBlocksParams[B]) error
	// MoveSlots copies single slots within a cache, in the given order.
	MoveSlots(s Stream, p MoveSlotsParams[B]) error
	// ConvertBlocks copies whole blocks between caches of different storage types.
	ConvertBlocks(s Stream, p ConvertBlocksParams[B]) error
	// Rotate moves cached keys to other positions by rotating them (RoPE).
	Rotate(s Stream, p RotateParams[B]) error

	// Close waits for the device's work and frees every buffer. Closing twice is ErrClosed.
	Close() error
}

// Mul returns the product of sizes. It is false when a factor is negative or the product does not
// fit an int.
func Mul(factors ...int) (int, bool) {
	n := 1
	for _, f := range factors {
		if f < 0 {
			return 0, false
		}
		high, low := bits.Mul(uint(n), uint(f))
		if high != 0 || low > math.MaxInt {
			return 0, false
		}
		n = int(low)
	}
	return n, true
}
