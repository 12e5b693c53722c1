package runner

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// Options says how to run a model.
type Options struct {
	// Cache is the layout, storage types and size of the cache. The model's fields (layers, heads, dims, RoPE, activation type,
	// digest) are filled in by New. Capacity is at most the model's context, and that where it would become more.
	Cache kvcache.Config
	// LayerPools gives each layer a pool of its own, so that layers may keep different numbers of tokens: see Work.
	LayerPools bool
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
	pool    *kvcache.Pool[B]    // pools[0]
	pools   []*kvcache.Pool[B]  // one, or one for each layer
	steps   []*kvcache.Batch[B] // of the pools
	stream  backend.Stream
	rows    int // tokens of the largest step
	guesses int // of a sequence in a step
	threads int
	large   bool // the weights do not stay in a processor's cache from step to step

	q, k, v, out *port[B]  // [rows, heads*HeadDim], of a layer
	x, h         []float32 // [rows, Dim]
	logits       []float32 // [tokens asked for, Vocab], grows
	positions    []int     // [rows], of the step's tokens
	counts       []int     // tokens of each of the step's sequences
	tmp          [temporaries][]float32
}

// New makes a runner of m on be. Both stay the caller's and must outlive it.
// Errors are those of kvcache.NewPool and of the device.
func New[B backend.Buffer](be backend.Backend[B], m *Model, opt Options) (*Runner[B], error) {
	cfg, err := m.Complete(opt.Cache, func(layer int) []float32 { return m.Layers[layer].Sinks })
	if err != nil {
		return nil, err
	}
	cfg.Model.Digest = m.Digest
	if opt.LayerPools && !m.alike() {
		return nil, backend.ErrArgument{Package: "runner", Op: "runner", What: "layer pools: the layers of this model are not alike"}
	}
	if err := m.takesGuesses(opt, be.Caps().TreeWords); err != nil {
		return nil, err
	}
	r := &Runner[B]{be: be, model: m, threads: opt.Threads, guesses: opt.Guesses, large: m.Size > cacheSize}
	n := 1
	if opt.LayerPools {
		n, cfg.Model.Layers = cfg.Model.Layers, 1
	}
	for range n {
		pool, err := kvcache.NewPool(be, cfg)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.pools = append(r.pools, pool)
	}
	r.pool = r.pools[0]
	if err := r.allocate(opt); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Runner[B]) allocate(opt Options) error {
	m := r.model
	if r.threads <= 0 {
		r.threads = runtime.GOMAXPROCS(0)
	}
	chunk := opt.Chunk
	if chunk <= 0 {
		chunk = 256
	}
	r.rows = max(chunk, r.pool.Config().Memory.MaxSeqs*(1+r.guesses)) // every sequence can decode in one step
	var q, k, v, out int
	for l := range m.Layers {
		b := m.block(l)
		q, k, v = max(q, b.Heads*b.HeadDim), max(k, b.KVHeads*b.keyDim()), max(v, b.KVHeads*b.valueDim())
		out = max(out, b.Heads*b.valueDim(), b.Heads*b.Latent.Value, b.Delta.ValueHeads*b.Delta.ValueDim)
	}
	if widest := max(m.Dim, m.Hidden, q, out); r.rows > (1<<30)/widest {
		return backend.ErrArgument{Package: "runner", Op: "runner", What: fmt.Sprintf("chunk: %d tokens of %d elements are too many", r.rows, widest)}
	}
	var errs [5]error
	r.q, errs[0] = newPort(r.be, r.rows*q)
	r.k, errs[1] = newPort(r.be, r.rows*k)
	r.v, errs[2] = newPort(r.be, r.rows*v)
	r.out, errs[3] = newPort(r.be, r.rows*out)
	r.stream, errs[4] = r.be.NewStream()
	r.x, r.h, r.positions = make([]float32, r.rows*m.Dim), make([]float32, r.rows*m.Dim), make([]int, r.rows)
	for _, pool := range r.pools {
		r.steps = append(r.steps, pool.NewBatch())
	}
	return errors.Join(errs[:]...)
}

// Pools are the caches of the layers, with Options.LayerPools, else one of all. The runner keeps ownership.
func (r *Runner[B]) Pools() []*kvcache.Pool[B] { return r.pools }

// Stream is the queue of the runner's steps.
func (r *Runner[B]) Stream() backend.Stream { return r.stream }

// Pool is the cache, for opening, forking and measuring sequences. The runner keeps ownership.
func (r *Runner[B]) Pool() *kvcache.Pool[B] { return r.pool }

// Close frees the cache and the runner's buffers. Its sequences become unusable.
func (r *Runner[B]) Close() error {
	var errs []error
	for _, step := range r.steps {
		errs = append(errs, step.Close())
	}
	for _, pool := range r.pools {
		errs = append(errs, pool.Close())
	}
	if r.stream != nil {
		errs = append(errs, r.stream.Close())
	}
	for _, p := range []*port[B]{r.q, r.k, r.v, r.out} {
		if p != nil {
			errs = append(errs, r.be.Free(p.buf))
		}
	}
	return errors.Join(errs...)
}

// Temporaries of a layer. What is in one is lost when a part of the layer that names it, too, is computed.
const (
	tmpGate = iota
	tmpUp
	tmpAdded
	tmpScores
	tmpRows
	tmpOut
	tmpState
	temporaries
)

// floats is a temporary of n elements, with anything in them.
func (r *Runner[B]) floats(which, n int) []float32 {
	r.tmp[which] = slices.Grow(r.tmp[which][:0], n)[:n]
	return r.tmp[which]
}

// port is activations that host and device exchange. Where device
// memory is host memory, host is the buffer itself and nothing is copied.
type port[B backend.Buffer] struct {
	be     backend.Backend[B]
	buf    B
	host   []float32
	shared bool
}

func newPort[B backend.Buffer](be backend.Backend[B], n int) (*port[B], error) {
	buf, err := be.Alloc(backend.F32, n)
	if err != nil {
		return nil, err
	}
	access, shared := backend.HostAccessOf(be)
	if !shared {
		return &port[B]{be, buf, make([]float32, n), false}, nil
	}
	bytes, err := access.HostBytes(buf)
	if err != nil {
		return nil, errors.Join(err, be.Free(buf))
	}
	return &port[B]{be, buf, unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(bytes))), n), true}, nil
}

// send makes the first n elements visible to the device. Its earlier reads of them
// are done: receive has waited for the layer before.
func (p *port[B]) send(s backend.Stream, n int) error {
	if p.shared {
		return nil
	}
	return backend.Upload(p.be, s, p.buf, 0, p.host[:n])
}

// receive waits for the device and makes the first n elements visible to the host.
func (p *port[B]) receive(s backend.Stream, n int) error {
	if p.shared {
		return s.Sync()
	}
	return backend.Download(p.be, s, p.host[:n], p.buf, 0)
}
