// Package rolling shows an endless conversation in a cache of fixed size: when the cache
// is full, the oldest tokens after the first few are dropped, and the rest moves up. The
// library applies RoPE: Append rotates keys to their positions, Shift to their new ones.
package rolling
