package quant

import (
	codec "github.com/ferrumkv/ferrumkv/backend/quant"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/memory"
)

// blockSize is the tokens of a block.
const blockSize = 16

// rows are stored keys and values, of a token or of one head.
type rows = memory.Rows[byte]

// format is how a token's keys and values are stored: each head separately, keys before
// values.
type format struct {
	codec.Affine
	heads, dim int
}

func formatOf(cfg KVCacheConfig) format {
	a := codec.Affine{Bits: cfg.QuantizationBits}
	if a.Bits < 8 {
		a.Group = 32
	}
	return format{a, cfg.NumHeads, cfg.HeadDim}
}

// elements is the size of a token's keys.
func (f format) elements() int { return f.heads * f.dim }

// size is that of a stored token.
func (f format) size() memory.Format {
	return memory.Format{Codes: 2 * f.heads * f.Bytes(f.dim), Words: 2 * f.heads * f.Words(f.dim)}
}

// tokenBytes is the bytes of a token's codes and words.
func (f format) tokenBytes() int {
	size := f.size()
	return size.Codes + 4*size.Words
}

func (f format) blockBytes() int { return blockSize * f.tokenBytes() }

// head is the codes and words of a head of a token's keys, or its values.
func (f format) head(token rows, h int, value bool) rows {
	if value {
		h += f.heads
	}
	codes, words := f.Bytes(f.dim), f.Words(f.dim)
	return rows{Codes: token.Codes[h*codes:][:codes], Words: token.Words[h*words:][:words]}
}

// decode reads a token's keys, or its values.
func (f format) decode(dst []float32, token rows, value bool) {
	for h := range f.heads {
		from := f.head(token, h, value)
		f.Decode(dst[h*f.dim:][:f.dim], from.Codes, from.Words)
	}
}
