package prefix

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"math/bits"
	"unsafe"
)

// Fidelity says in which ways the content of a block differs from what a plain run
// of the model would have computed. The zero value is exact. It is a byte of a block's key:
// values are final (docs/keys.md).
type Fidelity uint8

const (
	// Requantized content was stored in fewer bits on its way.
	Requantized Fidelity = 1 << iota
	// Evicted content lacks tokens that an eviction policy dropped.
	Evicted
	// Truncated content was computed with a context that has been cut since.
	Truncated

	// Exact content is what every reader accepts.
	Exact Fidelity = 0
)

// Query is a list of tokens, and what its blocks depend on besides.
type Query struct {
	Tokens []uint32
	// Extra has a key for each block whose content depends on more than tokens: the
	// images behind placeholder tokens above all (see ItemKeys). A block beyond its
	// end has none, like the zero Key.
	Extra []Key
	// Accept is what the content of a block may lack. A zero Accept gets exact
	// blocks only. Where there are several, the more exact one is preferred.
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

// hashLabel is the hash of a block behind a path with hash parent.
func hashLabel(parent uint64, tokens []uint32, m mark) uint64 {
	h := maphash.Bytes(seed, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(tokens))), 4*len(tokens)))
	if m != (mark{}) {
		h ^= maphash.Comparable(seed, m)
	}
	hi, lo := bits.Mul64(h^0x9e3779b97f4a7c15, parent^0xd1b54a32d192ed03)
	return hi ^ lo
}
