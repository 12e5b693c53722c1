package backend

import (
	"math"
	"math/bits"
)

// Buffer is a piece of one device's memory. Its elements are of one DType.
// A Buffer stays valid until it is freed or its backend is closed. The zero value
// of a buffer type, a nil pointer say, is no buffer: its methods return 0 and Invalid.
type Buffer interface {
	Len() int     // elements
	DType() DType // storage type of an element
	Bytes() int64 // storage of all elements
}

// Opt is an operand that may be absent, so that no nil or zero B is ever passed.
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
	// Sync waits for everything enqueued and returns the first error since the last Sync.
	Sync() error
	// Record marks this point of the stream in e, replacing an earlier mark.
	Record(e Event) error
	// Wait makes work enqueued from here on wait for the last mark recorded in e.
	// It does not block the host.
	Wait(e Event) error
	// Handle is the device's own queue (CUstream, MTLCommandQueue); empty on the CPU.
	Handle() Handle
	// Close waits for the stream's work and gives the stream back. An imported
	// queue stays the caller's.
	Close() error
}

// Event is a point in a stream. An event that was never recorded is done.
type Event interface {
	Done() (bool, error) // whether the mark was reached; never blocks
	Sync() error         // waits until it is
	Close() error
}

// Handle is memory or a queue that exists outside this library.
//
//   - CPU memory: Host, a slice (see HostHandle).
//   - CUDA: Addr, a CUdeviceptr or CUstream.
//   - Metal: Addr, an MTLBuffer or MTLCommandQueue, and Offset, in bytes.
type Handle struct {
	Addr   uintptr
	Offset int64
	Host   []byte
}

// Info describes an open device. The byte counts are of the moment of the call.
type Info struct {
	Name        string // what Open accepts: "cpu", "cuda:0"
	Device      string // the vendor's name of the device
	Kernels     string // inner loops that were chosen for the processor, as "avx512"; empty where there is no choice
	Units       int    // workers, multiprocessors or GPU cores that run at once
	TotalMemory int64  // bytes a process could use; 0 when unknown
	FreeMemory  int64  // bytes of it that Alloc can still give; 0 when unknown
	Allocated   int64  // bytes this Backend holds, imported memory excluded
	Buffers     int    // live buffers of this Backend, imported ones included
	HostVisible bool   // device memory is host memory
}

// Format is a combination of activation type and storage types that Append and
// Attend accept together.
type Format struct{ Act, K, V DType }

// Caps says what a device accepts. The slices must not be modified.
type Caps struct {
	Formats     []Format
	HeadDims    [][2]int // accepted (K dim, V dim); nil: any
	BlockSizes  []int    // accepted block sizes in paged layout; nil: any power of two
	MaxBuffer   int64    // bytes of the largest buffer
	Page        int64    // bytes of which a buffer takes a multiple of the device's memory; 0: no matter
	DeviceTable bool     // ids in device memory are range-checked and reported
	Int8Query   []DType  // storage types of keys for which AttendParams.Int8Query may be set
}

// Supports reports whether the combination is in Formats.
func (c Caps) Supports(f Format) bool {
	for _, have := range c.Formats {
		if have == f {
			return true
		}
	}
	return false
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

// Backend is an open device. Its methods are safe for concurrent use, each
// Stream by one goroutine at a time. An operation that returns an error before
// it was enqueued has changed nothing; errors of the device itself may arrive
// at a later Stream.Sync. Operations check the shapes and types they are given
// against their buffers (ErrShape), never the contents of device memory: a slot
// or block id outside the cache never leads outside its memory; where
// Caps.DeviceTable says so it is reported, elsewhere what the call writes for its
// row is unspecified. Buffers and streams of another device are ErrForeign, freed buffers
// ErrFreed, anything after Close is ErrClosed.
type Backend[B Buffer] interface {
	Info() Info
	Caps() Caps

	// Alloc returns n uninitialised elements. ErrOutOfMemory when the device has
	// no room; ErrShape when n is negative or n elements overflow.
	Alloc(dt DType, n int) (B, error)
	// Free gives a buffer back. Work that was enqueued before may still use it;
	// the device waits as it must. Freeing twice is ErrFreed.
	Free(b B) error
	// Import wraps n elements of memory that the caller owns, without a copy. The
	// memory must stay valid until Free, which forgets it and frees nothing, and
	// until the work that was enqueued before has finished.
	Import(h Handle, dt DType, n int) (B, error)
	// Handle is the memory of b in the device's own terms. The backend keeps
	// ownership; the handle must not be used after Free.
	Handle(b B) (Handle, error)

	NewStream() (Stream, error)
	// ImportStream wraps the caller's queue; an empty Handle is the device's default queue.
	ImportStream(h Handle) (Stream, error)
	NewEvent() (Event, error)

	// Upload copies src into dst from element off on. src may be reused at return.
	Upload(s Stream, dst B, off int, src []byte) error
	// Download copies elements of src, from element off on, into dst. It waits for
	// the stream: dst is filled at return.
	Download(s Stream, dst []byte, src B, off int) error
	// Copy moves n elements between buffers of one DType; overlap is allowed.
	Copy(s Stream, dst B, dstOff int, src B, srcOff, n int) error
	// Fill sets n elements from off on to v, rounded to the storage type. The only
	// value that quantized types take everywhere is 0.
	Fill(s Stream, dst B, off, n int, v float64) error

	// Append writes new keys and values into the cache.
	Append(s Stream, p AppendParams[B]) error
	// PlanAttend splits the attention of one step over the device. It runs on the
	// host, once for all layers of a step.
	PlanAttend(shape AttendShape) (AttendPlan, error)
	// Attend computes softmax(q·K)·V over the cache, decode and prefill alike.
	Attend(s Stream, p AttendParams[B]) error
	// Merge combines attention results over disjoint sets of keys.
	Merge(s Stream, p MergeParams[B]) error
	// Gather materialises one sequence as [heads, length, dim], and its attention mass.
	Gather(s Stream, p GatherParams[B]) error
	// ClearMass sets the attention mass of single slots to 0.
	ClearMass(s Stream, p ClearMassParams[B]) error
	// CopyBlocks copies whole blocks within a cache, or from one to another of the same types.
	CopyBlocks(s Stream, p CopyBlocksParams[B]) error
	// MoveSlots copies single slots within a cache, in the order given.
	MoveSlots(s Stream, p MoveSlotsParams[B]) error
	// ConvertBlocks copies whole blocks between caches of different storage types.
	ConvertBlocks(s Stream, p ConvertBlocksParams[B]) error
	// Rotate turns cached keys by a number of positions (RoPE).
	Rotate(s Stream, p RotateParams[B]) error

	// Close waits for the device's work and frees every buffer. Closing twice is ErrClosed.
	Close() error
}

// Mul multiplies sizes. It is false when a factor is negative or the product
// does not fit an int: sizes are checked before they are multiplied.
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
