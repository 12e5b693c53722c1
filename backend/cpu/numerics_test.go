package cpu

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/golden"
)

//go:embed testdata/stored.txt
var storedBits embed.FS

// The bits that are stored of fixed keys and values are those of backend.NumericsVersion, in every
// type, with all kernels that the processor runs. Other devices store what the CPU does:
// package backendtest compares them.
func TestStoredBitsAreThoseOfTheNumericsVersion(t *testing.T) {
	defer func() {
		if t.Failed() {
			t.Error("other bits are stored than before. If that is intended, raise backend.NumericsVersion, so that nobody finds the old ones under the new keys, and write the script anew")
		}
	}()
	golden.Run(t, storedBits, "testdata/stored.txt", func(t testing.TB, c golden.Command) string {
		args := map[string]string{}
		for _, a := range c.Args {
			args[a.Key] = a.Value
		}
		switch c.Name {
		case "numerics":
			return fmt.Sprintln("version", backend.NumericsVersion)
		case "codec", "append", "convert", "rotate":
			return storedLine(t, c, args)
		case "table":
			return tableLine(t, args)
		}
		require.Fail(t, "no command "+c.Name)
		return ""
	})
}

// No type is without its lines: what appends or, where only blocks are stored, converts.
func TestEveryTypeIsPinned(t *testing.T) {
	script, err := storedBits.ReadFile("testdata/stored.txt")
	require.NoError(t, err)
	for dt := range backend.StorageTypes {
		op := "append "
		if dt.Coding().Scope == backend.ByChannel {
			op = "convert "
		}
		require.Contains(t, string(script), "\n"+op+dt.String()+" ", "write lines for the type, as the others have them, and the script with FERRUM_TEST_GOLDEN=write")
	}
}

// storedLine is what an operation stores as a type, by its sums: the same with all kernels.
func storedLine(t testing.TB, c golden.Command, args map[string]string) (line string) {
	op, name := c.Name, c.Args[0].Key
	dt, ok := backend.ParseDType(name)
	require.True(t, ok, name)
	for _, k := range available {
		be, s := openWith(t, Options{Kernels: k.name})
		n := newNumerics(t, be, s, dt, args)
		switch op {
		case "codec":
			n.encode(t)
		case "append":
			require.NoError(t, be.Append(s, n.append))
		case "convert": // from blocks of the activation type
			from := n.append
			from.Cache.K, from.Cache.V = emptyPlane(t, be, n.to, backend.F32, numericsDim), emptyPlane(t, be, n.to, backend.F32, numericsDim)
			fill(view[float32](from.Cache.K.Data), 7)
			fill(view[float32](from.Cache.V.Data), 8)
			pairs := numbers(t, be, s, backend.U32, []uint32{2, 0, 0, 1, 1, 2})
			require.NoError(t, be.ConvertBlocks(s, backend.ConvertBlocksParams[*Buffer]{From: from.Cache, To: n.append.Cache, Pairs: pairs, N: 3}))
		case "rotate":
			require.NoError(t, be.Append(s, n.append))
			deltas := numbers(t, be, s, backend.I32, []int32{3, -2, 1, 0, 5, -7})
			slots := numbers(t, be, s, backend.I64, []int64{11, 5, -1, 0, 7, 2})
			require.NoError(t, be.Rotate(s, backend.RotateParams[*Buffer]{Cache: n.append.Cache, Slots: slots, Deltas: deltas, N: 6, Rotary: n.rope}))
		}
		have := op
		for _, a := range c.Args {
			have += " " + strings.TrimSuffix(a.Key+"="+a.Value, "=")
		}
		have += ":"
		for i, plane := range []backend.Plane[*Buffer]{n.append.Cache.K, n.append.Cache.V} {
			for j, m := range memory(plane) {
				sum := sha256.Sum256(m)
				have += fmt.Sprintf(" %s %x", [...]string{"keys", "values", "scales"}[max(i, 2*j)], sum[:8])
			}
		}
		if line == "" {
			line = have
		}
		require.Equal(t, line, have, "kernels %s and %s", available[0].name, k.name)
		require.NoError(t, be.Close())
	}
	return line + "\n"
}

// numericsDim is no power of two, and no multiple of 64.
const numericsDim = 96

// numerics is a call of Append that is the same on every machine.
type numerics struct {
	append backend.AppendParams[*Buffer]
	rope   backend.RotaryTable[*Buffer]
	to     backend.CacheView[*Buffer]
}

