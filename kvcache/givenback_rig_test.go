package kvcache

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// twin is one of two pools that do the same: one whose parts give blocks back, and one without groups whose masks hide what
// those do not see. It keeps the rows that attention returned, by their token, query or node.
type twin struct {
	*mixed
	gave  map[string][]float32
	asks  int  // queries so far
	empty bool // some part has given blocks back
}

// newTwin makes a pool on a device that the caller closes.
func newTwin(t *testing.T, be backend.Backend[buffer], cfg Config) (*twin, error) {
	pool, err := NewPool(be, signed(cfg))
	if err != nil {
		return nil, err
	}
	s, err := be.NewStream()
	require.NoError(t, err)
	r := &rig[buffer]{t: t, be: be, s: s, pool: pool, step: pool.NewBatch()}
	r.poison()
	return &twin{mixed: mixedOn(r, 1), gave: map[string][]float32{}}, nil
}

// end gives back all that the pool has.
func (w *twin) end() {
	w.t.Helper()
	for len(w.seqs) > 0 {
		w.drop(w.seqs[0])
	}
	require.NoError(w.t, w.s.Sync())
	require.NoError(w.t, w.pool.Check())
	require.NoError(w.t, w.step.Close())
	require.NoError(w.t, w.pool.Close())
	require.NoError(w.t, w.s.Close())
}

// run does a step. An error leaves everything as it was.
func (w *twin) run(deals ...deal) error {
	w.t.Helper()
	if err := w.plan(deals...); err != nil {
		return err
	}
	for layer := range w.pool.cfg.Model.Layers {
		w.layer(layer, deals)
	}
	for _, d := range deals {
		w.asks += len(d.views) + len(d.parents)
	}
	if err := w.commit(deals); err != nil {
		return err
	}
	for i := range w.seqs {
		for j := range w.seqs[i].seq.runs.In {
			w.empty = w.empty || w.seqs[i].seq.runs.In[j].Gone > 0
		}
	}
	return w.pool.Check()
}

// layer appends and attends in a layer, and notes the result of each row.
func (w *twin) layer(layer int, deals []deal) {
	w.t.Helper()
	st, _ := w.pool.of(layer)
	m := &st.Config.Model
	var names []string
	var ids, marks []uint32
	before, asks := map[*told]int{}, w.asks
	for _, d := range deals {
		if _, again := before[d.told]; !again {
			before[d.told] = len(d.told.ids)
		}
		for i, id := range d.ids {
			name := fmt.Sprintf("sequence %d, token %d", slices.Index(w.seqs, d.told), before[d.told]+i)
			if d.parents != nil {
				name = fmt.Sprintf("node %d", asks)
				asks++
			}
			names, ids, marks = append(names, name), append(ids, id), append(marks, id)
		}
		for _, v := range d.views {
			names, ids, marks = append(names, fmt.Sprintf("query %d, %+v", asks, v)), append(ids, 0), append(marks, uint32(7000+asks))
			asks++
		}
		before[d.told] += len(d.ids)
	}
	hk, hv := newRows(m, ids, layer)
	q, k, v := w.vector(w.s, rows(marks, layer+100, m.QHeads, m.HeadDim, false)), w.vector(w.s, hk), w.vector(w.s, hv)
	out := w.vector(w.s, make([]float32, len(ids)*m.QHeads*m.VHeadDim))
	io := qkv(q, k, v)
	io.Rotate = m.RoPE != nil
	if w.step.step.Writes() || io.Rotate {
		require.NoError(w.t, w.step.Append(layer, io))
	}
	require.NoError(w.t, w.step.Attend(layer, attending(q, out)))
	require.NoError(w.t, w.s.Sync())
	got, width := w.download(out), m.QHeads*m.VHeadDim
	for i, name := range names {
		w.gave[fmt.Sprintf("%s in layer %d", name, layer)] = got[i*width:][:width]
	}
	w.free(q, k, v, out)
}

// stage is the two pools, and the names of what one of them was refused.
type stage struct {
	t            *testing.T
	gives, hides *twin
	next         uint32 // token
	refused      []string
}

// act does something in both pools, or in neither if the one that gives blocks back is refused it.
func (s *stage) act(do func(w *twin) error) bool {
	s.t.Helper()
	if err := do(s.gives); err != nil {
		s.refused = append(s.refused, refusal(s.t, err))
		return false
	}
	require.NoError(s.t, do(s.hides))
	return true
}

// tokens are n new ones.
func (s *stage) tokens(n int) []uint32 {
	s.next += uint32(n)
	return sequence(int(s.next)-n+1, n)
}

// feed gives a sequence new tokens, each number of them in its own step.
func (s *stage) feed(seq int, steps ...int) {
	s.t.Helper()
	for _, n := range steps {
		ids := s.tokens(n)
		s.act(func(w *twin) error { return w.run(deal{told: w.seqs[seq], ids: ids}) })
	}
}

// same compares the results of attention: both pools have the same rows, unless one of them found some.
func (s *stage) same(found bool) {
	within := 2e-5
	if found && s.gives.pool.cfg.Storage.Residual > 0 { // found tokens have been quantized, and those computed again have not
		within = 5e-3
	}
	s.t.Helper()
	both := 0
	for _, name := range slices.Sorted(maps.Keys(s.gives.gave)) {
		want, there := s.hides.gave[name]
		if !there {
			require.True(s.t, found, "%s: only where blocks are given back", name)
			continue
		}
		both++
		for i, x := range s.gives.gave[name] {
			if !(math.Abs(float64(x)-float64(want[i])) <= within) {
				require.Failf(s.t, "another value", "%s, element %d: %v where blocks are given back, %v where a mask hides", name, i, x, want[i])
			}
		}
	}
	require.Positive(s.t, both)
	require.True(s.t, found || both == len(s.hides.gave), "rows that only the mask has")
}

// scores compares those of tokens that the next query sees.
func (s *stage) scores() {
	s.t.Helper()
	for i, told := range s.gives.seqs {
		n := len(told.ids)
		for layer := range s.gives.pool.cfg.Model.Layers {
			heads := s.gives.pool.cfg.Model.KVHeads
			read := func(w *twin) []float32 {
				dst := make([]float32, heads*n)
				require.NoError(s.t, w.seqs[i].seq.Scores(w.s, layer, dst))
				return dst
			}
			got, want := read(s.gives), read(s.hides)
			for at := range got {
				if s.hides.shows(layer, View{n, n}, at%n) {
					require.InDelta(s.t, want[at], got[at], 1e-4, "the score of token %d in layer %d of sequence %d", at%n, layer, i)
				}
			}
		}
	}
}

var digits = regexp.MustCompile(`\d+`)

// refusal is the text of an error that names what is refused, without numbers.
func refusal(t *testing.T, err error) string {
	t.Helper()
	typed := slices.ContainsFunc([]error{backend.ErrConfig{}, backend.ErrUnsupported{}, backend.ErrArgument{}, ErrView{}, ErrGone{}, ErrResume{}, ErrSpan{}},
		func(kind error) bool { return errors.Is(err, kind) })
	require.True(t, typed, "%T: %v", err, err)
	return digits.ReplaceAllString(err.Error(), "N")
}
