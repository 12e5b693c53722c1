package ggml

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every type is decoded to the bits that llama.cpp's library makes of the same 64 blocks. scripts/models-grid writes their hashes: blocks
// are bytes of SHA-256, of which those at the places named are the exponents of scales, and are kept from being infinite.
func TestBlocksAreThoseOfLlamaCpp(t *testing.T) {
	text, err := os.ReadFile("testdata/decoded.json")
	require.NoError(t, err)
	var hashes map[string]struct {
		Exponents []int
		Hash      string
	}
	require.NoError(t, json.Unmarshal(text, &hashes))
	for _, typ := range Types {
		if typ.Decode == nil || typ.Name == "F32" {
			continue
		}
		want, known := hashes[typ.Name]
		require.True(t, known, typ.Name)
		src := make([]byte, 0, 64*typ.Bytes)
		for i := 0; len(src) < 64*typ.Bytes; i++ {
			sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", typ.Name, i))
			src = append(src, sum[:]...)
		}
		hash, values := sha256.New(), make([]float32, typ.Block)
		for at := 0; at < 64*typ.Bytes; at += typ.Bytes {
			for _, place := range want.Exponents {
				src[at+place] &= 0xbb
			}
			typ.Decode(values, src[at:at+typ.Bytes])
			for _, v := range values {
				hash.Write(le.AppendUint32(nil, math.Float32bits(v)))
			}
		}
		require.Equal(t, want.Hash, hex.EncodeToString(hash.Sum(nil)), typ.Name)
	}
}
