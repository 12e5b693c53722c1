package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
)

// newLarge is a call of Append that is enough work for several workers.
func newLarge(t testing.TB, be *Backend, s backend.Stream, f backend.Format, kDim, vDim, tokens int) backend.AppendParams[*Buffer] {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	v := backend.CacheView[*Buffer]{Blocks: 20, KVHeads: 2, BlockSize: 16}
	v.K, v.V = emptyPlane(t, be, v, f.K, kDim), emptyPlane(t, be, v, f.V, vDim)
	v.K.Hadamard = f.K.Quantized()
	slots, positions := []int64{}, []uint32{}
	for i, slot := range rng.Perm(v.Blocks * v.BlockSize)[:tokens] {
		if i%7 == 3 {
			slot = -1
		}
		slots, positions = append(slots, int64(slot)), append(positions, uint32(rng.IntN(50)))
	}
	rope := backend.RoPE{Dims: kDim / 4 * 2}
	table, err := rope.Table(kDim, 50)
	require.NoError(t, err)
	return backend.AppendParams[*Buffer]{Cache: v, Tokens: tokens, QHeads: 4,
		K:     backend.Dense(floats(t, be, f.Act, randoms(rng, tokens*v.KVHeads*kDim))),
		V:     backend.Dense(floats(t, be, f.Act, randoms(rng, tokens*v.KVHeads*vDim))),
		Q:     backend.Dense(floats(t, be, f.Act, randoms(rng, tokens*4*kDim))),
		Slots: numbers(t, be, s, backend.I64, slots), Positions: backend.Some(numbers(t, be, s, backend.U32, positions)),
		Rotary: backend.RotaryTable[*Buffer]{Table: backend.Some(floats(t, be, backend.F32, table)), Positions: 50, Dims: rope.Dims, Magnitude: 1.5}}
}

// memory is a copy of what planes and their scales hold.
func memory(planes ...backend.Plane[*Buffer]) (out [][]byte) {
	for _, p := range planes {
		out = append(out, append([]byte(nil), p.Data.mem...))
		if p.Scales.Set {
			out = append(out, append([]byte(nil), p.Scales.Buf.mem...))
		}
	}
	return out
}

// What Append stores is, bit for bit, what the host's codecs make of each row by
// itself, whatever the workers; and nothing else changes.
func TestAppendStoresWhatTheCodecsMake(t *testing.T) {
	rows := storageTypes[:len(storageTypes)-1]
	rapid.Check(t, func(r *rapid.T) {
		f := backend.Format{Act: rapid.SampledFrom(rows[:3]).Draw(r, "act"), K: rapid.SampledFrom(rows).Draw(r, "k"), V: rapid.SampledFrom(rows).Draw(r, "v")}
		be, s := open(t, rapid.IntRange(1, 4).Draw(r, "threads"))
		kDim, vDim := rapid.SampledFrom([]int{2, 6, 40, 80, 128}).Draw(r, "k dim"), rapid.SampledFrom([]int{2, 64, 96}).Draw(r, "v dim")
		p := newLarge(t, be, s, f, kDim, vDim, rapid.SampledFrom([]int{1, 9, 200}).Draw(r, "tokens"))
		if kDim < 4 || rapid.Bool().Draw(r, "no rope") {
			p.Rotary, p.Positions = backend.RotaryTable[*Buffer]{}, backend.Opt[*Buffer]{}
		}
		if rapid.Bool().Draw(r, "no Hadamard") {
			p.Cache.K.Hadamard = false
		}
		rope := rotationOf(p.Rotary)
		turn := func(x []float32, token int) {
			if p.Rotary.Table.Set {
				rope.turn(x, len(x), int(view[uint32](p.Positions.Buf)[token]), p.Rotary.Magnitude)
			}
			if p.Cache.K.Hadamard {
				quant.Hadamard(x)
			}
		}
		q := values(p.Q.Buf)
		for i := range len(q) / kDim {
			turn(q[i*kDim:][:kDim], i/p.QHeads)
		}
		want := p.Cache
		want.K, want.V = emptyPlane(t, be, want, f.K, kDim), emptyPlane(t, be, want, f.V, vDim)
		for side, plane := range []plane{planeOf(want, want.K), planeOf(want, want.V)} {
			x := values([]backend.Rows[*Buffer]{p.K, p.V}[side].Buf)
			for i, slot := range view[int64](p.Slots) {
				for h := range want.KVHeads {
					row := x[(i*want.KVHeads+h)*plane.dim:][:plane.dim]
					if side == 0 {
						turn(row, i)
					}
					if slot >= 0 {
						require.True(r, portable.encode[plane.dt](plane.slot(int(slot), h), row, false))
					}
				}
			}
		}
		require.NoError(r, be.Append(s, p))
		require.Equal(r, memory(want.K, want.V), memory(p.Cache.K, p.Cache.V))
		require.Equal(r, rounded(f.Act, q), values(p.Q.Buf))
		require.NoError(r, be.Close())
	})
}

