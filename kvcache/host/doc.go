// Package host is the cache of programs that compute attention themselves, on the CPU or in a graph
// that they build: plain rows in host memory, of any Element: float32, float64, or 16 bits such as those
// of f16. It knows no device, step or attention. Programs that let the library compute attention use the pools of package kvcache;
// quantized rows with eviction are in package kvcache/quant.
//
// A PagedKvCache is a list of vectors that grows at its end, in blocks that it shares with its
// clones until one of them writes. Caches take their blocks from a BlockStore. PagedLayers joins
// the caches of a model's layers to one sequence.
//
// A PrefixKvCache stores the keys and values of prompts, and restores them for prompts with the
// same beginning. It reads a runner's cache through KvCacheAccess and writes it through
// KvCacheTarget: PagedLayers implements both, Dense does over a runner's own tensors, and so can any
// cache in host memory. What it finds is
// a CachedKvState, which never changes and needs no release.
//
// # Concurrency
//
// BlockStore, PrefixKvCache and CachedKvState are safe for concurrent use. A PagedKvCache, PagedLayers
// or Dense may be used by one goroutine at a time, its clones by others at the same time.
package host
