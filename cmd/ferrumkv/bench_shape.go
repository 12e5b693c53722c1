package main

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/bench"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
)

// kernel is an operation that bench measures.
type kernel struct {
	name    string
	queries int // of each sequence; 0: it appends, and its limit is the copy bandwidth
	what    string
}

var kernels = []kernel{
	{"attend", 1, "decode: one query token for each sequence over its whole context"},
	{"prefill", prefillTokens, fmt.Sprintf("the last %d tokens of the context as queries; arithmetic, not memory, bounds it", prefillTokens)},
	{"append", 0, "writes the whole context of every sequence into the cache"},
}

// prefillTokens is the length of the chunk of a prompt that prefill attends with.
const prefillTokens = 64

// shape is the cache that a kernel runs on.
type shape struct {
	DType     string `json:"dtype"`
	Layout    string `json:"layout"`
	Batch     int    `json:"batch"`   // sequences
	Context   int    `json:"context"` // tokens of each
	QHeads    int    `json:"q_heads"`
	KVHeads   int    `json:"kv_heads"`
	HeadDim   int    `json:"head_dim"`
	BlockSize int    `json:"block_size"` // 0: contiguous
	Threads   int    `json:"threads"`    // workers of the device: host threads, a GPU's multiprocessors or cores
}

// row is one line of the result. The times are medians; GBps is Bytes a second
// over 1e9, and LimitGBps what this machine's memory gave in between.
type row struct {
	Kernel string `json:"kernel"`
	shape
	Seconds   float64 `json:"seconds"` // of a call: one layer of one step
	Bytes     int64   `json:"bytes"`
	GBps      float64 `json:"gbps"`
	LimitGBps float64 `json:"limit_gbps"`
	Fraction  float64 `json:"fraction"` // GBps / LimitGBps
}

// cache is the shape as it is measured.
func (s shape) cache() (bench.Shape, error) {
	kv, err := config.ParseKVType(s.DType)
	act := kv
	if !kv.Float() {
		act = backend.F16
	}
	return bench.Shape{Act: act, Stored: kv, QHeads: s.QHeads, KVHeads: s.KVHeads, HeadDim: s.HeadDim, Batch: s.Batch, Context: s.Context, BlockSize: s.BlockSize}, err
}

// affordable is an error for a shape of which not one layer, and the operands of the kernels, fit.
// A quarter of what is free is left alone.
func (s shape) affordable(info backend.Info, ks []kernel) error {
	of, err := s.cache()
	if err != nil || info.FreeMemory == 0 {
		return err
	}
	need, _ := of.Stored.Size(2 * s.planeLen()) // the shape was checked
	for _, k := range ks {
		n := 2 * s.Batch * k.queries * s.QHeads * s.HeadDim // queries and output
		if k.queries == 0 {
			n = 2 * s.Batch * s.blocksPerSeq() * s.slots() * s.width() // new keys and values
		}
		bytes, _ := of.Act.Size(n)
		need += bytes
	}
	if spare := info.FreeMemory / 4 * 3; need > spare {
		return fmt.Errorf("--batch %d --context %d: one layer and its operands need %s, and %s has %s to spare; lower them",
			s.Batch, s.Context, byteSize(need), info.Name, byteSize(spare))
	}
	return nil
}

// slots is the tokens of a block; a contiguous sequence is one block.
func (s shape) slots() int {
	if s.BlockSize == 0 {
		return s.Context
	}
	return s.BlockSize
}

// blocksPerSeq is how many blocks hold a sequence's context.
func (s shape) blocksPerSeq() int { return (s.Context-1)/s.slots() + 1 }

// planeLen is the elements of a layer's keys, as many as of its values.
func (s shape) planeLen() int { return s.Batch * s.blocksPerSeq() * s.slots() * s.width() }

// width is the elements of one token's keys (and of its values).
func (s shape) width() int { return s.KVHeads * s.HeadDim }

// check is an error for a shape that no device can run, and for one whose sizes
// overflow: everything below multiplies without looking again.
func (s shape) check() error {
	for _, f := range []struct {
		flag string
		v    int
	}{
		{"--batch", s.Batch}, {"--context", s.Context}, {"--q-heads", s.QHeads},
		{"--kv-heads", s.KVHeads}, {"--head-dim", s.HeadDim}, {"--block-size", s.slots()},
	} {
		if f.v < 1 || f.v > math.MaxInt32 {
			return fmt.Errorf("%s %d: accepts 1 to %d", f.flag, f.v, math.MaxInt32)
		}
	}
	if s.QHeads%s.KVHeads != 0 {
		return fmt.Errorf("--q-heads %d: must be a multiple of --kv-heads %d", s.QHeads, s.KVHeads)
	}
	if s.BlockSize&(s.BlockSize-1) != 0 || s.BlockSize == 0 && s.Layout == kvcache.Paged.String() {
		return fmt.Errorf("--block-size %d: must be a power of two", s.BlockSize)
	}
	// Four bytes an element, keys and values, and room to add a few such sizes up.
	slots, ok := backend.Mul(s.blocksPerSeq(), s.slots())
	if ok {
		_, ok = backend.Mul(s.Batch, slots, s.QHeads, s.HeadDim, 64)
	}
	if !ok {
		return fmt.Errorf("--batch %d with --context %d: the sizes overflow", s.Batch, s.Context)
	}
	return nil
}

// bytes is what a call has to move: for attention each key and value of the
// context, once; for append each new row in the activation type, read, and in the
// storage type, written.
func (s shape) bytes(of bench.Shape, k kernel) int64 {
	elements := 2 * s.Batch * s.Context * s.width()
	moved, _ := of.Stored.Size(elements) // check has made sure that they fit
	if k.queries == 0 {
		read, _ := of.Act.Size(elements)
		moved += read
	}
	return moved
}

func kernelByName(name string) (kernel, error) {
	for _, k := range kernels {
		if k.name == name {
			return k, nil
		}
	}
	return kernel{}, fmt.Errorf("--kernel %s: accepts attend, prefill and append", name)
}
