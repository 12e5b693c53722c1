package extremes

import (
	"context"
	"reflect"
	"time"

	"github.com/ferrumkv/ferrumkv"
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/evict"
	"github.com/ferrumkv/ferrumkv/kvcache/evictor"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/host"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	kvquant "github.com/ferrumkv/ferrumkv/kvcache/quant"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot/zstd"
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

func null[T any]() value { return boxed("nil", func(*world) (none T) { return none }) }
func zeroed[T any]() value {
	return boxed("&zero", func(*world) *T { return new(T) })
}

// makers are the values of types with constructors: live ones, closed ones, those of another device, zeros and nil.
var makers = map[reflect.Type][]value{
	of[backend.Stream](): {boxed("live", func(w *world) backend.Stream { return w.live.stream }), boxed("foreign", func(w *world) backend.Stream { return w.other.stream }),
		boxed("closed", func(w *world) backend.Stream { return w.closed.stream }), null[backend.Stream]()},
	of[backend.Backend[buffer]](): {boxed("live", func(w *world) backend.Backend[buffer] { return w.live.be }), boxed("closed", func(w *world) backend.Backend[buffer] { return w.closed.be }),
		boxed("zero", func(w *world) backend.Backend[buffer] { return &cpu.Backend{} }), null[backend.Backend[buffer]]()},
	of[backend.Backend[backend.AnyBuffer]](): {boxed("live", func(w *world) backend.Backend[backend.AnyBuffer] { return backend.Erase(w.live.be) }),
		boxed("closed", func(w *world) backend.Backend[backend.AnyBuffer] { return backend.Erase(w.closed.be) }), null[backend.Backend[backend.AnyBuffer]]()},
	of[buffer](): {boxed("live", (*world).buffer), boxed("large", func(w *world) buffer { return w.alloc(w.live, 4096) }),
		boxed("foreign", func(w *world) buffer { return w.alloc(w.other, 96) }),
		boxed("freed", func(w *world) buffer {
			b := w.buffer()
			require.NoError(w.t, w.live.be.Free(b))
			return b
		}), zeroed[cpu.Buffer](), null[buffer]()},
	of[backend.AnyBuffer](): {boxed("live", func(w *world) backend.AnyBuffer { return backend.Wrap(w.buffer()) }), plain("zero", backend.AnyBuffer{})},
	of[backend.HostMemory](): {boxed("live", (*world).hostMemory), boxed("closed", func(w *world) backend.HostMemory {
		m := w.hostMemory()
		m.Close()
		return m
	}), null[backend.HostMemory]()},
	of[*cpu.Backend](): {boxed("live", func(w *world) *cpu.Backend { return w.live.be }), boxed("closed", func(w *world) *cpu.Backend { return w.closed.be }), zeroed[cpu.Backend]()},
	of[*kvcache.Pool[buffer]](): {boxed("live", func(w *world) *kvcache.Pool[buffer] { return w.live.pool }), boxed("foreign", func(w *world) *kvcache.Pool[buffer] { return w.other.pool }),
		boxed("closed", func(w *world) *kvcache.Pool[buffer] { return w.closed.pool }), zeroed[kvcache.Pool[buffer]]()},
	of[*kvcache.Sequence[buffer]](): {boxed("live", func(w *world) *kvcache.Sequence[buffer] { return w.sequence(w.live) }), boxed("foreign", func(w *world) *kvcache.Sequence[buffer] { return w.sequence(w.other) }),
		boxed("empty", func(w *world) *kvcache.Sequence[buffer] {
			s, _, err := w.live.pool.Open(nil, kvcache.OpenOptions{})
			require.NoError(w.t, err)
			w.later(func() { s.Release() })
			return s
		}),
		boxed("released", func(w *world) *kvcache.Sequence[buffer] {
			s := w.sequence(w.live)
			require.NoError(w.t, s.Release())
			return s
		}),
		boxed("suspended", func(w *world) *kvcache.Sequence[buffer] {
			s := w.sequence(w.live)
			require.NoError(w.t, s.Suspend())
			return s
		}), zeroed[kvcache.Sequence[buffer]](), null[*kvcache.Sequence[buffer]]()},
	of[*kvcache.Batch[buffer]](): {boxed("planned", func(w *world) *kvcache.Batch[buffer] { return w.batch(true) }), boxed("filled", func(w *world) *kvcache.Batch[buffer] { return w.batch(false) }),
		boxed("empty", func(w *world) *kvcache.Batch[buffer] { return w.live.pool.NewBatch() }),
		boxed("closed", func(w *world) *kvcache.Batch[buffer] { return w.closed.pool.NewBatch() }), zeroed[kvcache.Batch[buffer]]()},
	of[*kvcache.Standalone[buffer]](): {boxed("live", func(w *world) *kvcache.Standalone[buffer] { return w.standalone() }), zeroed[kvcache.Standalone[buffer]]()},
	of[*ferrumkv.Cache](): {boxed("live", (*world).cache), boxed("closed", func(w *world) *ferrumkv.Cache {
		c := w.cache()
		require.NoError(w.t, c.Close())
		return c
	}), zeroed[ferrumkv.Cache]()},
	of[*ferrumkv.Step](): {boxed("live", (*world).plannedStep), boxed("closed", func(w *world) *ferrumkv.Step {
		s := w.plannedStep()
		require.NoError(w.t, s.Close())
		return s
	}), zeroed[ferrumkv.Step]()},
	of[*ferrumkv.Sequence](): {boxed("live", func(w *world) *ferrumkv.Sequence {
		s, _, err := w.cache().Pool.Open(nil, kvcache.OpenOptions{})
		require.NoError(w.t, err)
		return s
	}), zeroed[ferrumkv.Sequence](), null[*ferrumkv.Sequence]()},
	of[*block.BlockAllocator](): {boxed("live", (*world).allocator), zeroed[block.BlockAllocator](), null[*block.BlockAllocator]()},
	of[block.Block]():           {plain("held", block.Block{ID: 0, Gen: 1}), plain("zero", block.Block{}), plain("cached", block.Block{ID: 2, Gen: 1}), plain("far", block.Block{ID: 1<<32 - 1, Gen: 1<<32 - 1}), plain("stale", block.Block{ID: 1, Gen: 7})},
	of[*prefix.Tree](): {boxed("live", (*world).tree), boxed("closed", func(w *world) *prefix.Tree {
		tree := w.tree()
		tree.Close()
		return tree
	}), zeroed[prefix.Tree]()},
	of[*prefix.Lease](): {boxed("live", func(w *world) *prefix.Lease {
		lease, err := w.live.pool.Pin([]uint32{1, 2, 3, 4}, time.Second, kvcache.OpenOptions{})
		require.NoError(w.t, err)
		w.later(func() { w.live.pool.Unpin(lease) })
		return lease
	}), zeroed[prefix.Lease](), null[*prefix.Lease]()},
	of[*prefix.Subscription](): {boxed("live", func(w *world) *prefix.Subscription {
		sub, _, err := w.live.pool.Watch(1)
		require.NoError(w.t, err)
		w.later(func() { w.live.pool.Unwatch(sub) })
		return sub
	}), zeroed[prefix.Subscription](), null[*prefix.Subscription]()},
	of[*group.Cache]():                 {boxed("live", (*world).groups), zeroed[group.Cache]()},
	of[*evictor.Evictor[buffer]]():     {boxed("live", (*world).evictor), zeroed[evictor.Evictor[buffer]]()},
	of[*host.BlockStore[float32]]():    {boxed("live", (*world).blockStore), zeroed[host.BlockStore[float32]]()},
	of[*host.PagedKvCache[float32]]():  {boxed("live", (*world).paged), boxed("released", (*world).pagedReleased), zeroed[host.PagedKvCache[float32]](), null[*host.PagedKvCache[float32]]()},
	of[*host.PagedLayers[float32]]():   {boxed("live", (*world).pagedLayers), zeroed[host.PagedLayers[float32]](), null[*host.PagedLayers[float32]]()},
	of[*host.Dense[float32]]():         {boxed("live", (*world).dense), zeroed[host.Dense[float32]]()},
	of[*host.CachedKvState[float32]](): {boxed("live", (*world).state), zeroed[host.CachedKvState[float32]](), null[*host.CachedKvState[float32]]()},
	of[*host.PrefixKvCache[float32]](): {boxed("live", (*world).prefixCache), zeroed[host.PrefixKvCache[float32]]()},
	of[host.KvCacheAccess[float32]]():  {boxed("live", func(w *world) host.KvCacheAccess[float32] { return w.state() }), boxed("layers", func(w *world) host.KvCacheAccess[float32] { return w.pagedLayers() }), null[host.KvCacheAccess[float32]]()},
	of[host.KvCacheTarget[float32]]():  {boxed("live", func(w *world) host.KvCacheTarget[float32] { return w.pagedLayers() }), boxed("dense", func(w *world) host.KvCacheTarget[float32] { return w.dense() }), null[host.KvCacheTarget[float32]]()},
	of[*kvquant.CacheManager]():        {boxed("live", (*world).quantized), zeroed[kvquant.CacheManager]()},
	of[*kvquant.Layer]():               {boxed("live", func(w *world) *kvquant.Layer { l, _ := w.quantized().Layer(0); return l }), zeroed[kvquant.Layer]()},
	of[*snapshot.Reader]():             {boxed("live", (*world).reader), boxed("at chunks", (*world).readerAtChunks), zeroed[snapshot.Reader]()},
	of[*snapshot.Writer]():             {boxed("live", (*world).writer), zeroed[snapshot.Writer]()},
	of[snapshot.Compressor]():          {boxed("zstd", func(*world) snapshot.Compressor { return zstd.Compressor{} }), null[snapshot.Compressor]()},
	of[states.Compressor]():            {boxed("zstd", func(*world) states.Compressor { return zstd.Compressor{} }), null[states.Compressor]()},
	of[*states.Store](): {boxed("live", (*world).states), boxed("closed", func(w *world) *states.Store {
		s := w.states()
		require.NoError(w.t, s.Close())
		return s
	}), zeroed[states.Store]()},
	of[states.ID]():        {boxed("live", func(w *world) states.ID { return w.stored }), plain("zero", states.ID{}), plain("none", states.ID{1})},
	of[*tier.Mover]():      {boxed("live", (*world).mover), boxed("closed", (*world).moverClosed), zeroed[tier.Mover]()},
	of[tier.Tier]():        {boxed("live", func(w *world) tier.Tier { return w.memory() }), boxed("closed", (*world).tierClosed), null[tier.Tier]()},
	of[*memory.Tier]():     {boxed("live", (*world).memory), zeroed[memory.Tier]()},
	of[*disk.Tier]():       {boxed("live", (*world).disk), zeroed[disk.Tier]()},
	of[*planner.Planner](): {boxed("live", (*world).planner), zeroed[planner.Planner]()},
	of[kvevents.Event](): {boxed("stored", func(*world) kvevents.Event { return storedEvent() }), boxed("removed", func(*world) kvevents.Event { return &kvevents.Removed{Hashes: storedEvent().Hashes} }),
		boxed("cleared", func(*world) kvevents.Event { return &kvevents.Cleared{} }), boxed("zero", func(*world) kvevents.Event { return &kvevents.Stored{} }),
		boxed("no stored", func(*world) kvevents.Event { return (*kvevents.Stored)(nil) }), boxed("no removed", func(*world) kvevents.Event { return (*kvevents.Removed)(nil) }), null[kvevents.Event]()},
	of[*schedule.Scheduler[buffer]](): {boxed("live", (*world).scheduler), zeroed[schedule.Scheduler[buffer]]()},
	of[*schedule.Answer](): {boxed("live", func(w *world) *schedule.Answer {
		return must[*schedule.Answer](w)(w.scheduler().Submit(context.Background(), schedule.Request{Prompt: []uint32{1, 2}}))
	}), zeroed[schedule.Answer]()},
	of[schedule.Model[buffer]](): {boxed("live", func(*world) schedule.Model[buffer] { return noModel{} }), null[schedule.Model[buffer]]()},
	of[*index.Index]():           {boxed("live", (*world).eventIndex), zeroed[index.Index]()},
	of[*pubsub.Publisher](): {boxed("live", (*world).publisher), boxed("closed", func(w *world) *pubsub.Publisher {
		p := w.publisher()
		require.NoError(w.t, p.Close())
		return p
	}), zeroed[pubsub.Publisher]()},
	of[*pubsub.Subscriber](): {boxed("live", func(w *world) *pubsub.Subscriber { return pubsub.Subscribe(pubsub.SubscriberOptions{}) }), zeroed[pubsub.Subscriber]()},
	of[evict.Policy]():       {boxed("window", func(*world) evict.Policy { return evict.SlidingWindow{Sinks: 1, Window: 2} }), boxed("h2o", func(*world) evict.Policy { return evict.H2O{} }), boxed("snapkv", func(*world) evict.Policy { return evict.SnapKV{} }), boxed("pyramid", func(*world) evict.Policy { return evict.PyramidKV{} }), boxed("far", func(*world) evict.Policy { return evict.SlidingWindow{Sinks: 1 << 62, Window: 1 << 62} }), boxed("negative", func(*world) evict.Policy { return evict.SnapKV{Window: -1, Sinks: -1 << 63, Kernel: -3} }), boxed("steep", func(*world) evict.Policy { return evict.PyramidKV{Beta: 1 << 62} }), null[evict.Policy]()},
}

// given are the test's values of a type, or nil.
func given(t reflect.Type) []value {
	if known := makers[t]; known != nil {
		return known
	}
	return general(t)
}

// meant is a struct as a program fills it in, or nil for the zero value.
func meant(t reflect.Type) func(w *world) reflect.Value {
	f := fillings[t]
	if f == nil {
		return nil
	}
	return func(w *world) reflect.Value { return reflect.ValueOf(f(w)) }
}
