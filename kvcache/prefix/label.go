package prefix

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"math/bits"
	"unsafe"
)

// Fidelity says how the content of a block differs from what the model computes for its path in one
// pass. The zero value is exact. It is a byte of the block's key, so the values never change
// (docs/keys.md).
type Fidelity uint8

const (
	// Requantized content was quantized and restored, or computed from such content.
	Requantized Fidelity = 1 << iota
	// Evicted content was computed without tokens that an eviction policy had dropped.
	Evicted
	// Truncated content was computed with a context that was cut afterwards.
	Truncated

	// Exact content is accepted by every query.
	Exact Fidelity = 0
)

// Query is a list of tokens, and what its blocks depend on besides them.
type Query struct {
	Tokens []uint32
	// Extra has a key for each block whose content depends on more than its tokens, such as the
	// images behind placeholder tokens (see ItemKeys). The zero Key is none; the list may be
	// shorter than the query.
	Extra []Key
	// Accept is the set of differences that the reader accepts. 0: exact blocks only. When there
	// are several blocks, a more exact one is preferred.
	Accept Fidelity
}

// tokens are those of block i, fewer at the end.
func (q Query) tokens(i, blockSize int) []uint32 {
	return q.Tokens[i*blockSize : min((i+1)*blockSize, len(q.Tokens))]
}

func (q Query) extra(i int) Key {
	if i < len(q.Extra) {
		return q.Extra[i]
	}
	return Key{}
}

// mark is the part of a block's label that is not a token.
type mark struct {
	extra    Key
	fidelity Fidelity
}

func (m mark) compare(o mark) int {
	if c := cmp.Compare(m.fidelity, o.fidelity); c != 0 {
		return c
	}
	return bytes.Compare(m.extra[:], o.extra[:])
}

// common is the number of leading tokens that a and b have in common.
func common(a, b []uint32) int {
	const step = 16
	n, i := min(len(a), len(b)), 0
	for i+step <= n && *(*[step]uint32)(a[i:]) == *(*[step]uint32)(b[i:]) {
		i += step
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// compareLabels orders blocks: by mark, then by tokens, a shorter one first. So the
// neighbours of a block are those of its mark with the most tokens in common.
// shared is how many those are, 0 between marks.
func compareLabels(a []uint32, am mark, b []uint32, bm mark) (order, shared int) {
	if am != bm {
		return am.compare(bm), 0
	}
	shared = common(a, b)
	if shared < len(a) && shared < len(b) {
		return cmp.Compare(a[shared], b[shared]), shared
	}
	return cmp.Compare(len(a), len(b)), shared
}

// seed makes the hashes of a process its own, so that nobody can prepare collisions.
// They decide statistics and the order of eviction, never whose content is whose.
var seed = maphash.MakeSeed()

// hashLabel is the hash of a block after a path with hash parent.
func hashLabel(parent uint64, tokens []uint32, m mark) uint64 {
	h := maphash.Bytes(seed, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(tokens))), 4*len(tokens)))
	if m != (mark{}) {
		h ^= maphash.Comparable(seed, m)
	}
	hi, lo := bits.Mul64(h^0x9e3779b97f4a7c15, parent^0xd1b54a32d192ed03)
	return hi ^ lo
}
