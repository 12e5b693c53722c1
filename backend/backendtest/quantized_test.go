package backendtest

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// onCPU runs with a rig of a CPU.
func onCPU(t *testing.T, run func(r *rig[*cpu.Buffer])) {
	be, err := cpu.Open(cpu.Options{Threads: 1})
	require.NoError(t, err)
	require.NoError(t, bench[*cpu.Buffer]{be: be}.attempt(run))
	require.NoError(t, be.Close())
}

// A row comes back as what the host's codec stores, and the rows beside it are no values.
func TestPlaneStoresEveryType(t *testing.T) {
	onCPU(t, func(r *rig[*cpu.Buffer]) {
		g := geometry{kvHeads: 3, block: 4, blocks: 3}
		for _, dt := range append([]backend.DType{backend.F32, backend.F16}, quantizedTypes...) {
			p := r.plane("plane", g, dt, 80)
			for slot := range g.slots() {
				for head := range g.kvHeads {
					for _, v := range p.values(p.now(), slot, head) {
						require.True(r, v != v, "%s: unused slots are NaN", dt)
					}
				}
			}
			values := r.normal(80)
			p.put(5, 1, values)
			for i, v := range p.values(p.now(), 5, 1) {
				require.InDelta(r, values[i], v, 1.5, "%s", dt)
			}
			before := p.now().clone()
			p.put(6, 1, r.normal(80))
			p.put(5, 2, r.normal(80))
			require.True(r, p.same(before, p.now(), 5, 1), "%s: a neighbour has changed", dt)
			p.take(p.now(), 5, 9, 1)
			require.Equal(r, p.row(p.now(), 5, 1), p.row(p.now(), 9, 1))
			if dt.ScaleWords(80) > 0 {
				require.Equal(r, p.values(p.now(), 5, 1), p.values(p.now(), 9, 1))
			}
		}
	})
}

// spoiledInt8 is a row of int8 with a scale and codes of the test's choice.
func spoiledInt8(r *rig[*cpu.Buffer], scale float32, codes []int8) (*plane[*cpu.Buffer], stored) {
	p := r.plane("plane", geometry{kvHeads: 1, block: 1, blocks: 1}, backend.Int8, len(codes))
	got := p.now().clone()
	for i, c := range codes {
		got.data[i] = byte(c)
	}
	copy(got.scales, encode(backend.F32, []float32{scale}))
	return p, got
}

func TestSettle(t *testing.T) {
	want := []float64{12.7, -6.4, 0.04, 0}
	onCPU(t, func(r *rig[*cpu.Buffer]) {
		p, got := spoiledInt8(r, 0.1, []int8{127, -64, 0, 0})
		require.NoError(r, p.settle(got, 0, 0, want, 0))
		require.True(r, p.same(got, p.now(), 0, 0), "a good row is taken over")

		p, got = spoiledInt8(r, 0.1, []int8{127, -63, 0, 0})
		require.ErrorContains(r, p.settle(got, 0, 0, want, 0), "element 1 of int8 is -6.3", "a wrong code")
		require.False(r, p.same(got, p.now(), 0, 0))
		p, got = spoiledInt8(r, 0.2, []int8{64, -32, 0, 0})
		require.ErrorContains(r, p.settle(got, 0, 0, want, 0), "a step of 0.2", "good codes of a step that is too long")
		p, got = spoiledInt8(r, 0.099, []int8{127, -65, 0, 0})
		require.ErrorContains(r, p.settle(got, 0, 0, want, 0), "element 0", "a step that is too short")
		p, got = spoiledInt8(r, float32(math.NaN()), []int8{127, -64, 0, 0})
		require.ErrorContains(r, p.settle(got, 0, 0, want, 0), "a step of NaN")
		p, got = spoiledInt8(r, -0.1, []int8{-127, 64, 0, 0})
		require.ErrorContains(r, p.settle(got, 0, 0, want, 0), "a step of -0.1")
	})
}

