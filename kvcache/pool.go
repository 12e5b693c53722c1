package kvcache

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/bytesize"
	"github.com/ferrumkv/ferrumkv/internal/journal"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/below"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Pool owns the keys and values of all layers of a model, which are divided into
// blocks.
type Pool[B backend.Buffer] struct {
	cfg   Config
	caps  backend.Caps
	parts *store.Parts[B]
	log   *slog.Logger // does not wait for the program's handler

	narrowest int   // tokens of the smallest window of a layer; 0: none has one
	chunks    []int // tokens of the chunks that layers have

	mu      sync.Mutex // guards what follows, and the stores
	seqs    map[*Sequence[B]]struct{}
	opened  uint64  // sequences
	spare   []spare // of sequences that were released
	batches map[*Batch[B]]struct{}
	open    atomic.Bool // made by NewPool, and not closed since

	tree   *prefix.Tree // of entries that have blocks of each part; nil: no prefixes are reused
	model  prefix.Fingerprint
	common prefix.Root // of sequences without salt and adapter
	below  below.Below[B]
}

// NewPool allocates the cache that cfg describes on be. The caller keeps ownership of
// be, which must not be closed before the pool. It returns ErrConfig for an invalid
// configuration, backend.ErrUnsupported for types or sizes that the device has no kernels
// for, and ErrPoolSize, with the size that would fit, for a cache that is too large for
// the device; all of them before anything is allocated. It returns backend.ErrOutOfMemory
// if an allocation fails nevertheless. Kernels that a cache which fits needs are loaded (backend.Prepare)
// before the free memory is divided.
func NewPool[B backend.Buffer](be backend.Backend[B], cfg Config) (_ *Pool[B], err error) {
	defer naming("NewPool", &err)
	if be == nil {
		return nil, argument("the backend is nil; open one with backend.Open")
	}
	caps := be.Caps()
	fitted, err := fit(be, caps, cfg)
	if err != nil {
		return nil, err
	}
	if err := prepare(be, fitted); err != nil {
		return nil, err
	}
	if cfg, err = fit(be, caps, cfg); err != nil { // kernels take memory, too
		return nil, err
	}
	p := &Pool[B]{cfg: cfg, caps: caps, log: journal.Async(cfg.Logger), seqs: map[*Sequence[B]]struct{}{}, batches: map[*Batch[B]]struct{}{}}
	if p.model, err = cfg.Fingerprint(); err != nil {
		return nil, err
	}
	p.common = p.model.Root(prefix.Scope{})
	p.parts, err = store.New(be, cfg, p.poison)
	if err != nil {
		if errors.Is(err, backend.ErrOutOfMemory{}) {
			need, _ := cfg.Bytes()
			err = fmt.Errorf("kvcache: a pool of %s does not fit; lower %s, or store K and V in fewer bits: %w", bytesize.String(need), cfg.SizeSettings(), err)
		}
		return nil, err
	}
	p.scanMasks()
	p.parts.Fences.Guarded(&p.mu)
	p.parts.Fences.OnLost = p.logLost
	p.tree = p.parts.Blocks.Tree()
	if p.below, err = below.Open(be, &p.mu, p.parts, &p.cfg, p.model, p.log); err != nil {
		return nil, errors.Join(err, p.parts.Close())
	}
	p.open.Store(true)
	p.logMade()
	p.below.Warn(p.log, &p.cfg)
	return p, nil
}

// scanMasks notes what masks and groups say of distances.
func (p *Pool[B]) scanMasks() {
	add := func(chunk int) {
		if chunk > 0 && !slices.Contains(p.chunks, chunk) {
			p.chunks = append(p.chunks, chunk)
		}
	}
	for i, part := range withRows(p.cfg) {
		add(p.parts.All[i].Piece())
		for l := range part.Layers {
			m := part.Model.MaskOf(l)
			add(m.Chunk)
			if w := m.Window; w > 0 && (p.narrowest == 0 || w < p.narrowest) {
				p.narrowest = w
			}
		}
	}
}

