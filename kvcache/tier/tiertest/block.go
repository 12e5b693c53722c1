package tiertest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// Payload is the n bytes that the suite puts under a key, for tests beside it.
func Payload(key tier.Key, n int) []byte {
	out := make([]byte, 0, n+8)
	x := binary.LittleEndian.Uint64(key[:]) + uint64(n)
	for len(out) < n {
		x += 0x9e3779b97f4a7c15 // SplitMix64: Steele, Lea and Flood, 2014
		z := (x ^ x>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		out = binary.LittleEndian.AppendUint64(out, z^z>>31)
	}
	return out[:n:n]
}

// Chain is n blocks of a sequence with payloads of size bytes: each is the parent of the next. Those of the same names are the same.
func Chain(root, sequence string, n, size int) []tier.Block {
	out := make([]tier.Block, n)
	for i := range out {
		out[i] = tier.Block{Key: name(fmt.Sprint(root, "/", sequence, "/", i)), Root: name(root)}
		if i > 0 {
			out[i].Parent = out[i-1].Key
		}
		fill(&out[i], size)
	}
	return out
}

// fill gives a block its key's payload of size bytes, and the sum.
func fill(b *tier.Block, size int) {
	b.Bytes = Payload(b.Key, size)
	b.Sum = b.Summed()
}

// name is a key for a text.
func name(text string) tier.Key { return sha256.Sum256([]byte(text)) }

func keys(blocks []tier.Block) []tier.Key {
	out := make([]tier.Key, len(blocks))
	for i := range blocks {
		out[i] = blocks[i].Key
	}
	return out
}

// guard is bytes after each of buffers that no call may write.
const guard = 8

// buffers receive payloads of keys; their content and sum are no payload's.
func buffers(keys []tier.Key, size int) []tier.Block {
	out := make([]tier.Block, len(keys))
	for i, k := range keys {
		out[i] = tier.Block{Key: k, Bytes: bytes.Repeat([]byte{0xa5}, size+guard)[:size]}
		out[i].Sum = ^(&tier.Block{Key: k, Bytes: Payload(k, size)}).Summed()
	}
	return out
}

// verify reports a buffer that does not have what is put under its key, or was written beyond it.
func verify(read []tier.Block) error {
	for i, b := range read {
		switch whole := b.Bytes[:cap(b.Bytes)]; {
		case !bytes.Equal(Payload(b.Key, len(b.Bytes)), b.Bytes):
			return fmt.Errorf("payload %d of %d is not what was put under its key", i, len(read))
		case b.Sum != b.Summed():
			return fmt.Errorf("the sum of payload %d of %d is not the one that was put", i, len(read))
		case !bytes.Equal(whole[len(b.Bytes):], bytes.Repeat([]byte{0xa5}, len(whole)-len(b.Bytes))):
			return fmt.Errorf("bytes after payload %d of %d were written", i, len(read))
		}
	}
	return nil
}
