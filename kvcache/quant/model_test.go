package quant

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	codec "github.com/ferrumkv/ferrumkv/backend/quant"
	"github.com/ferrumkv/ferrumkv/kvcache/evict"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// row is a token of the model: a plain list of them is a layer.
type row struct {
	position   int
	key, value []float32 // as they are read
	score      float64
}

type machine struct {
	t        *rapid.T
	c        *CacheManager
	rng      *rand.Rand
	layers   [][]row
	appended []int
}

// read is what a vector is read as: head by head through the codec.
func (m *machine) read(x []float32) []float32 {
	cfg := m.c.Config()
	a := codec.Affine{Bits: cfg.QuantizationBits, Group: 32}
	if a.Bits == 8 {
		a.Group = 0
	}
	var back []float32
	for h := range cfg.NumHeads {
		head := make([]float32, cfg.HeadDim)
		codes, words := make([]byte, a.Bytes(cfg.HeadDim)), make([]uint32, a.Words(cfg.HeadDim))
		require.True(m.t, a.Encode(codes, words, x[h*cfg.HeadDim:][:cfg.HeadDim], false))
		a.Decode(head, codes, words)
		back = append(back, head...)
	}
	return back
}

// evict lets the policy decide about the plain list.
func (m *machine) evict(l, budget int) {
	p, rows := m.c.Config().EvictionPolicy, m.layers[l]
	about := evict.Layer{Len: len(rows), Heads: 1}
	for _, r := range rows {
		about.Scores = append(about.Scores, float32(r.score))
	}
	var kept []row
	for _, i := range p.Keep(nil, about, budget) {
		kept = append(kept, rows[i])
	}
	m.layers[l] = kept
}

func (m *machine) append(l int) {
	key, value := noise(m.rng, m.c), noise(m.rng, m.c)
	require.NoError(m.t, m.c.Append(key, value, l))
	if limit := m.c.layers[l].Limit(); len(m.layers[l]) >= limit {
		m.evict(l, limit-1)
	}
	m.layers[l] = append(m.layers[l], row{position: m.appended[l], key: m.read(key), value: m.read(value)})
	m.appended[l]++
}

func (m *machine) refuse(l int) {
	good, bad := noise(m.rng, m.c), noise(m.rng, m.c)
	bad[m.rng.IntN(len(bad))] = float32(math.NaN())
	require.ErrorIs(m.t, m.c.Append(bad, good, l), backend.ErrNonFinite{})
	require.ErrorIs(m.t, m.c.Append(good, bad, l), backend.ErrNonFinite{})
	require.ErrorIs(m.t, m.c.Append(good, good[1:], l), backend.ErrArgument{})
	require.ErrorIs(m.t, m.c.Append(append(good, 0), good, l), backend.ErrArgument{})
}

func (m *machine) score(l int) {
	scores := make([]float64, len(m.layers[l]))
	for i := range scores {
		scores[i] = float64(m.rng.IntN(4))
		m.layers[l][i].score += scores[i]
	}
	require.NoError(m.t, m.c.layers[l].UpdateAttentionScores(scores))
}

// agree compares every token, and asks for those that are gone.
func (m *machine) agree() {
	check(m.t, m.c)
	for i, rows := range m.layers {
		l, err := m.c.Layer(i)
		require.NoError(m.t, err)
		require.Equal(m.t, len(rows), l.Len())
		positions := l.Positions(nil)
		keys, values, err := l.Get(positions)
		require.NoError(m.t, err)
		present := map[int]bool{}
		for k, r := range rows {
			require.Equal(m.t, r.position, positions[k])
			require.Equal(m.t, r.key, keys[k])
			require.Equal(m.t, r.value, values[k])
			present[r.position] = true
		}
		for p := -1; p <= m.appended[i]; p++ {
			if !present[p] {
				_, _, err := l.Get([]int{p})
				require.ErrorIs(m.t, err, ErrNotHeld{Layer: i, Position: p, Appended: m.appended[i]})
			}
		}
	}
}

// Random histories look like plain lists of rows that the same policy shortens, and
// blocks are conserved after every step.
func TestHistoriesMatchLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snap := evict.SnapKV{Sinks: rapid.IntRange(0, 5).Draw(t, "sinks"), Window: rapid.IntRange(0, 5).Draw(t, "window"), Kernel: 3}
		cfg := KVCacheConfig{
			MaxSeqLen: rapid.IntRange(3, 60).Draw(t, "max"), Layers: rapid.IntRange(1, 3).Draw(t, "layers"),
			NumHeads: rapid.IntRange(1, 2).Draw(t, "heads"), HeadDim: rapid.SampledFrom([]int{1, 3, 8, 40}).Draw(t, "dim"),
			QuantizationBits: rapid.SampledFrom([]int{2, 3, 4, 8}).Draw(t, "bits"),
			EvictionPolicy: rapid.SampledFrom([]evict.Policy{
				evict.Recency{}, evict.SlidingWindow{Window: snap.Window + 1, Sinks: snap.Sinks},
				evict.H2O{Sinks: snap.Sinks}, snap, evict.PyramidKV{SnapKV: snap},
			}).Draw(t, "policy"),
		}
		c, err := New(cfg)
		require.NoError(t, err)
		m := &machine{t: t, c: c, rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), layers: make([][]row, cfg.Layers), appended: make([]int, cfg.Layers)}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			l := rapid.IntRange(0, cfg.Layers-1).Draw(t, "layer")
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); {
			case op < 5:
				for range rapid.IntRange(1, 20).Draw(t, "tokens") {
					m.append(l)
				}
			case op < 6:
				m.refuse(l)
			case op < 8:
				m.score(l)
			default:
				budget := rapid.IntRange(0, 60).Draw(t, "budget")
				require.NoError(t, c.layers[l].Evict(budget))
				m.evict(l, budget)
				require.LessOrEqual(t, c.layers[l].Len(), budget)
			}
			m.agree()
		}
		for l := range cfg.Layers {
			require.NoError(t, c.layers[l].Evict(0))
		}
		require.Zero(t, c.memory.Held())
		require.NoError(t, c.memory.Check())
	})
}