// withRows are the parts of a configuration that have keys and values, by number.
func withRows(cfg Config) iter.Seq2[int, config.Part] {
	return func(yield func(int, config.Part) bool) {
		for i, part := range cfg.Parts() {
			if part.State == 0 && !yield(i, part) {
				return
			}
		}
	}
}

// findable is the tokens of an entry of the tree that others can find; 0: none can.
func (p *Pool[B]) findable() int {
	if p.tree == nil {
		return 0
	}
	return p.cfg.EntryTokens()
}

// poison makes the sequences that own an entry of the tree useless: what they read there was not
// written. Their own steps may be fine, so that nobody else tells them.
func (p *Pool[B]) poison(b block.Block, err error) {
	for s := range p.seqs {
		if s.runs.Failed == nil && s.runs.Reads(b) {
			s.runs.Failed = fmt.Errorf("content undefined after a failed step: %w", err)
			p.logFailed(s.Len(), err)
		}
	}
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

// retry does what may lack blocks, under the lock, and again as those come back that the device still uses. It
// waits for them without the lock.
func (p *Pool[B]) retry(do func() error) error {
	if p == nil {
		return do() // refuses
	}
	err := p.parts.Fences.Retry(do)
	for errors.Is(err, ErrOutOfBlocks{}) && p.reclaimPrefetched() {
		err = p.parts.Fences.Retry(do)
	}
	p.logOutOfBlocks(err)
	return err
}

// reclaimPrefetched has blocks come back that tiers filled for sequences which are computed meanwhile.
func (p *Pool[B]) reclaimPrefetched() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.below.Offload != nil && p.closedErr() == nil && p.below.Offload.ReclaimPrefetched()
}

// closedErr is ErrClosed of a pool that is not open; nil is that of a zero Sequence or Batch.
func (p *Pool[B]) closedErr() error {
	switch {
	case p == nil:
		return fmt.Errorf("not made by a Pool: %w", ErrClosed)
	case !p.open.Load():
		return ErrClosed
	}
	return nil
}

// fit is the configuration, filled in for the memory that is free now; an error where the device does not
// accept it or it does not fit.
func fit[B backend.Buffer](be backend.Backend[B], caps backend.Caps, cfg Config) (Config, error) {
	free := be.Info().FreeMemory
	cfg, err := cfg.Within(free)
	if err == nil {
		err = supported(caps, cfg)
	}
	if err == nil {
		err = cfg.Fits(free, caps)
	}
	return cfg, err
}

// prepare has the device load what steps need.
func prepare[B backend.Buffer](be backend.Backend[B], cfg Config) error {
	for _, part := range withRows(cfg) {
		m := part.Model
		var masks []backend.MaskUse
		for l := range m.Layers {
			mask := m.MaskOf(l)
			use := backend.MaskUse{ALiBi: len(mask.ALiBi) > 0, SinkLogits: len(mask.SinkLogits) > 0, SoftCap: mask.SoftCap > 0}
			if !slices.Contains(masks, use) {
				masks = append(masks, use)
			}
		}
		err := backend.Prepare(be, backend.Preparation{Formats: part.Formats(), Latent: m.Latent, QHeads: m.QHeads, KVHeads: m.KVHeads,
			KDim: m.HeadDim, VDim: m.VHeadDim, Contiguous: part.MostBlocks() == 1, RoPE: m.RoPE != nil, Scores: cfg.Attention.Scores,
			Hadamard: part.Storage.Hadamard, Residual: part.Storage.Residual > 0, Masks: masks})
		if err != nil {
			return err
		}
	}
	return nil
}

// needed are the formats of a part's caches.
func needed(cfg Config) []backend.Format {
	formats := cfg.Formats()
	if cfg.Storage.Residual > 0 {
		formats = append(formats, backend.Format{Act: cfg.Model.Act, K: cfg.Model.Act, V: cfg.Model.Act})
	}
	return formats
}

