package quality

import (
	"cmp"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
	"github.com/ferrumkv/ferrumkv/internal/testutil/external"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/stretchr/testify/require"
)

// The shape of the synthetic layers: a context, then a step of queries that see it.
const (
	outlierContext = 104
	outlierQueries = 8
	outlierTokens  = outlierContext + outlierQueries
	outlierHeads   = 2
	outlierDim     = 64
	outlierRow     = outlierHeads * outlierDim
)

// ranges are the largest keys and values of the layers of a model.
func ranges(t *testing.T, file string) (layers [][2]float64) {
	var stats struct {
		Nodes map[string]struct{ Inputs json.RawMessage }
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	text = []byte(strings.ReplaceAll(string(text), "Infinity", "0"))
	require.NoError(t, json.Unmarshal(text, &stats))
	largest := func(node string) (v float64) {
		inputs := strings.FieldsFunc(string(stats.Nodes[node].Inputs), func(r rune) bool { return strings.ContainsRune("[], \n\t", r) })
		require.NotEmpty(t, inputs, node)
		require.NoError(t, json.Unmarshal([]byte(inputs[0]), &v), node)
		return v
	}
	for _, name := range [][2]string{{"key_cache", "value_cache"}, {"k_cache", "v_cache"}} {
		for node := range stats.Nodes {
			if of, ok := strings.CutSuffix(node, "."+name[0]); ok {
				layers = append(layers, [2]float64{largest(node), largest(of + "." + name[1])})
			}
		}
	}
	require.NotEmpty(t, layers)
	slices.SortFunc(layers, func(a, b [2]float64) int { return slices.Compare(a[:], b[:]) })
	return layers
}

// outlierLayer is a layer [tokens, heads, dim] whose largest key is k and value v. As in
// trained models a few channels have the large keys (KIVI, arXiv:2402.02750).
func outlierLayer(k, v float64) (q, keys, values []float32) {
	random := rand.New(rand.NewPCG(uint64(k*1000), uint64(v*1000)))
	fill := func(most float64, outliers int) []float32 {
		x, top := make([]float64, outlierTokens*outlierRow), 0.
		for i := range x {
			x[i] = random.NormFloat64()
			if i%outlierDim < outliers {
				x[i] = 8 + x[i]
			}
			top = max(top, math.Abs(x[i]))
		}
		out := make([]float32, len(x))
		for i := range x {
			out[i] = float32(x[i])
			if most > 0 {
				out[i] = float32(x[i] * most / top)
			}
		}
		return out
	}
	return fill(0, 0), fill(k, 2), fill(v, 0)
}

// attend is attention of the layer's queries over a cache in a format.
func attend(t *testing.T, be anyBackend, f Format, q, k, v []float32) []float32 {
	cfg := f.config(outlierTokens)
	cfg.Model.Layers, cfg.Model.KVHeads, cfg.Model.HeadDim, cfg.Model.Act = 1, outlierHeads, outlierDim, backend.F32
	pool, err := kvcache.NewPool(be, cfg)
	require.NoError(t, err)
	stream, err := be.NewStream()
	require.NoError(t, err)
	batch := pool.NewBatch()
	seq, _, err := pool.Open(nil, kvcache.OpenOptions{})
	require.NoError(t, err)
	out := make([]float32, outlierQueries*outlierRow)
	for at, n := 0, outlierContext; at < outlierTokens; at, n = at+n, outlierQueries {
		var bufs [4]backend.AnyBuffer
		for i, x := range [][]float32{q, k, v, q} {
			bufs[i], err = backend.AllocFrom(be, stream, backend.F32, x[at*outlierRow:][:n*outlierRow])
			require.NoError(t, err)
		}
		require.NoError(t, batch.Reset())
		require.NoError(t, batch.Add(seq, make([]uint32, n)))
		require.NoError(t, batch.Plan(stream))
		io := kvcache.Dense(bufs[0], bufs[1], bufs[2], bufs[3])
		require.NoError(t, batch.Append(0, io))
		require.NoError(t, batch.Attend(0, io))
		require.NoError(t, batch.Commit())
		if n == outlierQueries {
			require.NoError(t, backend.Download(be, stream, out, bufs[3], 0))
		}
		require.NoError(t, stream.Sync())
		for _, b := range bufs {
			require.NoError(t, be.Free(b))
		}
	}
	require.NoError(t, seq.Release())
	require.NoError(t, batch.Close())
	require.NoError(t, pool.Close())
	require.NoError(t, stream.Close())
	return out
}

// errorOf is the most by which a value of a row is stored as another one, for each element of
// x [tokens, heads, dim].
func errorOf(f Format, dt backend.DType, x []float32) []float64 {
	bound := make([]float64, len(x))
	for i, v := range x {
		row := x[i/outlierDim*outlierDim:][:outlierDim]
		switch dt {
		case backend.F32:
		case backend.F16, backend.BF16:
			bound[i] = math.Abs(float64(quant.Round(dt, v)) - float64(v))
		case backend.FP8E4M3, backend.FP8E5M2:
			bound[i] = quant.BoundFP8(dt, v, 1)
		case backend.Int4Channel:
			a, _ := quant.AffineOf(dt)
			first := i / outlierRow / f.block * f.block
			var column []float32
			for token := first; token < min(first+f.block, outlierTokens); token++ {
				column = append(column, x[token*outlierRow+i%outlierRow])
			}
			bound[i] = a.Bound(column)
		default:
			bound[i] = quant.BoundRow(dt, row, i%outlierDim)
		}
	}
	return bound
}

// exactly is attention in float64 of query i of a head, and the most by which a format can
// change it. Scores move by at most δ, and so weights by a factor within e^±2δ, which
// moves at most tanh δ of them.
func exactly(f Format, i, h int, q, k, v []float32, kError, vError []float64) (out []float64, bound float64) {
	at := func(token int) int { return token*outlierRow + h*outlierDim }
	token := outlierContext + i
	query := slices.Clone(q[at(token):][:outlierDim])
	scores := make([]float64, token+1)
	for t := range scores {
		for d, x := range query {
			scores[t] += float64(x) * float64(k[at(t)+d]) / math.Sqrt(outlierDim)
		}
	}
	if f.hadamard {
		quant.Hadamard(query)
	}
	delta, most, sum := 0., 0., 0.
	top := slices.Max(scores)
	out = make([]float64, outlierDim)
	for t, s := range scores {
		moved := 0.
		for d, x := range query {
			moved += math.Abs(float64(x)) * kError[at(t)+d] / math.Sqrt(outlierDim)
		}
		delta = max(delta, moved)
		w := math.Exp(s - top)
		sum += w
		for d := range out {
			value := float64(v[at(t)+d])
			out[d] += w * value
			bound, most = max(bound, vError[at(t)+d]), max(most, math.Abs(value))
		}
	}
	for d := range out {
		out[d] /= sum
	}
	return out, bound + 2*most*math.Tanh(delta) + 1e-4*most
}

// Attention over keys and values as large as those of real models, in every format,
// against float64 over the exact tensors.
func TestOutliers(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(external.Path(t, "kvstats", "inc"), "*.json"))
	require.NoError(t, err)
	require.Len(t, files, 4)
	be := openCPU(t)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		layers := ranges(t, file)
		values := slices.MaxFunc(layers, func(a, b [2]float64) int { return cmp.Compare(a[1], b[1]) })
		tested := [][2]float64{layers[0], layers[len(layers)/2], layers[len(layers)-1], values}
		if race.Enabled {
			tested = tested[3:]
		}
		for _, l := range tested {
			q, k, v := outlierLayer(l[0], l[1])
			relative := map[string]float64{}
			for _, f := range Formats() {
				relative[f.Name] = outlierError(t, be, f, l[1], q, k, v)
				t.Logf("%-22s K to %5.1f, V to %4.1f  %-13s error %.5f of the largest value", name, l[0], l[1], f.Name, relative[f.Name])
			}
			require.Less(t, relative["f32"], 1e-5)
			require.Less(t, relative["int8"], 0.2)
			require.Less(t, relative["kivi4"], relative["int4"], "channels of their own keep large ones from spoiling the others")
		}
	}
}

// outlierError is the root of the mean squared error of a layer's attention, as a part of
// its largest value. No element is off by more than the bound.
func outlierError(t *testing.T, be anyBackend, f Format, largest float64, q, k, v []float32) float64 {
	got := attend(t, be, f, q, k, v)
	turned := slices.Clone(k)
	if f.hadamard {
		for i := 0; i < len(turned); i += outlierDim {
			quant.Hadamard(turned[i:][:outlierDim])
		}
	}
	kError, vError := errorOf(f, f.k, turned), errorOf(f, f.v, v)
	squares := 0.
	for i := range outlierQueries {
		for h := range outlierHeads {
			want, bound := exactly(f, i, h, q, k, v, kError, vError)
			for d, w := range want {
				off := math.Abs(float64(got[i*outlierRow+h*outlierDim+d]) - w)
				require.LessOrEqual(t, off, bound, "%s: query %d, head %d, element %d", f.Name, i, h, d)
				squares += off * off
			}
		}
	}
	return math.Sqrt(squares/float64(len(got))) / largest
}
