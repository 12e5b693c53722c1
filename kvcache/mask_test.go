package kvcache

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// attended is what a layer's queries get, those of the second half of the tokens.
func attended(t *testing.T, m Mask) []float32 {
	cfg := small(Paged)
	cfg.Model.Layers, cfg.Model.Masks = 1, []Mask{m}
	r := deviceRig(t, cfg)
	defer r.close()
	seq, ids := r.open(), sequence(1, 16)
	require.NoError(t, r.feed2(seq, ids[:8]))
	q, out := r.vector(r.s, rows(ids[8:], 5, cfg.Model.QHeads, cfg.Model.HeadDim, false)), r.vector(r.s, make([]float32, 8*cfg.Model.QHeads*cfg.Model.VHeadDim))
	require.NoError(t, r.plan(r.s, feed[buffer]{seq, ids[8:]}))
	r.write(r.s, feed[buffer]{seq, ids[8:]})
	require.NoError(t, r.step.Attend(0, attending(q, out)))
	got := r.download(out)
	require.NoError(t, cmp.Or(r.step.Commit(), r.step.Reset()))
	require.NoError(t, seq.Release())
	r.free(q, out)
	return got
}

// A sink logit that is very low is none, also beside others.
func TestLowSinkLogitIsNone(t *testing.T) {
	heads := small(Paged).Model.QHeads
	none, low, some := attended(t, Mask{}), slices.Repeat([]float32{-1e30}, heads), slices.Repeat([]float32{-1e30}, heads)
	some[1] = 2
	require.InDeltaSlice(t, none, attended(t, Mask{SinkLogits: low}), 1e-6)
	beside, width := attended(t, Mask{SinkLogits: some}), small(Paged).Model.VHeadDim
	for i := range none {
		if head := i / width % heads; head == 1 {
			require.NotEqual(t, none[i], beside[i])
		} else {
			require.InDelta(t, none[i], beside[i], 1e-6)
		}
	}
}

// A window of n is n tokens with the query's own: a query that sees itself alone gets its own
// value.
func TestWindowCountsTheQuerysOwn(t *testing.T) {
	cfg := small(Paged)
	got, ids := attended(t, Mask{Window: 1}), sequence(1, 16)[8:]
	for i, id := range ids {
		for h := range cfg.Model.QHeads {
			want := rows([]uint32{id}, 0, cfg.Model.KVHeads, cfg.Model.VHeadDim, true)[h*cfg.Model.KVHeads/cfg.Model.QHeads*cfg.Model.VHeadDim:][:cfg.Model.VHeadDim]
			require.InDeltaSlice(t, want, got[(i*cfg.Model.QHeads+h)*cfg.Model.VHeadDim:][:cfg.Model.VHeadDim], 1e-6, "token %d, head %d", i, h)
		}
	}
	require.NotEqual(t, got, attended(t, Mask{Window: 2}))
}
