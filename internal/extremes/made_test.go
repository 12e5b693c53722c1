package extremes

import (
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/ferrumkv/ferrumkv"
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/evict"
	"github.com/ferrumkv/ferrumkv/kvcache/evictor"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/host"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	kvquant "github.com/ferrumkv/ferrumkv/kvcache/quant"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
	"github.com/ferrumkv/ferrumkv/kvcache/states"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/disk"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/planner"
	"github.com/ferrumkv/ferrumkv/kvevents"
	"github.com/ferrumkv/ferrumkv/kvevents/index"
	"github.com/ferrumkv/ferrumkv/kvevents/pubsub"
	"github.com/ferrumkv/ferrumkv/schedule"
	"github.com/stretchr/testify/require"
)

// must returns what a constructor made.
func must[T any](w *world) func(T, error) T {
	return func(made T, err error) T {
		require.NoError(w.t, err)
		return made
	}
}

func (w *world) buffer() buffer { return w.alloc(w.live, 6*heads*dim) }

func (w *world) alloc(d *device, n int) buffer {
	b, err := d.rows(n, 3)
	require.NoError(w.t, err)
	w.later(func() { d.be.Free(b) })
	return b
}

func (w *world) hostMemory() backend.HostMemory {
	m := must[backend.HostMemory](w)(backend.HostAlloc(w.live.be, 1<<12))
	w.later(func() { m.Close() })
	return m
}

func (w *world) batch(planned bool) *kvcache.Batch[buffer] {
	b := w.live.pool.NewBatch()
	w.later(func() { b.Close() })
	s := w.sequence(w.live)
	require.NoError(w.t, b.Add(s, []uint32{7, 8}))
	if planned {
		require.NoError(w.t, b.Plan(w.live.stream))
	}
	return b
}

func (w *world) standalone() *kvcache.Standalone[buffer] {
	cfg := tiny()
	cfg.Model.Layers, cfg.Memory, cfg.Tiers = 1, kvcache.Memory{Capacity: 64}, config.Tiers{}
	s := must[*kvcache.Standalone[buffer]](w)(kvcache.NewStandalone(w.live.be, cfg))
	w.later(func() { s.Release() })
	return s
}

func (w *world) cache() *ferrumkv.Cache {
	c := must[*ferrumkv.Cache](w)(ferrumkv.Open("cpu", tiny()))
	w.later(func() { c.Close() })
	return c
}

func (w *world) plannedStep() *ferrumkv.Step {
	c := w.cache()
	s := must[*ferrumkv.Step](w)(c.NewStep())
	seq, _, err := c.Pool.Open(nil, kvcache.OpenOptions{})
	require.NoError(w.t, err)
	require.NoError(w.t, s.Add(seq, []uint32{1, 2}))
	require.NoError(w.t, s.Plan())
	return s
}

// noModel computes nothing, and says so.
type noModel struct{}

func (noModel) Forward(*schedule.Step[buffer]) error { return backend.ErrUnsupported{Why: "no model"} }

func (noModel) Next(*schedule.Step[buffer], int) (uint32, bool, error) { return 0, true, nil }

func (w *world) scheduler() *schedule.Scheduler[buffer] {
	b := w.live.pool.NewBatch()
	w.later(func() { b.Close() })
	return must[*schedule.Scheduler[buffer]](w)(schedule.New[buffer](noModel{}, w.live.pool, b, w.live.stream, schedule.Options{}))
}

// allocator has blocks 0 and 1, which are held, and 2, which is cached.
func (w *world) allocator() *block.BlockAllocator {
	a := must[*block.BlockAllocator](w)(block.New(8))
	blocks := must[[]block.Block](w)(a.AllocateN(nil, 3))
	require.NoError(w.t, a.Release(blocks[2], true))
	return a
}

func (w *world) tree() *prefix.Tree {
	a := must[*block.BlockAllocator](w)(block.New(8))
	tree := must[*prefix.Tree](w)(prefix.New(a, prefix.Config{BlockSize: 2}))
	blocks := must[[]block.Block](w)(a.AllocateN(nil, 2))
	_, _, err := tree.Insert(nil, prefix.Path{}, []uint32{1, 2, 3, 4}, blocks)
	require.NoError(w.t, err)
	require.NoError(w.t, tree.Release(blocks[1:]))
	return tree
}

func (w *world) groups() *group.Cache {
	return must[*group.Cache](w)(group.New(must[*block.BlockAllocator](w)(block.New(32)), groupConfig()))
}

func groupConfig() group.Config {
	return group.Config{Tree: prefix.Config{BlockSize: 4}, Entries: 8, Every: 1, Parts: []group.Part{
		{Rule: group.Rule{Block: 4}, Each: 1}, {Rule: group.Rule{Kind: group.Window, Window: 8, Block: 2}, Each: 2, Group: 1}}}
}

