// Package rolling shows a conversation without end in a cache of fixed size: when
// the cache is full, the oldest tokens behind the first few are dropped, and the
// rest moves up. RoPE is the library's: it rotates on append and turns on shift.
package rolling
