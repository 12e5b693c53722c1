package kvcache

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Pool owns the keys and values of all layers of a model and the blocks they are
// cut into. Block i of every layer belongs to the same owners.
type Pool[B backend.Buffer] struct {
	be      backend.Backend[B]
	cfg     Config
	layers  []layer[B]
	formats []backend.Format // of the layers
	rope    backend.Rope[B]
	owned   []B      // every buffer of the pool
	recent  *Pool[B] // the last tokens of all sequences, with Config.Residual; nil: none

	scoring sync.Mutex // held while attention mass is added, where sums would meet

	mu      sync.Mutex
	blocks  *residency.Blocks
	seqs    map[*Sequence[B]]struct{}
	spare   []lists // of sequences that were released
	batches map[*Batch[B]]struct{}
	logical int         // blocks of all sequences, shared ones counted for each owner
	open    atomic.Bool // made by NewPool, and not closed since

	tree   *prefix.Tree // of the blocks; nil: no prefixes are reused
	model  prefix.Fingerprint
	common prefix.Root // of sequences without salt and adapter
}

// layer is the cache of one layer and how its queries see it.
type layer[B backend.Buffer] struct {
	view   backend.CacheView[B]
	mask   backend.Mask[B]
	format int            // of Pool.formats
	scores backend.Opt[B] // f32 [blocks, KV heads, slots]
}

// NewPool allocates the cache that cfg describes on be. The backend stays the
// caller's and must outlive the pool. An unusable configuration is an ErrConfig,
// a combination of types or sizes that the device cannot do an ErrUnsupported, a
// cache that does not fit its memory an ErrPoolSize that says how large it may be, before
// anything was allocated, or, where the device learns it later, an ErrOutOfMemory.
func NewPool[B backend.Buffer](be backend.Backend[B], cfg Config) (*Pool[B], error) {
	if be == nil {
		return nil, backend.ErrShape{Package: "kvcache", Op: "pool", What: "the backend is nil; open one with backend.Open"}
	}
	free := be.Info().FreeMemory
	cfg, err := cfg.Within(free)
	if err != nil {
		return nil, err
	}
	caps := be.Caps()
	if err := supported(caps, cfg); err != nil {
		return nil, err
	}
	if err := cfg.Fits(free, caps); err != nil {
		return nil, err
	}
	p := &Pool[B]{be: be, cfg: cfg, seqs: map[*Sequence[B]]struct{}{}, batches: map[*Batch[B]]struct{}{}}
	err = p.allocate()
	if err == nil && cfg.Residual > 0 {
		p.recent, err = NewPool(be, cfg.residual())
	}
	if err == nil { // not before: the device says whether so many blocks are reasonable
		var tree *prefix.Config
		if cfg.Prefix != prefix.Off {
			tree = &prefix.Config{BlockSize: cfg.BlockSize, Policy: cfg.Prefix}
		}
		p.blocks, err = residency.New(cfg.Blocks, tree, p.fail)
	}
	if err == nil && cfg.Prefix != prefix.Off {
		p.model, p.tree = cfg.fingerprint(), p.blocks.Tree()
		p.common = p.model.Root(prefix.Scope{})
	}
	if err != nil {
		if p.recent != nil {
			_ = p.recent.Close() // err explains more
		}
		p.freeBuffers()
		if errors.Is(err, backend.ErrOutOfMemory) {
			need, _ := cfg.Bytes()
			err = fmt.Errorf("kvcache: a pool of %d bytes does not fit; lower Blocks, MaxSeqs or Capacity, or store K and V in fewer bits: %w", need, err)
		}
		return nil, err
	}
	p.open.Store(true)
	return p, nil
}

// lock and unlock guard the pool of a sequence or batch, if it has any: what no pool has made is
// refused under no lock.
func (p *Pool[B]) lock() {
	if p != nil {
		p.mu.Lock()
	}
}

func (p *Pool[B]) unlock() {
	if p != nil {
		p.mu.Unlock()
	}
}

// shut is ErrClosed of a pool that is not open; nil is that of a zero Sequence or Batch.
func (p *Pool[B]) shut() error {
	switch {
	case p == nil:
		return fmt.Errorf("not made by a Pool: %w", ErrClosed)
	case !p.open.Load():
		return ErrClosed
	}
	return nil
}

