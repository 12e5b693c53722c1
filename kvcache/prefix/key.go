package prefix

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"encoding/hex"
)

// Key identifies a block's content outside of the tree: in events, lower tiers and other processes.
// Keys are a chain of SHA-256 sums from a root: equal keys of exact blocks mean equal content, and
// nobody can construct two contents with one key. docs/keys.md specifies them for other languages.
// The zero Key is no key.
type Key [sha256.Size]byte

func (k Key) String() string { return hex.EncodeToString(k[:]) }

func (k Key) compare(o Key) int { return bytes.Compare(k[:], o[:]) }

func (k Key) word() uint64 { return binary.LittleEndian.Uint64(k[:]) }

// Digest is the sum of a block's own tokens and extra key, without its path.
type Digest [sha256.Size]byte

// Keys appends the keys of the query's blocks of blockSize tokens to dst, in order, including that
// of a last block with fewer tokens. They are those of exact content.
func (r Root) Keys(dst []Key, blockSize int, q Query) []Key {
	if blockSize < 1 {
		return dst
	}
	blockSize = min(blockSize, max(len(q.Tokens), 1)) // so that no product overflows
	var room [32]Digest
	parent := r.Key
	for at := 0; at*blockSize < len(q.Tokens); at += len(room) {
		digests := q.blocks(at, at+len(room), blockSize).Digests(room[:0], blockSize)
		dst = parent.Chain(dst, digests, Exact)
		parent = dst[len(dst)-1]
	}
	return dst
}

// blocks is the part of the query from block i to block j.
func (q Query) blocks(i, j, blockSize int) Query {
	end := len(q.Tokens)
	if j < (end+blockSize-1)/blockSize {
		end = j * blockSize
	}
	return Query{Tokens: q.Tokens[i*blockSize : end], Extra: q.Extra[min(i, len(q.Extra)):min(j, len(q.Extra))]}
}

// Digests appends the digests of the query's blocks to dst, in order. They do not depend on each
// other: parts of a long prompt that begin at a block, with their Extra, may be digested in
// parallel. Key.Chain computes keys from them.
func (q Query) Digests(dst []Digest, blockSize int) []Digest {
	if blockSize < 1 {
		return dst
	}
	h := sha256.New()
	var buf [2 + sha256.Size + 4*piece + maxPadding]byte
	var state [stateSize]byte
	for i := 0; i*blockSize < len(q.Tokens); i++ {
		tokens, extra := q.tokens(i, blockSize), q.extra(i)
		n, width := 2, widthOf(tokens)
		buf[0], buf[1] = 'T', byte(width)
		if extra != (Key{}) {
			buf[0] = 'E'
			n += copy(buf[n:], extra[:])
		}
		size := n + len(tokens)*width
		h.Reset()
		for {
			few := tokens[:min(len(tokens), piece)]
			for _, t := range few {
				binary.LittleEndian.PutUint32(buf[n:], t) // the next one overwrites what is too much
				n += width
			}
			if tokens = tokens[len(few):]; len(tokens) == 0 {
				break
			}
			h.Write(buf[:n])
			n = 0
		}
		if dst = append(dst, Digest{}); inState {
			h.Write(padded(buf[:n], size))
			sum, _ := h.(encoding.BinaryAppender).AppendBinary(state[:0])
			dst[len(dst)-1] = Digest(sum[sumAt:])
		} else {
			h.Write(buf[:n])
			h.Sum(dst[len(dst)-1][:0])
		}
	}
	return dst
}

// piece is how many tokens are written at a time.
const piece = 16

// widthOf is how many bytes the largest of some tokens takes, at least one. With three for
// each, 16 tokens are one block of SHA-256. Numbers of as many bytes as each needs would be
// as short and take three times as long to write.
func widthOf(tokens []uint32) int {
	var all uint32
	for _, t := range tokens {
		all |= t
	}
	width := 1
	for ; width < 4 && all>>(8*width) != 0; width++ {
	}
	return width
}

// Chain appends the keys of blocks to dst, given their digests; k is the key of the block before
// the first one, or of the root.
func (k Key) Chain(dst []Key, digests []Digest, f Fidelity) []Key {
	h := sha256.New() // one for all, which does not escape: Sum256 makes one for each
	var room [1 + 2*sha256.Size + 1 + maxPadding]byte
	var state [stateSize]byte
	text := room[:1+2*sha256.Size+1]
	parent, digest := (*Key)(text[1:]), (*Digest)(text[1+sha256.Size:])
	text[0], *parent, text[len(text)-1] = 'B', k, byte(f)
	if inState {
		text = padded(text, len(text))
	}
	for i := range digests {
		*digest = digests[i]
		h.Reset()
		h.Write(text)
		if inState {
			sum, _ := h.(encoding.BinaryAppender).AppendBinary(state[:0])
			*parent = Key(sum[sumAt:])
		} else {
			h.Sum(parent[:0])
		}
		dst = append(dst, *parent)
	}
	return dst
}

// chain is the key of one block after a parent.
func chain(parent Key, tokens []uint32, m mark) Key {
	var digest [1]Digest
	var key [1]Key
	q := Query{Tokens: tokens, Extra: []Key{m.extra}}
	return parent.Chain(key[:0], q.Digests(digest[:0], len(tokens)), m.fidelity)[0]
}
