package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// A prompt's rows of several layers, more than caches hold: 8 KV heads of dim 128.
const benchTokens, benchLayers, benchHeads, benchDim = 2048, 24, 8, 128

// layers is the caches of a model, each with room for two prompts, and their activations.
type layers struct {
	be     *Backend
	s      backend.Stream
	append [benchLayers]backend.AppendParams[*Buffer]
	copy   backend.CopyBlocksParams[*Buffer] // of the first prompt's blocks to the second's
	gather backend.GatherParams[*Buffer]     // of the first prompt
	next   int
}

func newLayers(b testing.TB, f backend.Format, rotated bool) *layers {
	be, err := Open(Options{Threads: 1})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, be.Close()) })
	s, err := be.NewStream()
	require.NoError(b, err)
	l := &layers{be: be, s: s}
	var slots []int64
	var positions, pairs, table []uint32
	order := rand.New(rand.NewPCG(1, 2)).Perm(2 * benchTokens / 16)
	for i := range benchTokens / 16 {
		table = append(table, uint32(order[i]))
		pairs = append(pairs, uint32(order[i]), uint32(order[i+benchTokens/16]))
	}
	for i := range benchTokens {
		slots, positions = append(slots, int64(order[i/16]*16+i%16)), append(positions, uint32(i))
	}
	p := backend.AppendParams[*Buffer]{Tokens: benchTokens, Slots: numbers(b, be, s, backend.I64, slots)}
	if rotated {
		table, err := (backend.RoPE{Dims: benchDim}).Table(benchDim, benchTokens)
		require.NoError(b, err)
		p.Rotary = backend.RotaryTable[*Buffer]{Table: backend.Some(floats(b, be, backend.F32, table)), Positions: benchTokens, Dims: benchDim, Magnitude: 1}
		p.Positions = backend.Some(numbers(b, be, s, backend.U32, positions))
	}
	row := randoms(rand.New(rand.NewPCG(3, 4)), benchTokens*benchHeads*benchDim)
	for i := range l.append {
		v := backend.CacheView[*Buffer]{Blocks: len(order), KVHeads: benchHeads, BlockSize: 16}
		v.K, v.V = emptyPlane(b, be, v, f.K, benchDim), emptyPlane(b, be, v, f.V, benchDim)
		v.K.Hadamard = f.K.Quantized()
		p.Cache, p.K, p.V = v, backend.Dense(floats(b, be, f.Act, row)), backend.Dense(floats(b, be, f.Act, row))
		l.append[i] = p
		require.NoError(b, be.Append(s, p))
	}
	l.copy = backend.CopyBlocksParams[*Buffer]{N: len(table), Pairs: numbers(b, be, s, backend.U32, pairs)}
	to := f.K
	if to.Quantized() {
		to = backend.F32
	}
	l.gather = backend.GatherParams[*Buffer]{Table: backend.Some(numbers(b, be, s, backend.U32, table)), Len: benchTokens}
	for _, out := range []*backend.Opt[*Buffer]{&l.gather.K, &l.gather.V} {
		buf, err := be.Alloc(to, benchTokens*benchHeads*benchDim)
		require.NoError(b, err)
		*out = backend.Some(buf)
	}
	return l
}

// layer is the next layer's operands: each call is on another one, out of the caches.
func (l *layers) layer() *backend.AppendParams[*Buffer] {
	l.next = (l.next + 1) % benchLayers
	return &l.append[l.next]
}

func (l *layers) appendNext() error { return l.be.Append(l.s, *l.layer()) }

func (l *layers) copyNext() error {
	p := l.copy
	p.From = l.layer().Cache
	p.To = p.From
	return l.be.CopyBlocks(l.s, p)
}

func (l *layers) gatherNext() error {
	p := l.gather
	p.Cache = l.layer().Cache
	return l.be.Gather(l.s, p)
}

// plainNext copies as many bytes as a prompt's activations: what the others compare with.
func (l *layers) plainNext() error {
	p := l.layer()
	n := p.K.Buf.Len()
	if err := l.be.Copy(l.s, p.Cache.K.Data, 0, p.K.Buf, 0, n); err != nil {
		return err
	}
	return l.be.Copy(l.s, p.Cache.V.Data, 0, p.V.Buf, 0, n)
}

// run times calls that move that many bytes.
func (l *layers) run(b *testing.B, bytes int64, call func() error) {
	b.SetBytes(bytes)
	b.ReportAllocs()
	for b.Loop() {
		if err := call(); err != nil {
			b.Fatal(err)
		}
	}
}

// A prompt's keys and values, on one core and out of the caches; what is quantized with
// Hadamard. Bytes are those of the activations, so that they compare with BenchmarkCopy.
func BenchmarkAppend(b *testing.B) {
	for _, dt := range []backend.DType{backend.F16, backend.BF16, backend.Int8, backend.Int4, backend.MXFP4, backend.FP8E4M3} {
		for _, rotated := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/rope=%t", dt, rotated), func(b *testing.B) {
				l := newLayers(b, backend.Format{Act: backend.F16, K: dt, V: dt}, rotated)
				l.run(b, 2*l.append[0].K.Buf.Bytes(), l.appendNext)
			})
		}
	}
}

// Bytes are those copied, of keys and values.
func BenchmarkCopyBlocks(b *testing.B) {
	l := newLayers(b, backend.Format{Act: backend.F16, K: backend.F16, V: backend.F16}, false)
	l.run(b, 2*l.append[0].K.Buf.Bytes(), l.copyNext)
}

// Bytes are those written.
func BenchmarkGather(b *testing.B) {
	for _, dt := range []backend.DType{backend.F16, backend.Int8} {
		b.Run(dt.String(), func(b *testing.B) {
			l := newLayers(b, backend.Format{Act: backend.F16, K: dt, V: dt}, false)
			l.run(b, 2*l.gather.K.Buf.Bytes(), l.gatherNext)
		})
	}
}

func BenchmarkCopy(b *testing.B) {
	l := newLayers(b, backend.Format{Act: backend.F16, K: backend.F16, V: backend.F16}, false)
	l.run(b, 2*l.append[0].K.Buf.Bytes(), l.plainNext)
}