// supported checks the configuration against what the device accepts.
func supported(caps backend.Caps, cfg Config) error {
	for _, part := range withRows(cfg) {
		if err := supportedPart(caps, part.Config); err != nil {
			return err
		}
	}
	return nil
}

func supportedPart(caps backend.Caps, cfg Config) error {
	for _, f := range needed(cfg) {
		if !caps.Supports(f) {
			return unsupported("the device has no kernels for activations in %s with K in %s and V in %s; with %s it has %s", f.Act, f.K, f.V, f.Act, listed(f.Act, caps.Formats))
		}
	}
	if cfg.Attention.Int8Query && !slices.Contains(caps.Int8Query, cfg.Storage.K) {
		return unsupported("the device does not round queries to int8 for keys of %s; Attention.Int8Query is for %v", cfg.Storage.K, caps.Int8Query)
	}
	if m := &cfg.Model; m.Latent && !caps.SupportsLatent(m.HeadDim, m.VHeadDim) {
		if !caps.Latent {
			return unsupported("the device has no kernels for latent caches")
		}
		return unsupported("the device has no kernels for latent caches of %d and %d dims; it has %s", m.HeadDim, m.VHeadDim, listedDims(caps.LatentDims))
	}
	if !cfg.Model.Latent && !caps.SupportsDims(cfg.Model.HeadDim, cfg.Model.VHeadDim) {
		return unsupported("the device has no kernels for head dims %d and %d; it has %s", cfg.Model.HeadDim, cfg.Model.VHeadDim, listedDims(caps.HeadDims))
	}
	if cfg.Memory.Layout == Paged && !caps.SupportsBlockSize(cfg.Memory.BlockSize) {
		if caps.BlockSizes != nil {
			return unsupported("the device takes blocks of %v tokens, not %d", caps.BlockSizes, cfg.Memory.BlockSize)
		}
		return unsupported("the device takes blocks of a power of two tokens, such as %d, not %d", config.DefaultBlockSize, cfg.Memory.BlockSize)
	}
	for l := range cfg.Model.Layers {
		switch m := cfg.Model.MaskOf(l); {
		case m.Window > 0 && cfg.Model.NonCausal && !caps.Views:
			return unsupported("the device has no windows both ways, which layer %d has with Model.NonCausal", l)
		case m.Chunk > 0 && !caps.Chunk:
			return unsupported("the device has no chunks in masks, which layer %d has; use the paged layout and a group of kind chunked", l)
		}
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

// spare is the memory of a sequence's lists. They grow with what they hold, and go from one sequence to the next, so that
// most sequences need not grow theirs.
type spare struct {
	lists  store.Lists
	tokens []uint32
}

// Config is the pool's configuration with all defaults filled in.
func (p *Pool[B]) Config() Config { return p.cfg }

// Layer returns a layer's cache as kernels see it, for a runner with kernels of its
// own. With Storage.Residual view is the quantized cache, and residual that of the last,
// unquantized tokens, where steps write; without it both are the same. The pool keeps
// ownership; the views are valid until Close.
func (p *Pool[B]) Layer(layer int) (view, residual backend.CacheView[B], err error) {
	defer naming("Pool.Layer", &err)
	if err := p.closedErr(); err != nil {
		return view, residual, err
	}
	if err := p.checkLayer(layer); err != nil {
		return view, residual, err
	}
	st, l := p.of(layer)
	return st.Kept.Layers[l].View, st.Written.Layers[l].View, nil
}

// of is the stores of a layer that has keys and values, and which of their layers it is.
func (p *Pool[B]) of(layer int) (*store.Part[B], int) {
	at := p.parts.Layers[layer]
	return p.parts.All[at.Part], at.Layer
}

// checkLayer checks the number of a layer, and that it has keys and values.
func (p *Pool[B]) checkLayer(layer int) error {
	if layer < 0 || layer >= p.cfg.Model.Layers {
		return argument("layer %d: the pool has layers 0 to %d", layer, p.cfg.Model.Layers-1)
	}
	if !p.attends(layer) {
		return argument("layer %d: has no keys and values; it is in a group without", layer)
	}
	return nil
}

// rotates reports whether the pool has a rotary embedding, whose table ends with Memory.Capacity.
func (p *Pool[B]) rotates() bool {
	return slices.ContainsFunc(p.parts.All, (*store.Part[B]).Rotates)
}

// chunked reports whether some layers attend in chunks.
func (p *Pool[B]) chunked() bool {
	return slices.ContainsFunc(p.parts.All, func(st *store.Part[B]) bool { return st.Piece() > 0 })
}

// attends reports whether a layer has keys and values.
func (p *Pool[B]) attends(layer int) bool {
	return p.parts.Layers[layer].Part >= 0 && p.parts.StatesOf(layer) == nil
}

// latentOnly reports whether keys of a layer are latents with nothing behind them.
func (p *Pool[B]) latentOnly(layer int) bool {
	if uint(layer) >= uint(p.cfg.Model.Layers) || !p.attends(layer) {
		return false
	}
	st, _ := p.of(layer)
	m := &st.Config.Model
	return m.Latent && m.HeadDim == m.VHeadDim
}

// checkType checks that an activation is of the type that the pool was made for.
func (p *Pool[B]) checkType(operand string, b B) error {
	dt := b.DType()
	if dt == backend.Invalid {
		return argument("%s is missing; set LayerIO.%s", operand, strings.ToUpper(operand[:1])+operand[1:])
	}
	if dt != p.cfg.Model.Act {
		return argument("%s: elements are %s, Model.Act is %s", operand, dt, p.cfg.Model.Act)
	}
	return nil
}

// checkQueries checks the queries of an Append that changes them.
func (p *Pool[B]) checkQueries(q B) error {
	if q.DType() == backend.Invalid {
		return argument("q is missing: Rotate and Storage.Hadamard change the queries, too; set LayerIO.Q")
	}
	return p.checkType("q", q)
}

// checkCall checks the layer of a call and the types of two of its activations.
func (p *Pool[B]) checkCall(layer int, one string, a B, other string, b B) error {
	if act := p.cfg.Model.Act; uint(layer) < uint(p.cfg.Model.Layers) && p.attends(layer) && a.DType() == act && b.DType() == act {
		return nil
	}
	if err := p.checkLayer(layer); err != nil {
		return err
	}
	if err := p.checkType(one, a); err != nil {
		return err
	}
	return p.checkType(other, b)
}

// usable reports why the pool takes no new work. The caller holds the lock.
func (p *Pool[B]) usable() error {
	if err := p.closedErr(); err != nil {
		return err
	}
	return p.parts.Fences.Lost()
}

// observe passes on the backend's answer to a call that was made without the lock: it notes a lost device,
// or that the pool was closed meanwhile.
func (p *Pool[B]) observe(err error) error {
	if err == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closedErr() != nil { // the buffers are gone
		return fmt.Errorf("kvcache: pool: %w: %w", ErrClosed, err)
	}
	return p.parts.Fences.Observe(err)
}

// Close waits for the calls of others and the steps on the device, and frees the pool's memory. Sequences and
// batches that are still open become unusable: their calls return ErrClosed.
func (p *Pool[B]) Close() (err error) {
	defer naming("Pool.Close", &err)
	if !p.open.CompareAndSwap(true, false) {
		return p.closedErr()
	}
	sequences := 0
	defer func() {
		p.logClosed(sequences, err)
		journal.Flush(p.log, flushing)
	}()
	err = p.below.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parts.Fences.Quiet()
	sequences = len(p.seqs)
	for b := range p.batches {
		b.step.Free()
	}
	for s := range p.seqs {
		s.runs.FreeTables()
		if s.runs.Suspended != nil {
			err = errors.Join(err, s.runs.Discard())
		}
	}
	err = errors.Join(err, p.parts.Close())
	p.batches, p.seqs, p.spare = nil, nil, nil
	return err
}
