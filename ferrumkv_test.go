package ferrumkv_test

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv"
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/zerotest"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/stretchr/testify/require"
)

const (
	layers         = 2
	qHeads, heads  = 4, 2
	dim            = 64
	qWidth, kWidth = qHeads * dim, heads * dim
)

// device is what tests run on: where FERRUM_TEST_DEVICE says so a stand-in of a GPU, which copies rows.
var device = cmp.Or(os.Getenv("FERRUM_TEST_DEVICE"), "cpu")

func config() kvcache.Config {
	return kvcache.Config{
		Model:   kvcache.Model{Layers: layers, QHeads: qHeads, KVHeads: heads, HeadDim: dim, RoPE: &backend.RoPE{}},
		Storage: kvcache.Storage{K: backend.F32},
		Memory:  kvcache.Memory{Layout: kvcache.Paged, Capacity: 256, MaxSeqs: 2},
	}
}

// rows are those of n tokens from a position on, a function of layer and position.
func rows(layer, at, n int) ferrumkv.Rows {
	fill := func(kind, width int) []float32 {
		out := make([]float32, 0, n*width)
		for i := range n {
			rng := rand.New(rand.NewPCG(uint64(kind<<8|layer), uint64(at+i)))
			for range width {
				out = append(out, float32(rng.NormFloat64()))
			}
		}
		return out
	}
	return ferrumkv.Rows{Q: fill(0, qWidth), K: fill(1, kWidth), V: fill(2, kWidth), Out: make([]float32, n*qWidth)}
}

// attention is what the last of n tokens gets in a layer, in float64.
func attention(layer, n int) []float64 {
	r, out := rows(layer, 0, n), make([]float64, qWidth)
	for h := range qHeads {
		q, kv := r.Q[(n-1)*qWidth+h*dim:], h/(qHeads/heads)*dim
		var sum float64
		for i := range n {
			var score float64
			for d := range dim {
				score += float64(q[d]) * float64(r.K[i*kWidth+kv+d])
			}
			w := math.Exp(score / math.Sqrt(dim))
			sum += w
			for d := range dim {
				out[h*dim+d] += w * float64(r.V[i*kWidth+kv+d])
			}
		}
		for d := range dim {
			out[h*dim+d] /= sum
		}
	}
	return out
}

// open opens a cache, a step and a sequence without a prompt.
func open(t *testing.T, cfg kvcache.Config) (*ferrumkv.Cache, *ferrumkv.Step, *kvcache.Sequence[backend.AnyBuffer]) {
	kv, err := ferrumkv.Open(device, cfg)
	require.NoError(t, err)
	step, err := kv.NewStep()
	require.NoError(t, err)
	seq, _, err := kv.Pool.Open(nil, kvcache.OpenOptions{})
	require.NoError(t, err)
	return kv, step, seq
}

// run does one step of n tokens from a position on, and returns what the last layer gave the last of them.
func run(t *testing.T, step *ferrumkv.Step, seq *kvcache.Sequence[backend.AnyBuffer], tokens []uint32) []float32 {
	at, n := seq.Len(), len(tokens)
	require.NoError(t, step.Add(seq, tokens))
	require.Equal(t, n, step.Tokens())
	require.NoError(t, step.Plan())
	var r ferrumkv.Rows
	for l := range layers {
		r = rows(l, at, n)
		require.NoError(t, step.Attend(l, r))
	}
	require.NoError(t, step.Commit())
	return r.Out[(n-1)*qWidth:]
}