func (w *world) evictor() *evictor.Evictor[buffer] {
	return must[*evictor.Evictor[buffer]](w)(evictor.New[buffer](evictor.Options{Policy: evict.SlidingWindow{Sinks: 1, Window: 4}, Budget: 5}))
}

func (w *world) blockStore() *host.BlockStore[float32] {
	return must[*host.BlockStore[float32]](w)(host.NewBlockStore[float32](4, 4, 2))
}

func (w *world) paged() *host.PagedKvCache[float32] {
	c := must[*host.PagedKvCache[float32]](w)(host.NewPagedKvCache[float32](8, 3))
	for range 3 {
		require.NoError(w.t, c.Append([]float32{1, 2, 3}))
	}
	return c
}

func (w *world) pagedReleased() *host.PagedKvCache[float32] {
	c := w.paged()
	c.Release()
	return c
}

func (w *world) pagedLayers() *host.PagedLayers[float32] {
	return must[*host.PagedLayers[float32]](w)(host.NewPagedLayers[float32]([]*host.PagedKvCache[float32]{w.paged()}, []*host.PagedKvCache[float32]{w.paged()}))
}

func (w *world) dense() *host.Dense[float32] {
	return must[*host.Dense[float32]](w)(host.NewDense([][]float32{make([]float32, 9)}, [][]float32{make([]float32, 9)}, 3, 2))
}

func (w *world) state() *host.CachedKvState[float32] {
	rows := [][]float32{make([]float32, 9)}
	return must[*host.CachedKvState[float32]](w)(host.NewCachedKvState[float32](rows, rows, 3))
}

func (w *world) prefixCache() *host.PrefixKvCache[float32] {
	c := must[*host.PrefixKvCache[float32]](w)(host.NewPrefixKvCache[float32](host.PrefixCacheConfig{MinPrefixLen: 1, BlockSize: 2}))
	_, err := c.Store([]uint32{1, 2, 3}, w.state())
	require.NoError(w.t, err)
	return c
}

func (w *world) quantized() *kvquant.CacheManager {
	c := must[*kvquant.CacheManager](w)(kvquant.New(quantConfig()))
	require.NoError(w.t, c.Append(make([]float32, 8), make([]float32, 8), 0))
	return c
}

func quantConfig() kvquant.KVCacheConfig {
	return kvquant.KVCacheConfig{MaxSeqLen: 8, NumHeads: 2, HeadDim: 4, QuantizationBits: 4, Layers: 2}
}

func (w *world) reader() *snapshot.Reader {
	return snapshot.NewReader(strings.NewReader(w.saved), snapshot.Options{})
}

func (w *world) readerAtChunks() *snapshot.Reader {
	r := w.reader()
	_, err := r.Head()
	require.NoError(w.t, err)
	return r
}

func (w *world) writer() *snapshot.Writer {
	s := snapshot.NewWriter(io.Discard, snapshot.Options{})
	require.NoError(w.t, s.Head(w.head()))
	return s
}

func (w *world) head() *snapshot.Head {
	return must[*snapshot.Head](w)(w.reader().Head())
}

func (w *world) memory() *memory.Tier {
	m := must[*memory.Tier](w)(memory.Open(memory.Options{Bytes: 1 << 12}))
	w.later(func() { m.Close() })
	require.NoError(w.t, m.Put(background, []tier.Block{{Key: tier.Key{1}, Bytes: []byte("payload")}}))
	return m
}

func (w *world) tierClosed() tier.Tier {
	m := w.memory()
	require.NoError(w.t, m.Close())
	return m
}

func (w *world) mover() *tier.Mover {
	m := must[*tier.Mover](w)(tier.NewMover([]tier.Tier{w.memory()}, tier.MoverOptions{Timeout: time.Second}))
	w.later(func() { m.Close() })
	return m
}

func (w *world) moverClosed() *tier.Mover {
	m := w.mover()
	require.NoError(w.t, m.Close())
	return m
}

func diskOptions() disk.Options {
	return disk.Options{Dir: "tier", Payload: 64, Bytes: 1 << 16, Floor: 1}
}

func (w *world) disk() *disk.Tier {
	d := must[*disk.Tier](w)(disk.Open(diskOptions()))
	w.later(func() { d.Close() })
	return d
}

func stateOptions() states.Options {
	return states.Options{Bytes: 1 << 20, Floor: 1}
}

var stateKey = states.Key{Identity: states.Identity{Model: "tiny"}, Tokens: []uint32{1, 2, 3}}

// states has one state, whose ID is stored.
func (w *world) states() *states.Store {
	s := must[*states.Store](w)(states.Open("states", stateOptions()))
	w.later(func() { s.Close() })
	info := must[states.Info](w)(s.Put(background, stateKey, states.PutOptions{}, states.Source{Name: "target", Content: strings.NewReader(w.saved)}))
	w.stored = info.ID
	return s
}

