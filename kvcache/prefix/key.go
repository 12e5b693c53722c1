package prefix

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
)

// Key names a block for everything outside of the tree: events, other tiers, other
// processes. It is a chain of SHA-256 sums from the root: equal keys mean equal
// content, and nobody can make two that are alike. The zero Key is no key.
type Key [sha256.Size]byte

func (k Key) String() string { return hex.EncodeToString(k[:]) }

func (k Key) compare(o Key) int { return bytes.Compare(k[:], o[:]) }

func (k Key) word() uint64 { return binary.LittleEndian.Uint64(k[:]) }

// Keys appends the keys of the query's blocks to dst, in order, that of a last
// block with fewer tokens included. The content is exact.
func (r Root) Keys(dst []Key, blockSize int, q Query) []Key {
	if blockSize < 1 {
		return dst
	}
	parent := r.Key
	for i := 0; i*blockSize < len(q.Tokens); i++ {
		parent = chain(parent, q.tokens(i, blockSize), mark{extra: q.extra(i)})
		dst = append(dst, parent)
	}
	return dst
}

// chain is the key of a block behind parent. The parts have fixed sizes or say
// theirs, so that no two blocks encode alike. 16 tokens and no extra make two
// blocks of SHA-256.
func chain(parent Key, tokens []uint32, m mark) Key {
	var fixed [192]byte
	buf := append(fixed[:0], 'B')
	buf = append(buf, parent[:]...)
	buf = binary.LittleEndian.AppendUint32(buf, uint32(len(tokens)))
	for _, t := range tokens {
		buf = binary.LittleEndian.AppendUint32(buf, t)
	}
	buf = append(buf, byte(m.fidelity))
	if m.extra != (Key{}) {
		buf = append(buf, m.extra[:]...)
	}
	return sha256.Sum256(buf)
}

// digest is a SHA-256 sum of parts that say their own length: no two lists of parts
// encode alike, and an absent part differs from an empty one.
type digest struct{ h hash.Hash }

func newDigest(domain string) digest {
	d := digest{sha256.New()}
	d.bytes([]byte(domain))
	return d
}

func (d digest) absent() { d.h.Write([]byte{0}) }

func (d digest) bytes(b []byte) {
	var head [9]byte
	head[0] = 1
	binary.LittleEndian.PutUint64(head[1:], uint64(len(b)))
	d.h.Write(head[:])
	d.h.Write(b)
}

func (d digest) number(n int) {
	d.bytes(binary.LittleEndian.AppendUint64(nil, uint64(n)))
}

func (d digest) optional(b []byte) {
	if b == nil {
		d.absent()
		return
	}
	d.bytes(b)
}

func (d digest) sum() (k Key) {
	d.h.Sum(k[:0])
	return k
}