// Two requests with one prompt, the second of which finds what the first computed, and tokens after it.
func TestTwoRequests(t *testing.T) {
	kv, err := ferrumkv.Open(device, config())
	require.NoError(t, err)
	step, err := kv.NewStep()
	require.NoError(t, err)
	prompt := make([]uint32, 40)
	for i := range prompt {
		prompt[i] = uint32(i)
	}
	for _, cached := range []int{0, 39} {
		seq, match, err := kv.Pool.Open(prompt, kvcache.OpenOptions{})
		require.NoError(t, err)
		require.Equal(t, cached, match.Cached)
		require.InDeltaSlice(t, attention(layers-1, 40), run(t, step, seq, prompt[match.Cached:]), 1e-5)
		for n := range 3 {
			require.InDeltaSlice(t, attention(layers-1, 41+n), run(t, step, seq, []uint32{7}), 1e-5)
		}
		require.NoError(t, seq.Release())
	}
	require.NoError(t, kv.Pool.Check())
	require.NoError(t, kv.Close())
	require.ErrorIs(t, kv.Close(), backend.ErrClosed)
	require.ErrorIs(t, step.Close(), backend.ErrClosed)
	require.ErrorIs(t, step.Attend(0, ferrumkv.Rows{}), backend.ErrClosed)
	_, err = kv.NewStep()
	require.ErrorIs(t, err, backend.ErrClosed)
}

// Rotated queries come back, as they do from Append: position 0 is not rotated, position 1 is.
func TestRotate(t *testing.T) {
	kv, step, seq := open(t, config())
	defer func() { require.NoError(t, kv.Close()) }()
	require.NoError(t, step.Add(seq, []uint32{1, 2}))
	require.NoError(t, step.Plan())
	r, before := rows(0, 0, 2), rows(0, 0, 2)
	r.Rotate = true
	require.NoError(t, step.Attend(0, r))
	require.Equal(t, before.Q[:qWidth], r.Q[:qWidth])
	for i := range dim / 2 { // a pair of elements turns by its frequency
		x, y := float64(before.Q[qWidth+i]), float64(before.Q[qWidth+i+dim/2])
		angle := math.Pow(10000, -2*float64(i)/dim)
		require.InDelta(t, x*math.Cos(angle)-y*math.Sin(angle), r.Q[qWidth+i], 1e-5)
		require.InDelta(t, x*math.Sin(angle)+y*math.Cos(angle), r.Q[qWidth+i+dim/2], 1e-5)
	}
	require.Equal(t, before.K, r.K, "keys are rotated on their way")
}

// Slices of any number and length: those that a step does not remember any more are still right, and none is left
// imported after Close.
func TestManySlices(t *testing.T) {
	kv, err := ferrumkv.Open(device, config())
	require.NoError(t, err)
	buffers := kv.Device.Info().Buffers
	step, err := kv.NewStep()
	require.NoError(t, err)
	seq, _, err := kv.Pool.Open(nil, kvcache.OpenOptions{})
	require.NoError(t, err)
	for n := 1; n <= 100; n++ {
		require.InDeltaSlice(t, attention(layers-1, n), run(t, step, seq, []uint32{1}), 1e-5)
	}
	require.LessOrEqual(t, kv.Device.Info().Buffers, buffers+16*layers+16)
	require.NoError(t, seq.Release())
	require.NoError(t, step.Close())
	require.Equal(t, buffers, kv.Device.Info().Buffers)
	require.NoError(t, kv.Close())
}

func TestRowsOfAnotherLength(t *testing.T) {
	kv, step, seq := open(t, config())
	defer func() { require.NoError(t, kv.Close()) }()
	err := step.Attend(0, rows(0, 0, 1))
	require.ErrorIs(t, err, kvcache.ErrStep{})
	require.EqualError(t, err, "ferrumkv: Step.Attend: kvcache: the step is not planned yet; Plan it first")
	require.EqualError(t, step.Add(nil, []uint32{1}), "ferrumkv: Step.Add: kvcache: the sequence is nil; open one with Pool.Open")
	require.NoError(t, step.Add(seq, []uint32{1, 2}))
	require.NoError(t, step.Plan())
	for name, change := range map[string]func(*ferrumkv.Rows){
		"Q: 511":   func(r *ferrumkv.Rows) { r.Q = r.Q[1:] },
		"K: 0":     func(r *ferrumkv.Rows) { r.K = nil },
		"V: 128":   func(r *ferrumkv.Rows) { r.V = r.V[:kWidth] }, // with room behind it
		"Out: 513": func(r *ferrumkv.Rows) { r.Out = append(r.Out, 0) },
		"Q overlaps Out": func(r *ferrumkv.Rows) { // by one element
			all := make([]float32, 4*qWidth)
			r.Q, r.Out = all[:2*qWidth], all[2*qWidth-1:4*qWidth-1]
		},
		"V overlaps Out": func(r *ferrumkv.Rows) { r.V = r.Out[:2*kWidth] },
		"Q overlaps K":   func(r *ferrumkv.Rows) { r.K = r.Q[kWidth : 3*kWidth] },
	} {
		r := rows(0, 0, 2)
		change(&r)
		err := step.Attend(0, r)
		require.ErrorIs(t, err, backend.ErrArgument{})
		require.ErrorContains(t, err, "ferrumkv: Step.Attend: "+name)
	}
	err = step.Attend(layers, rows(0, 0, 2))
	require.ErrorIs(t, err, backend.ErrArgument{})
	require.EqualError(t, err, "ferrumkv: Step.Attend: kvcache: layer 2: the pool has layers 0 to 1")
	require.ErrorIs(t, step.Commit(), kvcache.ErrStep{}, "no layer has its rows")
	require.NoError(t, step.Reset())
	require.ErrorIs(t, step.Attend(0, ferrumkv.Rows{}), kvcache.ErrStep{})
	require.ErrorIs(t, step.Attend(0, rows(0, 0, 2)), kvcache.ErrStep{}, "not planned, whatever the rows are")
}