// supported checks the configuration against what the device accepts.
func supported(caps backend.Caps, cfg Config) error {
	formats, _ := cfg.formats()
	for _, f := range formats {
		if !caps.Supports(f) {
			return backend.ErrUnsupported{Package: "kvcache", Op: "pool", Why: fmt.Sprintf("the device has no kernels for activations in %s with K in %s and V in %s; with %s it has %s", f.Act, f.K, f.V, f.Act, listed(f.Act, caps.Formats))}
		}
	}
	if cfg.Int8Query && !slices.Contains(caps.Int8Query, cfg.K) {
		return backend.ErrUnsupported{Package: "kvcache", Op: "pool", Why: fmt.Sprintf("the device does not round queries to int8 for keys of %s; Config.Int8Query is for %v", cfg.K, caps.Int8Query)}
	}
	if !caps.SupportsDims(cfg.HeadDim, cfg.VHeadDim) {
		return backend.ErrUnsupported{Package: "kvcache", Op: "pool", Why: fmt.Sprintf("the device has no kernels for head dims %d and %d; it has %s", cfg.HeadDim, cfg.VHeadDim, listedDims(caps.HeadDims))}
	}
	if cfg.Layout == Paged && caps.BlockSizes != nil {
		for _, size := range caps.BlockSizes {
			if size == cfg.BlockSize {
				return nil
			}
		}
		return backend.ErrUnsupported{Package: "kvcache", Op: "pool", Why: fmt.Sprintf("the device takes blocks of %v tokens, not %d", caps.BlockSizes, cfg.BlockSize)}
	}
	return nil
}

// listed is what a device stores with an activation type, for an error.
func listed(act backend.DType, all []backend.Format) string {
	var words []string
	for _, f := range all {
		if f.Act != act {
			continue
		}
		words = append(words, fmt.Sprintf("%s with %s", f.K, f.V))
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, ", ")
}

// listedDims is the head dims that a device accepts, for an error.
func listedDims(all [][2]int) string {
	words := make([]string, len(all))
	for i, d := range all {
		words[i] = fmt.Sprintf("%d and %d", d[0], d[1])
	}
	return strings.Join(words, ", ")
}

// allocate makes the pool's buffers. What was made before a failure is in p.owned.
func (p *Pool[B]) allocate() error {
	c := p.cfg
	stream, err := p.be.NewStream()
	if err != nil {
		return err
	}
	defer stream.Close()
	alloc := func(dt backend.DType, n int) (B, error) {
		b, err := p.be.Alloc(dt, n)
		if err == nil {
			p.owned = append(p.owned, b)
		}
		return b, err
	}
	vector := func(values []float32) (backend.Opt[B], error) {
		if len(values) == 0 {
			return backend.Opt[B]{}, nil
		}
		b, err := backend.AllocFrom(p.be, stream, backend.F32, values)
		if err == nil {
			p.owned = append(p.owned, b)
		}
		return backend.Some(b), err
	}
	masks := make([]backend.Mask[B], max(len(c.Masks), 1))
	for i := range c.Masks {
		m := &c.Masks[i]
		masks[i] = backend.Mask[B]{Window: m.Window, SinkTokens: m.SinkTokens, SoftCap: m.SoftCap}
		if masks[i].ALiBi, err = vector(m.ALiBi); err != nil {
			return err
		}
		if c.Residual > 0 { // the older tokens: every query sees all, and the logit counts once
			continue
		}
		if masks[i].SinkLogits, err = vector(m.SinkLogits); err != nil {
			return err
		}
	}
	for i := range masks {
		masks[i].NonCausal = c.Residual > 0
	}
	// plane is the keys or values of a layer; perHead are the scales that 8-bit floats have.
	plane := func(pl plane, perHead []float32) (of backend.Plane[B], err error) {
		n, _ := c.planeLen(pl.dim) // Resolve checked that they fit
		of.Dim = pl.dim
		if of.Data, err = alloc(pl.dt, n); err != nil {
			return of, err
		}
		switch dt, n, _ := pl.dt.Scales(c.Blocks, c.KVHeads, c.slots(), pl.dim); {
		case pl.dt.Coding().Scope == backend.ByHead:
			of.Scales, err = vector(perHead)
		case n > 0:
			of.Scales.Set = true
			of.Scales.Buf, err = alloc(dt, n)
		}
		return of, err
	}
	p.formats, _ = c.formats()
	for l := range c.Layers {
		f := c.format(l)
		view, planes := backend.CacheView[B]{Blocks: c.Blocks, KVHeads: c.KVHeads, BlockSize: c.slots()}, c.planes(f)
		if view.K, err = plane(planes[0], c.headScales(c.KScales, l)); err != nil {
			return err
		}
		if view.V, err = plane(planes[1], c.headScales(c.VScales, l)); err != nil {
			return err
		}
		view.K.Hadamard = c.hadamard(l)
		layer := layer[B]{view: view, mask: masks[min(l, len(masks)-1)], format: slices.Index(p.formats, f)}
		if c.Scores {
			layer.scores.Set = true
			if layer.scores.Buf, err = alloc(backend.F32, c.Blocks*c.KVHeads*c.slots()); err != nil {
				return err
			}
		}
		p.layers = append(p.layers, layer)
	}
	if c.RoPE != nil && c.Residual == 0 { // else it is in the second pool, where keys are written
		r, err := c.RoPE.Resolve(c.HeadDim)
		if err != nil {
			return err
		}
		table, err := r.Table(c.HeadDim, c.Capacity)
		if err != nil {
			return err
		}
		p.rope = backend.Rope[B]{Positions: c.Capacity, Dims: r.Dims, Pairing: r.Pairing, Magnitude: float32(r.Attention)}
		if p.rope.Table, err = vector(table); err != nil {
			return err
		}
	}
	return stream.Sync()
}

