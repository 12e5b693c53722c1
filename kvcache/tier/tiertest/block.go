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
		out[i].Bytes = Payload(out[i].Key, size)
	}
	return out
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

// buffers is where n payloads are read into; no payload has their content.
func buffers(n, size int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		out[i] = bytes.Repeat([]byte{0xa5}, size)
	}
	return out
}

// verify says which payload is not that of its key.
func verify(keys []tier.Key, payloads [][]byte) error {
	for i, k := range keys {
		if !bytes.Equal(Payload(k, len(payloads[i])), payloads[i]) {
			return fmt.Errorf("payload %d of %d is not what was put under its key", i, len(keys))
		}
	}
	return nil
}