// The first value that cannot be quantized is named, whoever finds it, and nothing is
// written: neither the rows before it nor Q.
func TestAppendReportsWhatIsNotFinite(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, threads := range []int{1, 4} {
		be, s := open(t, threads)
		p := newLarge(t, be, s, backend.Format{Act: backend.F32, K: backend.Int8, V: backend.Int4}, 64, 128, 200)
		k, v, q := view[float32](p.K.Buf), view[float32](p.V.Buf), view[float32](p.Q.Buf)
		set := func(x []float32, dim, token, head int, value float32) { x[(token*2+head)*dim+dim-1] = value }
		kept := append([]float32(nil), q...)
		before := memory(p.Cache.K, p.Cache.V)
		report := func(what string) {
			t.Helper()
			err := be.Append(s, p)
			require.ErrorIs(t, err, backend.ErrNonFinite{})
			require.Equal(t, backend.ErrNonFinite{Op: "append", What: what}, err)
			require.Equal(t, before, memory(p.Cache.K, p.Cache.V))
			require.Equal(t, kept, q)
		}
		set(k, 64, 10, 0, nan) // its slot is −1
		set(v, 128, 198, 1, inf)
		report("value of token 198, head 1")
		set(k, 64, 198, 0, -inf)
		report("key of token 198, head 0")
		set(v, 128, 7, 1, -inf)
		report("value of token 7, head 1")
		set(k, 64, 7, 1, nan)
		report("key of token 7, head 1")

		p.Saturate = true
		require.NoError(t, be.Append(s, p))
		row := make([]float32, 128)
		values := planeOf(p.Cache, p.Cache.V)
		portable.decode[backend.Int4](row, values.slot(int(view[int64](p.Slots)[7]), 1))
		largest := 0.0
		for _, x := range v[(7*2+1)*128+96:][:31] { // the group's others
			largest = max(largest, math.Abs(float64(x)))
		}
		require.InEpsilon(t, -largest, row[127], 0.2)
	}
	// A sum that overflows is not finite, either, though its terms are.
	be, s := open(t, 1)
	p := newLarge(t, be, s, backend.Format{Act: backend.F32, K: backend.Int4G64, V: backend.F32}, 64, 2, 1)
	k := view[float32](p.K.Buf)
	for i := range k[:64] {
		k[64+i] = math.MaxFloat32
	}
	require.Equal(t, backend.ErrNonFinite{Op: "append", What: "key of token 0, head 1"}, be.Append(s, p))
	p.Cache.K.Hadamard, p.Rotary, p.Positions = false, backend.RotaryTable[*Buffer]{}, backend.Opt[*Buffer]{}
	require.NoError(t, be.Append(s, p))
	view[float32](p.V.Buf)[0] = nan // of a plane that takes any
	require.NoError(t, be.Append(s, p))
}