func TestOpenRefuses(t *testing.T) {
	_, err := ferrumkv.Open("abacus", config())
	require.Error(t, err)
	cfg := config()
	cfg.Model.Act = backend.F16
	_, err = ferrumkv.Open(device, cfg)
	require.ErrorIs(t, err, kvcache.ErrConfig{})
	require.ErrorContains(t, err, "ferrumkv: Model.Act=f16")
	cfg = config()
	cfg.Model.Layers = 0
	_, err = ferrumkv.Open(device, cfg)
	require.ErrorIs(t, err, kvcache.ErrConfig{})
}

func TestBestDevice(t *testing.T) {
	kv, err := ferrumkv.Open("", config())
	require.NoError(t, err)
	require.NotEmpty(t, kv.Device.Info().Name)
	require.NoError(t, kv.Close())
}

// Close in the middle of a step: its calls return errors, and nothing else happens.
func TestCloseBesideSteps(t *testing.T) {
	for range 10 {
		kv, step, seq := open(t, config())
		ended := make(chan error)
		go func() {
			for {
				err := cmp.Or(step.Reset(), seq.Truncate(0), step.Add(seq, []uint32{1}), step.Plan())
				for l := range layers {
					err = cmp.Or(err, step.Attend(l, rows(l, 0, 1)))
				}
				if err := cmp.Or(err, step.Commit()); err != nil {
					ended <- err
					return
				}
			}
		}()
		time.Sleep(time.Millisecond)
		require.NoError(t, kv.Close())
		require.ErrorIs(t, <-ended, backend.ErrClosed)
	}
}

// Queries that are transformed with the keys are transformed where the caller can see them, on every device.
func TestHadamardChangesQueries(t *testing.T) {
	cfg := config()
	cfg.Storage = kvcache.Storage{K: backend.Int8, Hadamard: true}
	kv, step, seq := open(t, cfg)
	defer func() { require.NoError(t, kv.Close()) }()
	require.NoError(t, step.Add(seq, []uint32{1}))
	require.NoError(t, step.Plan())
	r := rows(0, 0, 1)
	var sum float32 // the first element of a transformed head is the sum of the head over the root of its size
	for _, v := range r.Q[:dim] {
		sum += v
	}
	require.NoError(t, step.Attend(0, r))
	require.InDelta(t, sum/8, r.Q[0], 1e-4)
}

// A step like the one before allocates nothing: slices are imported once, also of many layers.
func TestWarmStepsAllocateNothing(t *testing.T) {
	if device != "cpu" {
		t.Skip("a stand-in allocates")
	}
	const layers = 70
	cfg := config()
	cfg.Model.Layers = layers
	kv, step, seq := open(t, cfg)
	defer func() { require.NoError(t, kv.Close()) }()
	var r [layers]ferrumkv.Rows
	for l := range r {
		r[l] = rows(l, 0, 1)
	}
	tokens := []uint32{1}
	one := func() {
		err := cmp.Or(seq.Truncate(0), step.Add(seq, tokens), step.Plan())
		for l := range layers {
			err = cmp.Or(err, step.Attend(l, r[l]))
		}
		if err := cmp.Or(err, step.Commit()); err != nil {
			panic(err)
		}
	}
	one()
	require.Zero(t, testing.AllocsPerRun(100, one))
}