// A group's exponent is the only one there is, but where its largest value is so near to a power of two
// that rounding may have carried it there, or not.
func TestSettleExponents(t *testing.T) {
	onCPU(t, func(r *rig[*cpu.Buffer]) {
		p := r.plane("plane", geometry{kvHeads: 1, block: 1, blocks: 1}, backend.MXFP4, 40)
		row := make([]float32, 40)
		row[0], row[32] = 4, math.Nextafter32(4, 0)
		p.put(0, 0, row)
		good, want := p.now().clone(), widen(row)
		settle := func(edit func(s *stored)) error {
			got := good.clone()
			edit(&got)
			return p.settle(got, 0, 0, want, 0)
		}
		require.Equal(r, []uint32{127 | 126<<8}, p.words(good, 0, 0))
		require.NoError(r, settle(func(*stored) {}))
		require.NoError(r, settle(func(s *stored) { s.scales[1], s.data[16] = 127, 6 }), "carried to 4")
		require.NoError(r, settle(func(s *stored) { s.scales[0], s.data[0] = 126, 7 }), "and short of it")
		require.ErrorContains(r, settle(func(s *stored) { s.scales[1], s.data[16] = 128, 4 }), "an exponent of 128, want 126 to 127")
		require.ErrorContains(r, settle(func(s *stored) { s.scales[0], s.data[0] = 125, 7 }), "an exponent of 125, want 126 to 127")
		require.ErrorContains(r, settle(func(s *stored) { s.scales[0] = quant.NaNExponent }), "an exponent of 255")
		require.ErrorContains(r, settle(func(s *stored) { s.data[0] = 4 }), "element 0 of mxfp4 is 2, want 4")
		require.ErrorContains(r, settle(func(s *stored) { s.data[1] = 1 }), "element 2 of mxfp4 is 0.5, want 0")
		require.ErrorContains(r, settle(func(s *stored) { s.scales[2] = 1 }), "byte 2 of the scales")
		want[0], want[32] = 5, 3.9
		require.ErrorContains(r, settle(func(s *stored) { s.scales[0], s.data[0] = 126, 7 }), "an exponent of 126, want 127 to 127")
		require.ErrorContains(r, settle(func(s *stored) { s.scales[1], s.data[16] = 127, 6 }), "an exponent of 127, want 126 to 126")
	})
}

// A group's factor is the only one there is, but where its largest value is so near to a tie that rounding
// may have carried it there, or not.
func TestSettleFactors(t *testing.T) {
	onCPU(t, func(r *rig[*cpu.Buffer]) {
		p := r.plane("plane", geometry{kvHeads: 1, block: 1, blocks: 1}, backend.NVFP4, 40)
		p.scales.set(0, encode(backend.F32, []float32{1}))
		row := make([]float32, 40)
		row[0], row[16], row[32] = 6, 6*(1+1./16), -12 // the second is a tie, which goes to the even byte
		p.put(0, 0, row)
		good, want := p.now().clone(), widen(row)
		settle := func(slack float64, edit func(s *stored)) error {
			got := good.clone()
			edit(&got)
			return p.settle(got, 0, 0, want, slack)
		}
		require.Equal(r, []uint32{0x38 | 0x38<<8 | 0x40<<16}, p.words(good, 0, 0))
		require.NoError(r, settle(0, func(*stored) {}))
		require.NoError(r, settle(1e-3, func(s *stored) { s.scales[17] = 0x39 }), "carried on")
		require.ErrorContains(r, settle(0, func(s *stored) { s.scales[16] = 0x37 }), "a factor of 0x37, want 0x38 to 0x38")
		require.ErrorContains(r, settle(0, func(s *stored) { s.scales[18] = quant.NaNFactor }), "a factor of 0x7f")
		require.ErrorContains(r, settle(0, func(s *stored) { s.data[0] = 6 }), "element 0 of nvfp4 is 4, want 6")
		require.ErrorContains(r, settle(0, func(s *stored) { s.data[16] = 7 }), "element 32 of nvfp4 is 12, want -12")
		require.ErrorContains(r, settle(0, func(s *stored) { s.scales[19] = 1 }), "byte 3 of the scales")
	})
}

// What the host's codec makes of any finite row is settled, in every type.
func TestSettleTakesTheHostsCodes(t *testing.T) {
	be, err := cpu.Open(cpu.Options{Threads: 1})
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		dt := rapid.SampledFrom(rowTypes).Draw(t, "type")
		row := rapid.SliceOfN(rapid.Float32Range(-1e30, 1e30), 40, 40).Draw(t, "row")
		err := bench[*cpu.Buffer]{be: be}.attempt(func(r *rig[*cpu.Buffer]) {
			p := r.plane("plane", geometry{kvHeads: 1, block: 1, blocks: 1}, dt, len(row))
			p.put(0, 0, row)
			require.NoError(r, p.settle(p.now().clone(), 0, 0, widen(row), 0))
		})
		require.NoError(t, err)
	})
	require.NoError(t, be.Close())
}

