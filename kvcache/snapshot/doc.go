// Package snapshot is the format in which what sequences have in a pool outlives it: docs/snapshot.md specifies it. A Writer
// writes a stream from front to back, a Reader reads one and verifies it. Neither knows a pool: see kvcache.Pool.Save and
// kvcache.Pool.Load, which do. Options say whether a stream is compressed, by package
// kvcache/snapshot/zstd, and sealed.
//
// A Reader trusts nothing that it reads. It allocates no more than a small multiple of what it has read, of a compressed chunk no more than 64
// times its bytes, and what it returns fits together: every number is within what it counts, and every chunk has the bytes that its strip says.
package snapshot
