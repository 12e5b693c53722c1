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
// cut into.
type Pool[B backend.Buffer] struct {
	be    backend.Backend[B]
	cfg   Config
	kept  *store[B] // where tokens stay, and prefixes are found
	fresh *store[B] // where steps write: the same, but with Config.Residual
	rope  backend.Rope[B]
	owned []B // every buffer of the pool

	scoring sync.Mutex // held while attention mass is added, where sums would meet

	mu      sync.Mutex
	fences  residency.Fences
	seqs    map[*Sequence[B]]struct{}
	spare   []lists // of sequences that were released
	batches map[*Batch[B]]struct{}
	open    atomic.Bool // made by NewPool, and not closed since

	tree   *prefix.Tree // of the blocks; nil: no prefixes are reused
	model  prefix.Fingerprint
	common prefix.Root // of sequences without salt and adapter
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
	p.kept = &store[B]{}
	p.fresh = p.kept
	if cfg.Residual > 0 {
		p.fresh = &store[B]{}
	}
	err = p.allocate()
	if err == nil { // not before: the device says whether so many blocks are reasonable
		err = p.settleIn()
	}
	if err != nil {
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

// settleIn makes the residency of the stores' blocks.
func (p *Pool[B]) settleIn() (err error) {
	var tree *prefix.Config
	if p.cfg.Prefix != prefix.Off {
		tree = &prefix.Config{BlockSize: p.cfg.BlockSize, Policy: p.cfg.Prefix}
	}
	if p.kept.Blocks, err = residency.New(&p.fences, p.cfg.Blocks, tree, p.fail); err != nil {
		return err
	}
	if tree != nil {
		p.model, p.tree = p.cfg.fingerprint(), p.kept.Tree()
		p.common = p.model.Root(prefix.Scope{})
	}
	if p.windowed() {
		p.fresh.Blocks, err = residency.New(&p.fences, p.cfg.residualBlocks(), nil, nil)
	}
	return err
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

// reclaim gives up what the device has finished with.
func (p *Pool[B]) reclaim() error {
	err := p.kept.Reclaim()
	if p.windowed() {
		err = firstOf(err, p.fresh.Reclaim())
	}
	return err
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
	if cfg.Residual > 0 {
		formats = append(formats, backend.Format{Act: cfg.Act, K: cfg.Act, V: cfg.Act})
	}
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

func (p *Pool[B]) freeBuffers() {
	for _, b := range p.owned {
		_ = p.be.Free(b) // the buffer is ours and live: a failure means the device is gone
	}
	p.owned = nil
}

// lists are a sequence's blocks and tokens. They grow with what they hold, and go from one
// sequence to the next, so that most sequences need not grow theirs.
type lists struct {
	kept, recent []block.Block
	tokens       []uint32 // of a pool that reuses no prefixes: of an unfinished prompt, or nil
}

func (p *Pool[B]) newSequence() *Sequence[B] {
	var l lists
	if n := len(p.spare); n > 0 {
		l, p.spare = p.spare[n-1], p.spare[:n-1]
	}
	s := &Sequence[B]{pool: p, kept: segment{blocks: l.kept}, recent: segment{blocks: l.recent}, tokens: l.tokens}
	p.seqs[s] = struct{}{}
	return s
}

// dropSequence forgets a sequence that has no blocks.
func (p *Pool[B]) dropSequence(s *Sequence[B]) {
	delete(p.seqs, s)
	if len(p.spare) < p.cfg.MaxSeqs {
		p.spare = append(p.spare, lists{s.kept.blocks[:0], s.recent.blocks[:0], s.tokens[:0]})
	}
	s.kept.blocks, s.recent.blocks, s.tokens = nil, nil, nil
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
	if p.windowed() {
		return backend.CacheView[B]{}, twoPlaces("layer")
	}
	return p.kept.layers[layer].view, nil
}

func (p *Pool[B]) checkLayer(op string, layer int) error {
	if layer < 0 || layer >= p.cfg.Layers {
		return backend.ErrShape{Package: "kvcache", Op: op, What: fmt.Sprintf("layer %d: the pool has %d", layer, p.cfg.Layers)}
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
	return p.fences.Lost()
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
	return p.fences.Observe(err)
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
		b.sealing.free(p.be)
	}
	for s := range p.seqs {
		s.freeTable()
	}
	p.kept.Close()
	p.fresh.Close() // where it is the same, once more is nothing
	err := p.fences.Close()
	p.freeBuffers()
	p.batches, p.seqs, p.spare = nil, nil, nil
	return err
}
