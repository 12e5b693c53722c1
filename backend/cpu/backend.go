package cpu

import (
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
	"github.com/ferrumkv/ferrumkv/internal/hostmemory"
)

// maxThreads bounds Options.Threads: a mistyped number must not start millions.
const maxThreads = 4096

// Options of a CPU device. The zero value uses the whole machine.
type Options struct {
	Threads  int   // goroutines that compute, the caller's included; 0: GOMAXPROCS
	MaxBytes int64 // memory that Alloc may give, in bytes; 0: the machine's memory
	// Kernels names the kernels to use, for comparisons: avx512, avx2, neon or go. Empty: those
	// that FERRUM_CPU_KERNELS names, or the fastest that the processor supports. ErrUnsupported
	// when the processor or the build (tag noasm) does not have them.
	Kernels string
	// Reproducible makes the bits of a query's output and log-sum-exp, with the same Kernels, a function
	// of the query, the mask, and the keys and values that it sees, as they are stored and with their places in the sequence:
	// not of Threads, of layout and block size, of what else is in a step, or of how a prompt is divided
	// into steps. A place may be less by a multiple of 2048 tokens that are not in the table, as in
	// a pool whose windows give memory back; keys behind sink tokens stay at 2048 or more then.
	// Queries in a tree are excepted: their drafts lie where the tree has them. Attention scores, which are
	// sums over queries, are too. Prompts take longer, because they are not computed as matrix products.
	// Common prefixes are read once only when backend.AttendShape.MinShared asks for it; the bits
	// then depend on the other sequences as well.
	Reproducible bool
}

// Backend is an open CPU device. It is safe for concurrent use.
type Backend struct {
	pool     *pool
	kernels  *kernels
	fixed    bool // Options.Reproducible
	caps     backend.Caps
	model    string
	maxBytes int64
	known    check.Known[*Buffer]
	verdicts verdicts

	// mu orders Free and Close after the operations that run: those hold it for reading.
	mu        sync.RWMutex
	live      bool                 // opened, and not closed since
	buffers   map[*Buffer]struct{} // live ones
	allocated int64
}

var (
	_ backend.Backend[*Buffer]    = (*Backend)(nil)
	_ backend.HostAccess[*Buffer] = (*Backend)(nil)
)

// Open opens a CPU device. Devices are independent: each has its own workers and memory budget, and
// buffers of one are ErrOtherDevice on another. Negative options, or more than 4096 threads, are
// ErrArgument. The caller closes it.
func Open(o Options) (*Backend, error) {
	if o.Threads < 0 || o.Threads > maxThreads || o.MaxBytes < 0 {
		return nil, backend.ErrArgument{Op: "open", What: fmt.Sprintf("threads %d, bytes %d: need 0 to %d, and not negative", o.Threads, o.MaxBytes, maxThreads)}
	}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = hostmemory.Physical()
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = math.MaxInt64
	}
	k, err := kernelsOf(o.Kernels)
	if err != nil {
		return nil, err
	}
	return &Backend{
		pool:    newPool(o.Threads),
		kernels: k,
		fixed:   o.Reproducible,
		caps: backend.Caps{Formats: formats(), MaxBuffer: min(o.MaxBytes, math.MaxInt), ChecksIDs: true, Int8Query: int8Query(),
			AnyBlockSize: true, Chunk: true, Views: true, TreeWords: plan.TreeWords, Latent: true},
		model:    modelName(),
		maxBytes: o.MaxBytes,
		live:     true,
		buffers:  map[*Buffer]struct{}{},
	}, nil
}

// formats is every combination of an activation type and two storage types, the usual
// ones, with keys and values alike, first. Values are not stored by channel.
func formats() []backend.Format {
	var alike, mixed []backend.Format
	for act := range types {
		for k := range types {
			for v := range types {
				f := backend.Format{Act: backend.DType(act), K: backend.DType(k), V: backend.DType(v)}
				switch {
				case !f.Act.Float() || decodeGo[k] == nil || f.V.Coding().Values != f.V || decodeGo[v] == nil:
				case k == v:
					alike = append(alike, f)
				default:
					mixed = append(mixed, f)
				}
			}
		}
	}
	return append(alike, mixed...)
}

// int8Query is the types whose products with rounded queries have a kernel.
func int8Query() (out []backend.DType) {
	for dt, kernel := range portable.scoreInt8 {
		if kernel != nil {
			out = append(out, backend.DType(dt))
		}
	}
	return out
}

// modelName is the processor, by its architecture where its name is unknown.
func modelName() string {
	if name := processorName(); name != "" {
		return name
	}
	return runtime.GOARCH
}

// Info describes the device. Its memory is Options.MaxBytes.
func (be *Backend) Info() backend.Info {
	if be.pool == nil { // the zero Backend
		return backend.Info{}
	}
	be.mu.RLock()
	defer be.mu.RUnlock()
	info := backend.Info{Name: "cpu", Device: be.model, Kernels: be.kernels.name, ComputeUnits: be.pool.threads, HostVisible: true,
		Allocated: be.allocated, Buffers: len(be.buffers)}
	if be.maxBytes < math.MaxInt64 {
		info.TotalMemory, info.FreeMemory = be.maxBytes, be.maxBytes-be.allocated
	}
	return info
}

// Caps lists what the device accepts: activations of f32, f16 and bf16 with all combinations of
// storage types (except values in types for keys only), any head dim, latent caches of any dims, any
// block size, and all masks.
func (be *Backend) Caps() backend.Caps { return be.caps }

// Close waits for running operations, frees every buffer and ends the workers. Closing twice is
// ErrClosed.
func (be *Backend) Close() error {
	be.mu.Lock()
	defer be.mu.Unlock()
	if !be.live {
		return fmt.Errorf("cpu: close: device %w", backend.ErrClosed)
	}
	be.live = false
	be.pool.close()
	var first error
	for b := range be.buffers {
		if err := be.release(b); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// begin starts an operation on s: until end, no buffer is freed and the device
// stays open.
func (be *Backend) begin(op string, s backend.Stream) (checked, error) {
	be.mu.RLock()
	ops := checked{Owner: owner{be}, Op: op}
	err := be.open(op)
	if err == nil {
		err = be.onStream(op, s)
	}
	if err != nil {
		be.mu.RUnlock()
	}
	return ops, err
}

func (be *Backend) end() { be.mu.RUnlock() }

// open reports whether the device is; the caller holds mu.
func (be *Backend) open(op string) error {
	if !be.live {
		return fmt.Errorf("cpu: %s: device %w", op, backend.ErrClosed)
	}
	return nil
}
