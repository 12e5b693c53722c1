// Package quality measures what quantization and eviction cost: a model reads texts
// with its keys and values in one format after another, and its predictions are
// compared with those from a cache in float32. It does so where prefixes are reused,
// under a sliding window and with contexts that are shifted, too: see Scene.
package quality