// Every operation gives the same bits with one worker and with several.
func TestQuantizedBitsDoNotDependOnWorkers(t *testing.T) {
	for _, f := range []backend.Format{
		{K: backend.Int8, V: backend.Int4}, {K: backend.FP8E4M3, V: backend.Int8Asym}, {K: backend.Int4Channel, V: backend.Int4G64},
	} {
		t.Run(fmt.Sprint(f.K, f.V), func(t *testing.T) {
			f.Act = backend.BF16
			require.Equal(t, everyOperation(t, f, 1), everyOperation(t, f, 4))
		})
	}
}

// everyOperation runs them one after another on a cache and returns all they wrote.
func everyOperation(t *testing.T, f backend.Format, threads int) [][]byte {
	be, s := open(t, threads)
	plain := newLarge(t, be, s, backend.Format{Act: f.Act, K: f.Act, V: f.Act}, 96, 128, 320)
	require.NoError(t, be.Append(s, plain))
	view, rng := plain.Cache, rand.New(rand.NewPCG(5, 6))
	view.K, view.V = emptyPlane(t, be, view, f.K, 96), emptyPlane(t, be, view, f.V, 128)
	view.K.Hadamard = true
	ids := func(n int) (out []uint32) {
		for i, id := range rng.Perm(20)[:n] {
			out = append(out, uint32(i), uint32(id))
		}
		return out
	}
	pack := backend.ConvertBlocksParams[*Buffer]{From: plain.Cache, To: view, N: 20, Pairs: numbers(t, be, s, backend.U32, ids(20)), Saturate: true}
	require.NoError(t, be.ConvertBlocks(s, pack))
	if f.K != backend.Int4Channel {
		p := newLarge(t, be, s, f, 96, 128, 200)
		p.Cache = view
		require.NoError(t, be.Append(s, p))
		pairs, deltas := []int64{}, []int32{}
		for i := range 200 {
			pairs, deltas = append(pairs, int64(i+9), int64(i)), append(deltas, int32(i%99-49))
		}
		require.NoError(t, be.MoveSlots(s, backend.MoveSlotsParams[*Buffer]{Cache: view, N: 200, Pairs: numbers(t, be, s, backend.I64, pairs)}))
		require.NoError(t, be.Rotate(s, backend.RotateParams[*Buffer]{Cache: view, Slots: p.Slots, Deltas: numbers(t, be, s, backend.I32, deltas), N: 200, Rotary: p.Rotary}))
	}
	unpack := backend.ConvertBlocksParams[*Buffer]{From: view, To: plain.Cache, N: 9, Pairs: numbers(t, be, s, backend.U32, ids(9))}
	require.NoError(t, be.ConvertBlocks(s, unpack))
	gather := backend.GatherParams[*Buffer]{Cache: view, Len: 320, Table: backend.Some(numbers(t, be, s, backend.U32, []uint32{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4})),
		K: backend.Some(floats(t, be, backend.F32, make([]float32, 320*2*96))), V: backend.Some(floats(t, be, backend.F32, make([]float32, 320*2*128)))}
	require.NoError(t, be.Gather(s, gather))
	return append(memory(view.K, view.V, plain.Cache.K, plain.Cache.V), gather.K.Buf.mem, gather.V.Buf.mem)
}

