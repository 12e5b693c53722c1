package runner

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
)

// Options says how to run a model.
type Options struct {
	// Cache is the layout, storage types and size of the cache. The model's fields (layers, heads, dims, RoPE, activation type,
	// digest) are filled in by New. Capacity is at most the model's context, and that where it would become more.
	Cache kvcache.Config
	// LayerPools gives each layer a pool of its own, so that layers may keep different numbers of tokens: see Work.
	LayerPools bool
	// Lasting lets the pool save sequences, and load those that another process saved. As tiers that outlive the process do, it
	// takes a digest of the weights, for which all of them are read.
	Lasting bool
	// Chunk is the most prompt tokens of one step; 0: 256.
	Chunk int
	// Guesses is the most tokens that a sequence's step guesses: see Generate.
	Guesses int
	// Threads is how many goroutines share a matrix product; 0: GOMAXPROCS.
	Threads int
}

// Runner runs a model with its keys and values on a device. It is used by one goroutine at a time.
type Runner[B backend.Buffer] struct {
	be      backend.Backend[B]
	model   *Model
	pools   []*kvcache.Pool[B]  // one, or one for each layer
	steps   []*kvcache.Batch[B] // of the pools
	stream  backend.Stream
	owned   []func() error // frees all of it, in order
	rows    int            // tokens of the largest step
	guesses int            // of a sequence in a step
	threads int
	large   bool // the weights do not stay in a processor's cache from step to step

	q, k, v, out port[B]   // [rows, heads*HeadDim], of a layer
	x, h         []float32 // [rows, Dim]
	positions    []int     // [rows], of the step's tokens
	temporaries  map[string][]float32
}