func (p *Pool[B]) freeBuffers() {
	for _, b := range p.owned {
		_ = p.be.Free(b) // the buffer is ours and live: a failure means the device is gone
	}
	p.owned = nil
}

// lists are a sequence's blocks and tokens. They grow with what they hold, and go from one
// sequence to the next, so that most sequences need not grow theirs.
type lists struct {
	blocks []block.Block
	tokens []uint32 // of a pool that reuses no prefixes: of an unfinished prompt, or nil
}

func (p *Pool[B]) newSequence() *Sequence[B] {
	var l lists
	if n := len(p.spare); n > 0 {
		l, p.spare = p.spare[n-1], p.spare[:n-1]
	}
	s := &Sequence[B]{pool: p, blocks: l.blocks, tokens: l.tokens}
	p.seqs[s] = struct{}{}
	if p.recent != nil {
		p.recent.mu.Lock()
		s.recent = p.recent.newSequence()
		p.recent.mu.Unlock()
	}
	return s
}

// dropSequence forgets a sequence that has no blocks.
func (p *Pool[B]) dropSequence(s *Sequence[B]) {
	delete(p.seqs, s)
	s.recent = nil // released, or never used
	if len(p.spare) < p.cfg.MaxSeqs {
		p.spare = append(p.spare, lists{s.blocks[:0], s.tokens[:0]})
	}
	s.blocks, s.tokens = nil, nil
}

// Config is the pool's configuration, filled in.
func (p *Pool[B]) Config() Config { return p.cfg }

// Layer is a layer's cache as kernels see it, for a runner with kernels of its
// own. The pool keeps ownership; the view is valid until Close.
func (p *Pool[B]) Layer(layer int) (backend.CacheView[B], error) {
	if err := p.shut(); err != nil {
		return backend.CacheView[B]{}, fmt.Errorf("kvcache: layer: %w", err)
	}
	if err := p.checkLayer("layer", layer); err != nil {
		return backend.CacheView[B]{}, err
	}
	return p.layers[layer].view, nil
}

func (p *Pool[B]) checkLayer(op string, layer int) error {
	if layer < 0 || layer >= len(p.layers) {
		return backend.ErrShape{Package: "kvcache", Op: op, What: fmt.Sprintf("layer %d: the pool has %d", layer, len(p.layers))}
	}
	return nil
}

// checkType checks that an activation is of the type that the pool was made for.
func (p *Pool[B]) checkType(op, operand string, b B) error {
	if dt := b.DType(); dt != p.cfg.Act {
		return backend.ErrShape{Package: "kvcache", Op: op, What: fmt.Sprintf("%s: elements are %s, Config.Act is %s", operand, dt, p.cfg.Act)}
	}
	return nil
}

// usable reports why the pool takes no new work. The caller holds the lock.
func (p *Pool[B]) usable() error {
	if err := p.shut(); err != nil {
		return fmt.Errorf("kvcache: pool: %w", err)
	}
	return p.blocks.Lost()
}

// met passes on the backend's answer to a call that was made without the lock: it notes a lost device,
// or that the pool was closed meanwhile.
func (p *Pool[B]) met(err error) error {
	if err == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut() != nil { // the buffers are gone
		return fmt.Errorf("kvcache: pool: %w: %w", ErrClosed, err)
	}
	return p.blocks.Observe(err)
}

// Close waits for the steps in flight and frees the pool's memory. Sequences and
// batches that are still open become unusable: whoever is using one meets ErrClosed.
func (p *Pool[B]) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.shut(); err != nil {
		return fmt.Errorf("kvcache: pool: %w", err)
	}
	p.open.Store(false)
	for b := range p.batches {
		b.index.free(p.be)
		b.tiers.free(p.be)
	}
	for s := range p.seqs {
		s.freeTable()
	}
	err := p.blocks.Close()
	if p.recent != nil {
		err = firstOf(err, p.recent.Close())
	}
	p.freeBuffers()
	p.batches, p.seqs, p.spare = nil, nil, nil
	return err
}
