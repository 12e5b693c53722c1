// The hash chains by which engines name blocks, for programs that must arrive at the same names by themselves.

package kvevents

import (
	"crypto/sha256"
)

// Digest is a link of a chain of hashes: it covers all tokens up to the end of a block.
type Digest [sha256.Size]byte

// VLLM returns the number that vLLM sends for a digest: its last eight bytes.
func (d Digest) VLLM() uint64 { return be.Uint64(d[len(d)-8:]) }

// SGLang returns the number that SGLang sends for a digest: its first eight bytes, with a sign.
func (d Digest) SGLang() int64 { return int64(be.Uint64(d[:8])) }

// VLLMRoot returns the digest before the first block of vLLM with --prefix-caching-hash-algo sha256_cbor: the SHA-256 of the seed, which is
// the environment variable PYTHONHASHSEED, in CBOR. Without that variable vLLM draws a random root that no other program can know.
func VLLMRoot(seed string) Digest {
	return sha256.Sum256(appendCBORText(nil, seed))
}

// AppendVLLM appends the digests of the whole blocks of a prompt, as vLLM computes them with sha256_cbor: each is the SHA-256 of the canonical CBOR of
// [the digest before, [the tokens of the block], the extra keys or nil]. Extra keys are the name of the adapter, for every block, and the salt, for the first;
// "" is none. Prompts with images have further keys, which engines send in Stored.ExtraKeys. With a block size below 1 there are no blocks.
func AppendVLLM(dst []Digest, root Digest, tokens []uint32, blockSize int, loraName, salt string) []Digest {
	if blockSize < 1 {
		return dst
	}
	var b []byte
	for first := true; len(tokens) >= blockSize; tokens, first = tokens[blockSize:], false {
		b = appendCBOR(b[:0], cborArray, 3)
		b = append(appendCBOR(b, cborBytes, uint64(len(root))), root[:]...)
		b = appendCBOR(b, cborArray, uint64(blockSize))
		for _, t := range tokens[:blockSize] {
			b = appendCBOR(b, cborUint, uint64(t))
		}
		b = appendExtras(b, loraName, salt, first)
		root = sha256.Sum256(b)
		dst = append(dst, root)
	}
	return dst
}

// appendExtras appends the extra keys of a block, in CBOR.
func appendExtras(b []byte, loraName, salt string, first bool) []byte {
	var extras [2]string
	n := 0
	if loraName != "" {
		extras[n] = loraName
		n++
	}
	if salt != "" && first {
		extras[n] = salt
		n++
	}
	if n == 0 {
		return append(b, cborNil)
	}
	b = appendCBOR(b, cborArray, uint64(n))
	for _, x := range extras[:n] {
		b = appendCBORText(b, x)
	}
	return b
}

// AppendSGLang appends the digests of the pages of a prompt as SGLang computes them: each is the SHA-256 of the digest before and the tokens of the page,
// as little-endian numbers of 32 bits. There is no root, and the model's name is not hashed. The last page may have fewer tokens; SGLang caches
// whole pages only. For pairs of tokens (Stored.Pairs), pageSize counts both numbers of a pair. With a page size below 1 there are no pages.
func AppendSGLang(dst []Digest, tokens []uint32, pageSize int) []Digest {
	if pageSize < 1 {
		return dst
	}
	var b []byte
	for len(tokens) > 0 {
		page := tokens[:min(pageSize, len(tokens))]
		for _, t := range page {
			b = append(b, byte(t), byte(t>>8), byte(t>>16), byte(t>>24))
		}
		d := Digest(sha256.Sum256(b))
		dst = append(dst, d)
		tokens, b = tokens[len(page):], append(b[:0], d[:]...)
	}
	return dst
}

// The three shapes of CBOR (RFC 8949) that the chain has, and nil.
const (
	cborUint  = 0 << 5
	cborBytes = 2 << 5
	cborText  = 3 << 5
	cborArray = 4 << 5
	cborNil   = 0xf6
)

// appendCBOR appends the shortest head of a value.
func appendCBOR(dst []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(dst, major|byte(n))
	case n < 1<<8:
		return append(dst, major|24, byte(n))
	case n < 1<<16:
		return be.AppendUint16(append(dst, major|25), uint16(n))
	case n < 1<<32:
		return be.AppendUint32(append(dst, major|26), uint32(n))
	}
	return be.AppendUint64(append(dst, major|27), n)
}

func appendCBORText(dst []byte, s string) []byte {
	return append(appendCBOR(dst, cborText, uint64(len(s))), s...)
}