// New makes a runner of m on be. Both stay the caller's and must outlive it.
// Errors are those of kvcache.NewPool and of the device.
func New[B backend.Buffer](be backend.Backend[B], m *Model, opt Options) (_ *Runner[B], err error) {
	defer caught(&err)
	defer faulted(m.path, &err)()
	cfg, err := m.Complete(opt.Cache, func(layer int) []float32 { return m.Layers[layer].Sinks })
	check(err)
	if m.Digest != nil && (opt.Lasting || cfg.Tiers.Disk.Dir != "" || cfg.Tiers.More != nil || os.Getenv(config.EnvDiskDir) != "") {
		cfg.Model.Digest = m.Digest()
	}
	demand(!opt.LayerPools || cfg.Model.Groups == nil, "runner", "layer pools: the layers of this model are not alike")
	m.takesGuesses(opt, be.Caps().TreeWords)
	r := &Runner[B]{be: be, model: m, threads: cmp.Or(opt.Threads, runtime.GOMAXPROCS(0)), guesses: opt.Guesses, large: m.Size > cacheSize,
		temporaries: map[string][]float32{}}
	if err := r.allocate(cfg, opt); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// demand checks what a caller has to change otherwise.
func demand(ok bool, op, format string, a ...any) {
	if !ok {
		check(backend.ErrArgument{Package: "runner", Op: op, What: fmt.Sprintf(format, a...)})
	}
}

func (r *Runner[B]) allocate(cfg kvcache.Config, opt Options) (err error) {
	defer caught(&err)
	m, pools := r.model, 1
	if opt.LayerPools {
		pools, cfg.Model.Layers = cfg.Model.Layers, 1
	}
	for range pools {
		pool, err := kvcache.NewPool(r.be, cfg)
		check(err)
		step := pool.NewBatch()
		r.pools, r.steps, r.owned = append(r.pools, pool), append(r.steps, step), append(r.owned, step.Close, pool.Close)
	}
	r.rows = max(cmp.Or(opt.Chunk, 256), r.Pool().Config().Memory.MaxSeqs*(1+r.guesses)) // every sequence can decode in one step
	b := &m.Block                                                                        // layers differ in what they see, not in their sizes
	q, out := b.Heads*b.HeadDim, max(b.Heads*b.valueDim(), b.Heads*b.Latent.Value, b.Delta.ValueHeads*b.Delta.ValueDim)
	widest := max(m.Dim, m.Hidden, 2*b.Experts.Hidden, b.Experts.Shared, b.Delta.channels(), q, out)
	demand(r.rows <= (1<<30)/widest, "runner", "chunk: %d tokens of %d elements are too many", r.rows, widest)
	r.x, r.h, r.positions = make([]float32, r.rows*m.Dim), make([]float32, r.rows*m.Dim), make([]int, r.rows)
	r.stream, err = r.be.NewStream()
	check(err)
	r.owned = append(r.owned, r.stream.Close)
	r.q, r.k, r.v, r.out = r.port(q), r.port(b.KVHeads*b.keyDim()), r.port(b.KVHeads*b.valueDim()), r.port(out)
	return nil
}

// Pools are the caches of the layers, with Options.LayerPools, else one of all. The runner keeps ownership.
func (r *Runner[B]) Pools() []*kvcache.Pool[B] { return r.pools }

// Stream is the queue of the runner's steps.
func (r *Runner[B]) Stream() backend.Stream { return r.stream }

// Batch is the runner's own, for a scheduler that plans its steps: see Step.
func (r *Runner[B]) Batch() *kvcache.Batch[B] { return r.steps[0] }

// Pool is the cache, for opening, forking and measuring sequences. The runner keeps ownership.
func (r *Runner[B]) Pool() *kvcache.Pool[B] { return r.pools[0] }

// Close frees the cache and the runner's buffers. Its sequences become unusable.
func (r *Runner[B]) Close() error {
	var errs []error
	for _, free := range r.owned {
		errs = append(errs, free())
	}
	return errors.Join(errs...)
}

// floats is a temporary of n elements, with anything in them until it is asked for again.
func (r *Runner[B]) floats(temporary string, n int) []float32 {
	r.temporaries[temporary] = slices.Grow(r.temporaries[temporary][:0], n)[:n]
	return r.temporaries[temporary]
}

// port is activations that host and device exchange. Where device
// memory is host memory, host is the buffer itself and nothing is copied.
type port[B backend.Buffer] struct {
	buf    B
	host   []float32
	shared bool
}

func (r *Runner[B]) port(width int) port[B] {
	buf, err := r.be.Alloc(backend.F32, r.rows*width)
	check(err)
	r.owned = append(r.owned, func() error { return r.be.Free(buf) })
	access, shared := backend.HostAccessOf(r.be)
	if !shared {
		return port[B]{buf: buf, host: make([]float32, r.rows*width)}
	}
	bytes, err := access.HostBytes(buf)
	check(err)
	host := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(bytes))), len(bytes)/4)
	return port[B]{buf: buf, host: host, shared: true}
}

// send makes the first n elements visible to the device. Its earlier reads of them
// are done: receive has waited for the layer before.
func (r *Runner[B]) send(p *port[B], n int) {
	if !p.shared {
		check(backend.Upload(r.be, r.stream, p.buf, 0, p.host[:n]))
	}
}

// receive waits for the device and makes the first n elements visible to the host.
func (r *Runner[B]) receive(p *port[B], n int) {
	if p.shared {
		check(r.stream.Sync())
	} else {
		check(backend.Download(r.be, r.stream, p.host[:n], p.buf, 0))
	}
}

// failure is what check panics with, in the functions below those that defer caught, which go on with nothing but what is right.
type failure struct{ error }

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// accept checks a setting of the caller's.
func accept(ok bool, name string, value any, why string, a ...any) {
	if !ok {
		check(kvcache.ErrConfig{Name: name, Value: fmt.Sprint(value), Why: fmt.Sprintf(why, a...)})
	}
}

// caught makes the failure of a check the error that its caller returns.
func caught(err *error) {
	switch failed := recover().(type) {
	case nil:
	case failure:
		*err = failed.error
	default:
		panic(failed)
	}
}