// What Open and NewStep have not made returns errors.
func TestZeroValues(t *testing.T) {
	zerotest.Check(t, zerotest.Types{Made: []any{&ferrumkv.Cache{}, &ferrumkv.Step{}}})
}

// In steps of one shape there are rows for all places. The Q, K and V of empty places are ignored, and
// their Out is zero.
func TestFixedShapeWithEmptyPlaces(t *testing.T) {
	shapes := [][3]int{{1, 1, 1}, {2, 1, 1}, {4, 1, 3}, {3, 2, 1}, {3, 5, 2}} // places, tokens, sequences
	ran := 0
	for _, storage := range []backend.DType{backend.F32, backend.F16, backend.BF16, backend.Int8, backend.Int4} {
		for _, layout := range []kvcache.Layout{kvcache.Paged, kvcache.Contiguous} {
			cfg := config()
			cfg.Storage.K, cfg.Memory.Layout, cfg.Memory.MaxSeqs = storage, layout, 8
			kv, err := ferrumkv.Open(device, cfg)
			if errors.Is(err, backend.ErrUnsupported{}) {
				continue
			}
			require.NoError(t, err)
			fixed, err := kv.NewStep()
			require.NoError(t, err)
			free, err := kv.NewStep()
			require.NoError(t, err)
			ran++
			for _, shape := range shapes {
				places, n, seqs := shape[0], shape[1], shape[2]
				require.NoError(t, fixed.Batch.FixShape(places, n))
				require.Equal(t, places*n, fixed.Tokens(), "before the first sequence, too")
				var a, b []*ferrumkv.Sequence
				for range seqs {
					for _, list := range []*[]*ferrumkv.Sequence{&a, &b} {
						seq, _, err := kv.Pool.Open(nil, kvcache.OpenOptions{NoReuse: true, NoPublish: true})
						require.NoError(t, err)
						*list = append(*list, seq)
					}
				}
				for turn := range 3 {
					ids := make([]uint32, n)
					for i := range a {
						require.NoError(t, fixed.Add(a[i], ids))
						require.NoError(t, free.Add(b[i], ids))
					}
					require.NoError(t, cmp.Or(fixed.Plan(), free.Plan()))
					require.Equal(t, places*n, fixed.Tokens())
					require.Equal(t, seqs*n, free.Tokens())
					for l := range layers {
						want, got := rows(l, turn*n, seqs*n), rows(l, turn*n, places*n)
						for _, r := range []struct {
							rows  []float32
							width int
						}{{got.Q, qWidth}, {got.K, kWidth}, {got.V, kWidth}, {got.Out, qWidth}} {
							for i := seqs * n * r.width; i < len(r.rows); i++ {
								r.rows[i] = float32(math.NaN())
							}
						}
						require.NoError(t, free.Attend(l, want))
						require.ErrorIs(t, fixed.Attend(l, want), map[bool]error{true: backend.ErrArgument{}, false: nil}[seqs < places], "rows of the sequences alone")
						require.NoError(t, fixed.Attend(l, got))
						require.InDeltaSlice(t, want.Out, got.Out[:len(want.Out)], 1e-5, "%v %v %v", storage, layout, shape)
						require.Equal(t, make([]float32, len(got.Out)-len(want.Out)), got.Out[len(want.Out):])
					}
					require.NoError(t, cmp.Or(fixed.Commit(), free.Commit()))
				}
				for i := range a {
					require.NoError(t, cmp.Or(a[i].Release(), b[i].Release()))
				}
				require.NoError(t, cmp.Or(fixed.Reset(), free.Reset()))
			}
			require.NoError(t, fixed.Batch.FixShape(0, 0))
			require.Zero(t, fixed.Tokens())
			require.NoError(t, kv.Close())
		}
	}
	require.Positive(t, ran)
	t.Log(ran, "formats and layouts")
}
