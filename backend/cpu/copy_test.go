package cpu

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// large is a cache of as many slots as make any call on all of them a large one.
type large struct {
	be   *Backend
	s    backend.Stream
	view backend.CacheView[*Buffer]
}

const largeTokens, largeDim = 1024, 80

func newLargeCache(t *testing.T, k, v backend.DType) large {
	be, s := open(t, 3)
	l := large{be, s, backend.CacheView[*Buffer]{Blocks: 2 * largeTokens / 16, KVHeads: 8, BlockSize: 16}}
	l.view.K, l.view.V = emptyPlane(t, be, l.view, k, largeDim), emptyPlane(t, be, l.view, v, largeDim)
	l.view.K.Hadamard = k != backend.F16
	return l
}

// append writes tokens to the first half of the blocks, that many in a call.
func (l *large) append(t *testing.T, tokens []backend.Rows[*Buffer], step int) {
	table, err := (backend.RoPE{Dims: largeDim}).Table(largeDim, 50)
	require.NoError(t, err)
	rope := backend.RotaryTable[*Buffer]{Table: backend.Some(floats(t, l.be, backend.F32, table)), Positions: 50, Dims: largeDim, Magnitude: 1}
	order := rand.New(rand.NewPCG(1, 2)).Perm(largeTokens)
	for begin := 0; begin < largeTokens; begin += step {
		var slots []int64
		var positions []uint32
		for i, slot := range order[begin:][:step] {
			slots, positions = append(slots, int64(slot)), append(positions, uint32((begin+i)%50))
		}
		width := l.view.KVHeads * largeDim
		require.NoError(t, l.be.Append(l.s, backend.AppendParams[*Buffer]{Cache: l.view, Tokens: step, Rotary: rope,
			K:     backend.Rows[*Buffer]{Buf: tokens[0].Buf, Offset: begin * width},
			V:     backend.Rows[*Buffer]{Buf: tokens[1].Buf, Offset: begin * width},
			Slots: numbers(t, l.be, l.s, backend.I64, slots), Positions: backend.Some(numbers(t, l.be, l.s, backend.U32, positions))}))
	}
}

// copy copies that half to the other one, that many blocks in a call.
func (l *large) copy(t *testing.T, step int) {
	blocks := l.view.Blocks / 2
	for begin := 0; begin < blocks; begin += step {
		var pairs []uint32
		for i := range min(step, blocks-begin) {
			pairs = append(pairs, uint32(begin+i), uint32(l.view.Blocks-1-begin-i))
		}
		require.NoError(t, l.be.CopyBlocks(l.s, backend.CopyBlocksParams[*Buffer]{From: l.view, To: l.view, N: len(pairs) / 2, Pairs: numbers(t, l.be, l.s, backend.U32, pairs)}))
	}
}

// gather is the keys of all tokens but the first of each half, that many in a call, as
// [tokens, heads, dim].
func (l *large) gather(t *testing.T, dt backend.DType, step int) (out []float32) {
	var table []uint32
	for i := range l.view.Blocks {
		table = append(table, uint32(l.view.Blocks-1-i))
	}
	ids := backend.Some(numbers(t, l.be, l.s, backend.U32, table))
	for begin := 1; begin < 2*largeTokens; begin += step {
		n := min(step, 2*largeTokens-begin)
		got := floats(t, l.be, dt, make([]float32, l.view.KVHeads*n*largeDim))
		require.NoError(t, l.be.Gather(l.s, backend.GatherParams[*Buffer]{Cache: l.view, Table: ids, Begin: begin, Len: n, K: backend.Some(got)}))
		x := values(got)
		for token := range n {
			for head := range l.view.KVHeads {
				out = append(out, x[(head*n+token)*largeDim:][:largeDim]...)
			}
		}
		require.NoError(t, l.be.Free(got))
	}
	return out
}

// What large calls write around the caches is what small ones write.
func TestLargeCallsWriteWhatSmallOnesDo(t *testing.T) {
	for i, f := range []backend.Format{{K: backend.F16, V: backend.F16}, {K: backend.Int8, V: backend.F16}, {K: backend.F32, V: backend.Int4}, {K: backend.FP8E4M3, V: backend.BF16}} {
		t.Setenv(EnvKernels, available[i%len(available)].name)
		rng := rand.New(rand.NewPCG(3, 4))
		k, v := randoms(rng, largeTokens*8*largeDim), randoms(rng, largeTokens*8*largeDim)
		write := func(tokens, blocks, gathered int) ([][]byte, []float32) {
			l := newLargeCache(t, f.K, f.V)
			l.append(t, []backend.Rows[*Buffer]{backend.Dense(floats(t, l.be, backend.F16, k)), backend.Dense(floats(t, l.be, backend.F16, v))}, tokens)
			l.copy(t, blocks)
			dt := f.K
			if dt.Quantized() {
				dt = backend.F32
			}
			return memory(l.view.K, l.view.V), l.gather(t, dt, gathered)
		}
		stored, read := write(largeTokens, largeTokens, 2*largeTokens)
		again, reread := write(8, 1, 77)
		require.Equal(t, again, stored, f)
		require.Equal(t, reread, read, f)
		require.True(t, finite(read))
	}
}

// A large copy is like a small one, also where it overlaps, and keeps its neighbours.
func TestLargeCopies(t *testing.T) {
	be, s := open(t, 3)
	const n = 3*copyPiece + 2*largeCopy + 77
	for _, c := range []struct{ to, from, n int }{{0, n, n}, {n + 5, 3, n - 9}, {3, 0, n}, {0, 3, n}} {
		b, err := be.Alloc(backend.Int8, 2*n)
		require.NoError(t, err)
		rng := rand.New(rand.NewChaCha8([32]byte{}))
		for i := range b.mem {
			b.mem[i] = byte(rng.Uint32())
		}
		want := append([]byte(nil), b.mem...)
		copy(want[c.to:][:c.n], want[c.from:][:c.n])
		require.NoError(t, be.Copy(s, b, c.to, b, c.from, c.n))
		require.True(t, bytes.Equal(want, b.mem), c)
		require.NoError(t, be.Free(b))
	}
}

// stream copies pieces of any size from any address to any others, and touches nothing else.
func TestStreamAgrees(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, k := range available {
		for range 300 {
			n, piece, gap, shift, from := rng.IntN(4), rng.IntN(700)+1, rng.IntN(100), rng.IntN(70), rng.IntN(70)
			size := max(0, n*(piece+gap)-gap)
			src, got, want := guarded[byte](t, from+n*piece), guarded[byte](t, shift+size), make([]byte, shift+size)
			for i := range src {
				src[i] = byte(rng.Uint32())
			}
			scatter(want[shift:], piece+gap, src[from:], piece)
			k.stream(got[shift:], piece+gap, src[from:], piece)
			k.fence()
			require.Equal(t, want, got, "%s: %d pieces of %d", k.name, n, piece)
		}
	}
}
