package prefix

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/stretchr/testify/require"
)

// promptBlocks blocks of 16 tokens are a prompt of 8,192 tokens.
const promptBlocks = 512

func prompt(from int) []uint32 { return span(from, from+16*promptBlocks) }

// quiet is a rig whose soundness is not checked at the end, which takes long where
// there are a million blocks.
func quiet(b *testing.B, blocks int, cfg Config) *rig {
	alloc, err := block.New(blocks)
	require.NoError(b, err)
	tree, err := New(alloc, cfg)
	require.NoError(b, err)
	return &rig{t: b, tree: tree, alloc: alloc, root: fingerprint.Root(Scope{})}
}

// A prompt of 8,192 tokens that is cached whole, among a thousand others.
func BenchmarkLookup(b *testing.B) {
	r := quiet(b, 1<<16, Config{BlockSize: 16})
	tokens := prompt(0)
	r.cache(r.root, tokens)
	for i := range 1000 {
		r.cache(r.root, span(100_000+16*i, 100_000+16*i+16))
	}
	q := Query{Tokens: tokens}
	blocks, keys := make([]block.Block, 0, promptBlocks), make([]Key, 0, promptBlocks)
	b.Run("blocks", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			blocks, _ = r.tree.Lookup(blocks[:0], r.root, q)
		}
		require.Len(b, blocks, promptBlocks)
	})
	b.Run("keys", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			blocks, _ = r.tree.Lookup(blocks[:0], r.root, q)
			keys = r.root.Keys(keys[:0], 16, q)
		}
	})
	b.Run("chain", func(b *testing.B) { // what is left of keys where digests are known
		digests := q.Digests(nil, 16)
		b.ReportAllocs()
		for b.Loop() {
			keys = r.root.Key.Chain(keys[:0], digests, Exact)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			blocks := make([]block.Block, 0, promptBlocks)
			for pb.Next() {
				blocks, _ = r.tree.Lookup(blocks[:0], r.root, q)
			}
		})
	})
	b.Run("take", func(b *testing.B) { // and release: what a hit costs
		b.ReportAllocs()
		for b.Loop() {
			_, m := r.tree.Lookup(blocks[:0], r.root, q)
			blocks, _, _ = r.tree.Take(blocks[:0], r.root, q, RetentionHint{}, m)
			_ = r.tree.Release(blocks)
		}
	})
}

// 512 new blocks, in a tree that has a prompt of as many; silent and with events.
func BenchmarkInsert(b *testing.B) {
	for _, name := range []string{"silent", "events"} {
		b.Run(name, func(b *testing.B) {
			r := quiet(b, 1<<16, Config{BlockSize: 16})
			r.cache(r.root, prompt(0))
			if name == "events" {
				r.tree.Subscribe(1)
			}
			tokens, blocks := prompt(100_000), r.fresh(r.root, promptBlocks)
			b.ReportAllocs()
			for b.Loop() {
				n, _, err := r.tree.Insert(nil, Path{Root: r.root}, tokens, blocks)
				if n != promptBlocks || err != nil {
					b.Fatal(n, err)
				}
				b.StopTimer()
				r.tree.Forget(blocks[0])
				b.StartTimer()
			}
		})
	}
}

// A block evicted from a million cached ones: paths of 512 blocks, and of one. Half of
// them are evicted at a time, and are put back while the clock stands.
func BenchmarkEvict(b *testing.B) {
	const million = 1 << 20
	for _, policy := range []Policy{LRU, Adaptive} {
		for _, length := range []int{promptBlocks, 1} {
			b.Run(fmt.Sprintf("%v/path=%d", policy, length), func(b *testing.B) {
				r := quiet(b, million, Config{BlockSize: 1, Policy: policy})
				next := uint32(0)
				fill := func() {
					for r.alloc.Free() > 0 {
						tokens := make([]uint32, length)
						for i := range tokens {
							tokens[i] = next * 2654435761 // in no order
							next++
						}
						blocks, err := r.alloc.AllocateN(nil, length)
						if err != nil {
							b.Fatal(err)
						}
						if _, _, err = r.tree.Insert(nil, Path{Root: r.root}, tokens, blocks); err == nil {
							err = r.tree.Release(blocks)
						}
						if err != nil {
							b.Fatal(err)
						}
					}
				}
				fill()
				runtime.GC()
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if r.alloc.Cached() == million/2 {
						b.StopTimer()
						fill()
						runtime.GC() // not while the clock is running
						b.StartTimer()
					}
					if !r.tree.Evict(1, r.root) {
						b.Fatal("nothing to evict")
					}
				}
			})
		}
	}
}

// A lookup into the caller's buffer, and a hit of a path that is known, allocate nothing.
func TestHotPathsDoNotAllocate(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	r := newRig(t, 1024, Config{BlockSize: 16})
	r.cache(r.root, prompt(0))
	q := Query{Tokens: prompt(0)[:16*promptBlocks-1]}
	buf := make([]block.Block, 0, promptBlocks)
	keys, digests := make([]Key, 0, promptBlocks), make([]Digest, 0, promptBlocks)
	for name, f := range map[string]func(){
		"lookup": func() { r.tree.Lookup(buf, r.root, q) },
		"miss":   func() { r.tree.Lookup(buf, salted0, q) },
		"match":  func() { r.tree.Match(r.root, q) },
		"keys":   func() { r.root.Keys(keys, 16, q) },
		"digests": func() {
			digests = q.Digests(digests[:0], 1000)
			r.root.Key.Chain(keys, digests, Truncated)
		},
		"one key": func() { chain(r.root.Key, q.Tokens[:16], mark{Key{1}, Evicted}) },
		"take": func() {
			_, m := r.tree.Lookup(buf, r.root, q)
			blocks, _, _ := r.tree.Take(buf, r.root, q, RetentionHint{}, m)
			_ = r.tree.Release(blocks)
		},
		"again": func() {
			blocks, m, _ := r.tree.Take(buf, r.root, Query{Tokens: q.Tokens[:160]}, RetentionHint{}, Match{})
			_, _, _ = r.tree.Insert(nil, Path{Root: r.root}, q.Tokens[:160], blocks)
			_ = r.tree.Release(blocks[:m.Blocks])
		},
		"stats": func() { r.tree.Stats(); r.tree.SaltStats(r.root); r.tree.Evictable(r.root) },
	} {
		require.Zero(t, testing.AllocsPerRun(20, f), name)
	}
}

var salted0 = salted("0")