func storedEvent() *kvevents.Stored {
	return &kvevents.Stored{Hashes: []kvevents.Hash{{Number: 7}}, Tokens: make([]uint32, 16), BlockSize: 16}
}

func (w *world) eventIndex() *index.Index {
	x := must[*index.Index](w)(index.New(index.Options{}))
	require.NoError(w.t, x.Apply("x", storedEvent()))
	return x
}

func (w *world) publisher() *pubsub.Publisher {
	p := must[*pubsub.Publisher](w)(pubsub.Listen(pubsub.PublisherOptions{Events: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0"}))
	w.later(func() { p.Close() })
	require.NoError(w.t, p.Publish(storedEvent()))
	return p
}

func (w *world) planner() *planner.Planner {
	p := planner.New(2)
	p.Prefilled(0, 100, time.Second)
	p.Observe(0, 1<<20, time.Millisecond, time.Unix(1, 0))
	return p
}

// fillings are the structs whose zero value tests little.
var fillings = map[reflect.Type]func(w *world) any{
	of[kvcache.Config]():         func(*world) any { return tiny() },
	of[group.Config]():           func(*world) any { return groupConfig() },
	of[group.Rule]():             func(*world) any { return group.Rule{Kind: group.Window, Window: 8, Block: 2} },
	of[kvquant.KVCacheConfig]():  func(*world) any { return quantConfig() },
	of[disk.Options]():           func(*world) any { return diskOptions() },
	of[states.Options]():         func(*world) any { return stateOptions() },
	of[states.Key]():             func(*world) any { return stateKey },
	of[states.Identity]():        func(*world) any { return stateKey.Identity },
	of[states.Source]():          func(w *world) any { return states.Source{Name: "target", Content: strings.NewReader(w.saved)} },
	of[memory.Options]():         func(*world) any { return memory.Options{Bytes: 1 << 12} },
	of[evictor.Options]():        func(*world) any { return evictor.Options{Policy: evict.Recency{}, Budget: 4} },
	of[evict.Layer]():            func(*world) any { return evict.Layer{Len: 3, Heads: 1, Scores: []float32{1, 2, 3}} },
	of[prefix.Config]():          func(*world) any { return prefix.Config{BlockSize: 2} },
	of[prefix.Query]():           func(*world) any { return prefix.Query{Tokens: []uint32{1, 2, 3, 4, 5}} },
	of[host.PrefixCacheConfig](): func(*world) any { return host.PrefixCacheConfig{MinPrefixLen: 1} },
	of[snapshot.Head]():          func(w *world) any { return *w.head() },
	of[planner.Prompt](): func(*world) any {
		return planner.Prompt{Pieces: []planner.Piece{{Blocks: 3}}, BlockTokens: 4, BlockBytes: 64, Now: time.Unix(2, 0)}
	},
	of[backend.RoPE]():            func(*world) any { return backend.RoPE{Dims: dim} },
	of[kvcache.LayerIO[buffer]](): func(w *world) any { return w.rows() },
	of[ferrumkv.Rows](): func(*world) any {
		n := 2 * heads * dim
		return ferrumkv.Rows{Q: make([]float32, n), K: make([]float32, n), V: make([]float32, n), Out: make([]float32, n)}
	},
	of[backend.AttendShape](): func(*world) any {
		return backend.AttendShape{QHeads: heads, KVHeads: heads, KDim: dim, VDim: dim, BlockSize: 4, Format: backend.Format{Act: backend.F32, K: backend.F32, V: backend.F32}, ContextLens: []uint32{8}, QueryLens: []uint32{2}}
	},
	of[backend.AppendParams[buffer]](): func(w *world) any {
		io, cache, meta := w.layer()
		return backend.AppendParams[buffer]{Cache: cache, Tokens: 2, K: io.K, V: io.V, Slots: meta.Slots}
	},
	of[backend.AttendParams[buffer]](): func(w *world) any {
		io, cache, meta := w.layer()
		return backend.AttendParams[buffer]{Cache: cache, Batch: meta.Ragged, Q: io.Q, QHeads: heads, Scale: 1, Out: backend.Outputs[buffer]{Rows: io.Out}}
	},
}

func (w *world) rows() kvcache.LayerIO[buffer] {
	io, free, err := w.live.layerIO(2)
	require.NoError(w.t, err)
	w.later(free)
	return io
}

// layer is a layer of a planned step of two tokens, in a cache of the test's own: calls with other operands may write anywhere.
func (w *world) layer() (kvcache.LayerIO[buffer], backend.CacheView[buffer], kvcache.StepMetadata[buffer]) {
	b := w.batch(true)
	cache, _, err := w.live.pool.Layer(0)
	require.NoError(w.t, err)
	meta, err := b.Metadata(0)
	require.NoError(w.t, err)
	cache.K.Data, cache.V.Data = w.alloc(w.live, cache.K.Data.Len()), w.alloc(w.live, cache.V.Data.Len())
	return w.rows(), cache, meta
}
