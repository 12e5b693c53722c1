// Package host is the cache of programs that compute attention themselves, on the CPU or in a
// graph that they build: plain rows of float32 or float64 in host memory. It knows no device, no
// step and no attention. Programs that have attention computed, on any device, use the pools of
// package kvcache; the same rows in fewer bits, with eviction, are in package quant.
//
// A [PagedKvCache] is a list of vectors that grows at one end, in blocks that it shares with its
// clones until one of them writes; caches take their blocks from a [BlockStore]. [PagedLayers]
// joins the caches of a model's layers to one sequence.
//
// A [PrefixKvCache] keeps what was computed for prompts, and restores it for prompts that begin
// alike. It reads a runner's cache through [KvCacheAccess] and writes it through
// [KvCacheTarget]: PagedLayers has both, and any cache in host memory can. What it finds is a
// [CachedKvState], which never changes and needs no release.
//
// # Concurrency
//
// BlockStore, PrefixKvCache and CachedKvState are safe for concurrent use. A PagedKvCache or
// PagedLayers is used by one goroutine at a time, its clones by others at the same time.
package host