func newNumerics(t testing.TB, be *Backend, s backend.Stream, dt backend.DType, args map[string]string) (n numerics) {
	n.to = backend.CacheView[*Buffer]{Blocks: 3, KVHeads: 2, BlockSize: 4}
	cache := n.to
	cache.K, cache.V = emptyPlane(t, be, n.to, dt, numericsDim), emptyPlane(t, be, n.to, dt, numericsDim)
	if dt == backend.Int4Channel { // which is for keys
		cache.V = emptyPlane(t, be, n.to, backend.Int4, numericsDim)
	}
	_, cache.K.Hadamard = args["hadamard"]
	slots := []int64{5, 0, 11, -1, 7, 2, 3, 10}
	act := backend.F32
	if name := args["act"]; name != "" {
		var ok bool
		act, ok = backend.ParseDType(name)
		require.True(t, ok, name)
	}
	rows := func(seed uint32) backend.Rows[*Buffer] {
		x := make([]float32, len(slots)*n.to.KVHeads*numericsDim)
		fill(x, seed)
		if _, ok := args["saturate"]; ok {
			x[5], x[700], x[900] = float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())
		}
		if _, ok := args["ends"]; ok {
			x[5], x[700], x[900] = math.MaxFloat32, -math.MaxFloat32, 0x1p127
		}
		return backend.Dense(floats(t, be, act, x))
	}
	n.append = backend.AppendParams[*Buffer]{Cache: cache, Tokens: len(slots), K: rows(1), V: rows(2), Slots: numbers(t, be, s, backend.I64, slots)}
	_, n.append.Saturate = args["saturate"]
	n.rope = backend.RotaryTable[*Buffer]{Positions: 16, Dims: 64, Magnitude: 1}
	if args["rope"] == "interleaved" {
		n.rope.Pairing, n.rope.Magnitude = backend.Interleaved, 1.25
	}
	// Angles whose cosines are fractions, not those of a library of functions.
	triples := [...][3]float32{{3, 4, 5}, {5, 12, 13}, {8, 15, 17}, {7, 24, 25}, {-20, 21, 29}, {1, 0, 1}, {0, -1, 1}}
	var table []float32
	for i := range n.rope.Positions * n.rope.Dims / 2 {
		a := triples[i%len(triples)]
		table = append(table, a[0]/a[2], a[1]/a[2])
	}
	n.rope.Table = backend.Some(floats(t, be, backend.F32, table))
	if _, ok := args["rope"]; ok {
		n.append.Rotary = n.rope
		n.append.Positions = backend.Some(numbers(t, be, s, backend.U32, []uint32{0, 1, 2, 3, 5, 8, 13, 15}))
	}
	return n
}

// encode stores the rows by the codecs alone.
func (n *numerics) encode(t testing.TB) {
	v := n.append.Cache
	for side, to := range [...]plane{planeOf(v, v.K), planeOf(v, v.V)} {
		x := values([]backend.Rows[*Buffer]{n.append.K, n.append.V}[side].Buf)
		for i, slot := range view[int64](n.append.Slots) {
			for h := range v.KVHeads {
				if slot >= 0 {
					require.True(t, portable.encode[to.dt](to.slot(int(slot), h), x[(i*v.KVHeads+h)*to.dim:][:to.dim], n.append.Saturate))
				}
			}
		}
	}
}

// fill sets x to numbers that are the same on every machine, in rows on which rounding is hard:
// around 0, far from it, alike, small, with one that is large, and zeros.
func fill(x []float32, seed uint32) {
	for i := range x {
		seed = seed*1664525 + 1013904223
		noise := float32(int32(seed)>>8) * 0x1p-20 // from −8 to 8
		switch i / numericsDim % 6 {
		case 1:
			noise = noise/8 + 100
		case 2:
			noise = -0.3
		case 3:
			noise *= 0x1p-12
		case 4:
			if i%numericsDim == 17 {
				noise *= 64
			}
		case 5:
			noise = float32(i%2) * -noise
		}
		x[i] = noise
	}
}

// tableLine is a table of RoPE by its sum.
func tableLine(t testing.TB, args map[string]string) string {
	real := func(name string) float64 {
		if args[name] == "" {
			return 0
		}
		v, err := strconv.ParseFloat(args[name], 64)
		require.NoError(t, err)
		return v
	}
	r := backend.RoPE{Theta: real("theta"), Dims: int(real("dims")), Factor: real("factor"), OriginalContext: int(real("context"))}
	for r.Scaling.String() != args["scaling"] {
		r.Scaling++
	}
	const positions = 16
	r, err := r.Resolve(64)
	require.NoError(t, err)
	table, err := r.Table(64, positions)
	require.NoError(t, err)
	sum := sha256.New()
	for i, v := range table {
		pos, pair := i/2/(r.Dims/2), i/2%(r.Dims/2)
		requireFar(t, float64(pos)*r.Frequency(pair))
		fmt.Fprintf(sum, "%08x", math.Float32bits(v))
	}
	return fmt.Sprintf("table %x\n", sum.Sum(nil)[:8])
}

// requireFar is that no library of functions, whose last bits are its own, can make another
// float32 of the cosine and the sine of an angle.
func requireFar(t testing.TB, angle float64) {
	for _, v := range [...]float64{math.Cos(angle), math.Sin(angle)} {
		f := float32(v)
		for _, to := range [...]float32{float32(math.Inf(1)), float32(math.Inf(-1))} {
			border := (float64(f) + float64(math.Nextafter32(f, to))) / 2
			require.Greater(t, math.Abs(v-border), 0x1p-46*max(math.Abs(angle), math.Abs(v)), "angle %v: take other positions or frequencies", angle)
		}
	}
}