// Keys are turned by what they are worth and stored again. One that is not finite, or
// that no longer is, reads as NaN.
func TestRotateQuantizesAnew(t *testing.T) {
	for _, dt := range storageTypes[3 : len(storageTypes)-1] {
		for _, turned := range []bool{false, true} {
			t.Run(fmt.Sprint(dt, turned), func(t *testing.T) {
				be, s := open(t, 2)
				p := newLarge(t, be, s, backend.Format{Act: backend.F32, K: dt, V: backend.F16}, 80, 2, 100)
				p.Cache.K.Hadamard = turned
				require.NoError(t, be.Append(s, p))
				keys, rope := planeOf(p.Cache, p.Cache.K), rotationOf(p.Rotary)
				slots, deltas := []int64{}, []int32{}
				want := make([][]float32, 0, 200)
				for i, slot := range view[int64](p.Slots) {
					if slot < 0 {
						continue
					}
					slots, deltas = append(slots, slot), append(deltas, int32(i%99-49))
					for h := range keys.heads {
						at, x := keys.slot(int(slot), h), make([]float32, 80)
						if len(slots) == 5 {
							at.setNaN()
						}
						if portable.decode[dt](x, at); turned {
							quant.Hadamard(x)
						}
						if rope.turn(x, len(x), int(deltas[len(deltas)-1]), 1); turned {
							quant.Hadamard(x)
						}
						copied := stored{dt: dt, dim: 80, n: 1, data: make([]byte, len(at.data)), scales: append([]uint32(nil), at.scales...), factor: at.factor}
						if finite(x) {
							require.True(t, portable.encode[dt](copied, x, false))
						} else {
							copied.setNaN()
						}
						portable.decode[dt](x, copied)
						want = append(want, x)
					}
				}
				require.NoError(t, be.Rotate(s, backend.RotateParams[*Buffer]{Cache: p.Cache, N: len(slots), Rotary: p.Rotary,
					Slots: numbers(t, be, s, backend.I64, slots), Deltas: numbers(t, be, s, backend.I32, deltas)}))
				x := make([]float32, 80)
				for i, slot := range slots {
					for h := range keys.heads {
						portable.decode[dt](x, keys.slot(int(slot), h))
						if i == 4 {
							require.True(t, math.IsNaN(float64(x[0])) && math.IsNaN(float64(x[79])))
							continue
						}
						require.Equal(t, want[i*keys.heads+h], x, "slot %d turned by %d", slot, deltas[i])
					}
				}
			})
		}
	}
}

// Blocks by channel may be long and are converted without allocations all the same, and
// what is not finite in any is named before one is written.
func TestConvertLongBlocks(t *testing.T) {
	be, s := open(t, 2)
	rng := rand.New(rand.NewPCG(7, 8))
	plain := backend.CacheView[*Buffer]{Blocks: 3, KVHeads: 2, BlockSize: 100}
	packed := backend.CacheView[*Buffer]{Blocks: 2, KVHeads: 2, BlockSize: 100}
	plain.K = planeFrom(t, be, plain, backend.F32, 32, randoms(rng, 3*2*100*32))
	plain.V = planeFrom(t, be, plain, backend.F32, 16, randoms(rng, 3*2*100*16))
	packed.K, packed.V = emptyPlane(t, be, packed, backend.Int4Channel, 32), emptyPlane(t, be, packed, backend.Int8, 16)
	packed.K.Hadamard = true
	p := backend.ConvertBlocksParams[*Buffer]{From: plain, To: packed, N: 2, Pairs: numbers(t, be, s, backend.U32, []uint32{2, 0, 0, 1})}
	before := memory(packed.K, packed.V)
	values := view[float32](plain.V.Data)
	at := ((0*2+1)*100+77)*16 + 3
	kept := values[at]
	values[at] = float32(math.NaN())
	require.Equal(t, backend.ErrNonFinite{Op: "convert blocks", What: "value of block 0, slot 77, head 1"}, be.ConvertBlocks(s, p))
	require.Equal(t, before, memory(packed.K, packed.V))
	values[at] = kept
	require.NoError(t, be.ConvertBlocks(s, p))

	x, row, keys := make([]float32, 100*32), make([]float32, 32), planeOf(packed, packed.K)
	from := planeOf(plain, plain.K)
	portable.decode[backend.F32](x, from.at(2, 1, 0, 100))
	hadamard(x, 32)
	codes, words := make([]byte, 100*16), make([]uint32, 32)
	require.True(t, quant.EncodeChannels(codes, words, x, false))
	block := keys.at(0, 1, 0, 100)
	require.Equal(t, codes, block.data)
	require.Equal(t, words, block.scales)
	portable.decode[backend.Int4Channel](row, block.row(99))
	for i, v := range row {
		require.InDelta(t, x[99*32+i], v, 0.5)
	}
	if !race.Enabled {
		require.Zero(t, testing.AllocsPerRun(10, func() { _ = be.ConvertBlocks(s, p) }))
	}
}