func TestUndefinedGroup(t *testing.T) {
	onCPU(t, func(r *rig[*cpu.Buffer]) {
		p := r.plane("plane", geometry{kvHeads: 1, block: 1, blocks: 1}, backend.Int4, 64)
		p.put(0, 0, r.normal(64))
		got := p.now().clone()
		require.ErrorContains(r, undefinedGroup(p, got, 0, 0, 40), "want NaN")
		copy(got.scales[4:], backend.BytesOf([]uint32{uint32(quant.NaN)}))
		require.NoError(r, undefinedGroup(p, got, 0, 0, 40))
		got.data[0] ^= 1
		require.ErrorContains(r, undefinedGroup(p, got, 0, 0, 40), "another group")

		p = r.plane("plane", geometry{kvHeads: 1, block: 1, blocks: 1}, backend.MXFP4, 80)
		p.put(0, 0, r.normal(80))
		got = p.now().clone()
		require.ErrorContains(r, undefinedGroup(p, got, 0, 0, 40), "want NaN")
		got.scales[1] = quant.NaNExponent
		require.NoError(r, undefinedGroup(p, got, 0, 0, 40))
		got.scales[2] = quant.NaNExponent
		require.ErrorContains(r, undefinedGroup(p, got, 0, 0, 40), "element 64 of mxfp4")

		p = r.plane("plane", geometry{kvHeads: 1, block: 1, blocks: 1}, backend.NVFP4, 80)
		p.put(0, 0, r.normal(80))
		got = p.now().clone()
		require.ErrorContains(r, undefinedGroup(p, got, 0, 0, 40), "want NaN")
		got.scales[16+2] = quant.NaNFactor
		require.NoError(r, undefinedGroup(p, got, 0, 0, 40))
		got.scales[16+4] = quant.NaNFactor
		require.ErrorContains(r, undefinedGroup(p, got, 0, 0, 40), "element 64 of nvfp4")
	})
}

func TestHadamardByHand(t *testing.T) {
	require.InDeltaSlice(t, []float64{2, 1, 0, 1}, hadamard([]float64{2, 0, 1, 1}), 1e-12)
	require.Equal(t, []float64{3, 1, 4}, hadamard([]float64{3, 1, 4}), "no power of two divides 3")
	row := make([]float64, 80)
	for i := range row {
		row[i] = math.Sin(float64(i * i))
	}
	turned := hadamard(row)
	require.InDeltaSlice(t, row, hadamard(turned), 1e-12)
	require.InDeltaSlice(t, hadamard(row[16:32]), turned[16:32], 1e-12, "80 is five blocks of 16")
	host := narrow32(row)
	quant.Hadamard(host)
	require.InDeltaSlice(t, turned, widen(host), 1e-6, "the codec's is the same matrix")
}

// Every pair of quantized types goes through the grid, and every activation type
// through the small cases of each pair; hundreds of listed pairs are sampled.
func TestQuantizedFormatsAreTried(t *testing.T) {
	be, err := cpu.Open(cpu.Options{})
	require.NoError(t, err)
	caps := be.Caps()
	require.NoError(t, be.Close())
	g := axesOf(listedFormats(caps)).grid()
	rows := Pairs.rows(g)
	requireCovered(t, g, 2, rows)
	plain := Pairs.rows(axesOf(formatAxis).grid())
	require.Less(t, len(rows), 5*len(plain)/2)
	t.Logf("%d cases, %d without quantized formats", len(rows), len(plain))

	small := map[backend.Format]int{}
	for _, s := range quantizedSpecs(caps) {
		small[s.format]++
	}
	tried := sampled(caps)
	for _, act := range activations {
		for _, p := range quantizedPairs {
			f := backend.Format{Act: act, K: p[0], V: p[1]}
			require.GreaterOrEqual(t, small[f], 4, formatName(f))
			require.Contains(t, tried, f)
		}
	}
	require.Less(t, len(tried), len(caps.Formats)/2)
	require.True(t, slices.ContainsFunc(tried, func(f backend.Format) bool { return f.K.Float() && f.V.Quantized() }))
	require.True(t, slices.ContainsFunc(tried, func(f backend.Format) bool { return f.K.Quantized() && f.V.Float() }))
}
