package quant

import (
	codec "github.com/ferrumkv/ferrumkv/backend/quant"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// blockSize is the tokens of a block.
const blockSize = 16

// format is how a token's keys and values are stored: each head by itself, keys before
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

// codes and words of a token.
func (f format) codes() int { return 2 * f.heads * f.Bytes(f.dim) }
func (f format) words() int { return 2 * f.heads * f.Words(f.dim) }

// tokenBytes is the bytes of a token's codes and words.
func (f format) tokenBytes() int { return f.codes() + 4*f.words() }
func (f format) blockBytes() int { return blockSize * f.tokenBytes() }

// head is the codes and words of a head of a token's keys, or its values.
func (f format) head(t token, h int, value bool) token {
	if value {
		h += f.heads
	}
	codes, words := f.Bytes(f.dim), f.Words(f.dim)
	return token{t.codes[h*codes:][:codes], t.words[h*words:][:words]}
}

// decode reads a token's keys, or its values.
func (f format) decode(dst []float32, t token, value bool) {
	for h := range f.heads {
		from := f.head(t, h, value)
		f.Decode(dst[h*f.dim:][:f.dim], from.codes, from.words)
	}
}

// token is stored keys and values; of a block, those of its tokens back to back.
type token struct {
	codes []byte
	words []uint32
}

// store is the memory of all layers, by blocks: those that a layer has are allocated, and
// no others.
type store struct {
	format
	alloc  *block.BlockAllocator
	blocks []token // by number
}

func newStore(f format) (*store, error) {
	alloc, err := block.New(1)
	if err != nil {
		return nil, err
	}
	return &store{format: f, alloc: alloc}, nil
}

// take hands out a block.
func (s *store) take() (block.Block, error) {
	if s.alloc.Available() == 0 {
		if err := s.alloc.Grow(1); err != nil {
			return block.Block{}, err
		}
	}
	b, err := s.alloc.Allocate()
	if err != nil {
		return block.Block{}, err
	}
	if int(b.ID) == len(s.blocks) { // new ones come in the order of their numbers
		s.blocks = append(s.blocks, token{})
	}
	s.blocks[b.ID] = s.room(blockSize)
	return b, nil
}

// give takes blocks back, and drops their memory.
func (s *store) give(blocks []block.Block) error {
	for _, b := range blocks {
		s.blocks[b.ID] = token{}
	}
	return s.alloc.ReleaseN(blocks, 0)
}

// room is memory for so many tokens.
func (f format) room(tokens int) token {
	return token{make([]byte, tokens*f.codes()), make([]uint32, tokens*f.words())}
}

// token is the memory of a block's token i.
func (s *store) token(b block.Block, i int) token {
	t, codes, words := s.blocks[b.ID], s.codes(), s.words()
	return token{t.codes[i*codes:][:codes], t.words[i*words:][:words]}
}

// copy makes t what from is.
func (t token) copy(from token) {
	copy(t.codes, from.codes)
	copy(t.words, from.words)
}
