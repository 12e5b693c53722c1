package kvcache

import (
	"math"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// What was quantized of a prompt is found by whoever opens the same. Its window is in few bits
// only, so that what follows is told from what a whole prompt gives: strict readers do not
// find it, and others do.
func TestWindowReuse(t *testing.T) {
	for _, f := range windowFormats(backend.F32) {
		cfg := windowConfig(f)
		cfg.Capacity, cfg.Blocks = 200, 80
		r := deviceRig(t, cfg)
		c := r.pool.Config()
		prompt := sequence(1, 9*c.BlockSize+3)
		a, match, err := r.pool.Open(t.Context(), prompt)
		require.NoError(t, err)
		require.Zero(t, match.Matched)
		require.NoError(t, r.feed(feed[buffer]{a, prompt}))
		sealed := c.edge(len(prompt)-1) * c.BlockSize
		require.Positive(t, sealed)
		require.NoError(t, a.Release())

		open := func(prompt []uint32, o OpenOptions) (*Sequence[buffer], int) {
			seq, match, err := r.pool.Open(t.Context(), prompt, o)
			require.NoError(t, err)
			require.Equal(t, match.Matched, seq.Len())
			return seq, match.Matched
		}
		for _, cut := range []int{0, 1, c.BlockSize - 1} { // in the middle of a block, too
			other := append(append([]uint32(nil), prompt[:sealed-cut]...), 7777, 7778)
			seq, matched := open(other, OpenOptions{})
			require.Equal(t, sealed-cut, matched)
			rounds := make([]int, matched)
			for i := range rounds {
				rounds[i] = 1
			}
			w := &remembered{next: matched, pos: sequenceOf(matched), turns: make([]int, matched), ids: other[:matched:matched], kept: rounds, fresh: make([]int, matched), sealed: ceilDiv(matched, c.BlockSize), gone: ceilDiv(matched, c.BlockSize)}
			w.matches(t, seq)
			fork, err := seq.Fork()
			require.NoError(t, err)
			wf := w.clone()
			require.NoError(t, r.feed(feed[buffer]{seq, other[matched:]}))
			w.step(c, other[matched:])
			r.grown(seq, w, 3*c.BlockSize, 1)
			r.expectWindow(r.s, seq, w)
			require.NotZero(t, seq.fidelity&prefix.Requantized)
			require.NoError(t, fork.Truncate(fork.Len()-1))
			wf.truncate(c, fork.Len())
			r.grown(fork, wf, 5)
			r.expectWindow(r.s, fork, wf)
			require.NoError(t, fork.Release())
			require.NoError(t, seq.Release())
		}

		// The next turn of a conversation: what it wrote behind what it found is of another kind.
		turn := append(append([]uint32(nil), prompt[:sealed]...), sequence(5000, 6*c.BlockSize)...)
		seq, matched := open(turn, OpenOptions{})
		require.NoError(t, r.feed(feed[buffer]{seq, turn[matched:]}))
		require.NoError(t, seq.Release())
		longer := append(append([]uint32(nil), turn...), 1)
		seq, matched = open(longer, OpenOptions{})
		require.Equal(t, sealed, matched, "a strict reader")
		require.NoError(t, seq.Release())
		seq, matched = open(longer, OpenOptions{Accept: prefix.Requantized})
		require.Equal(t, c.edge(len(turn)-1)*c.BlockSize, matched)
		require.NoError(t, seq.Release())
		r.close()
	}
}

// A rejected draft of up to a block leaves what the queries behind it see as it was: nothing of the
// window is brought back from fewer bits.
func TestWindowDrafts(t *testing.T) {
	r := windowRig(t, openDevice(t), nil)
	c := r.pool.Config()
	a := r.open()
	w := &remembered{}
	r.grown(a, w, 5*c.BlockSize)
	for draft := 1; draft <= c.BlockSize+1; draft++ {
		r.grown(a, w, draft)
		require.NoError(t, a.Truncate(a.Len()-draft))
		w.truncate(c, a.Len())
		r.grown(a, w, 1)
		for i := w.gone * c.BlockSize; i < len(w.ids); i++ {
			require.Zero(t, w.fresh[i], "token %d of %d after a draft of %d", i, len(w.ids), draft)
		}
		require.Zero(t, a.fidelity)
		r.expectWindow(r.s, a, w)
	}
	require.NoError(t, a.Release())
	r.close()
}

// What a query reads quantized is a function of its position, so a prompt computed in pieces is as
// good as one computed whole. The second layer's keys and values are what the first one gave, as in
// a model: what the pieces differ in is the order of sums, and codes that fall on the other side
// because of it.
func TestWindowPieces(t *testing.T) {
	if emulated(testDevice().Info) {
		t.Skip("long, and the host's part is the same")
	}
	for _, f := range windowFormats(backend.F32) {
		cfg := windowConfig(f)
		cfg.QHeads, cfg.KVHeads, cfg.HeadDim, cfg.VHeadDim = 2, 2, 32, 32
		cfg.BlockSize, cfg.Residual, cfg.StepTokens, cfg.Capacity, cfg.Blocks, cfg.RoPE = 16, 40, 1200, 1200, 200, nil
		cfg.Prefix = prefix.Off
		r := deviceRig(t, cfg)
		prompt := sequence(1, 1030)
		whole := r.deep(prompt, len(prompt))
		for _, piece := range []int{1, 7, 512} {
			got := r.deep(prompt, piece)
			most, sum := 0.0, 0.0
			for i, x := range whole {
				d := math.Abs(float64(x - got[i]))
				most, sum = max(most, d), sum+d
			}
			require.Less(t, most, 0.5*rounding(f.K), "%v-%v in pieces of %d", f.K, f.V, piece)
			require.Less(t, sum/float64(len(whole)), 1e-3*rounding(f.K), "%v-%v in pieces of %d", f.K, f.V, piece)
		}
		r.close()
	}
}

// deep computes a prompt in pieces of some tokens, in two layers of which the second has the first
// one's outputs for queries, keys and values, and returns its outputs.
func (r *rig[B]) deep(prompt []uint32, piece int) (out []float32) {
	c := r.pool.Config()
	seq := r.open()
	for at := 0; at < len(prompt); at += piece {
		ids := prompt[at:min(at+piece, len(prompt))]
		require.NoError(r.t, r.plan(r.s, feed[B]{seq, ids}))
		x := r.vector(r.s, rows(ids, 0, c.KVHeads, c.HeadDim, false))
		v := r.vector(r.s, rows(ids, 0, c.KVHeads, c.VHeadDim, true))
		y := r.vector(r.s, make([]float32, len(ids)*c.QHeads*c.VHeadDim))
		require.NoError(r.t, r.step.Append(0, x, v))
		require.NoError(r.t, r.step.Attend(0, x, y))
		require.NoError(r.t, r.step.Append(1, y, y))
		require.NoError(r.t, r.step.Attend(1, y, x))
		require.NoError(r.t, r.step.Commit())
		out = append(out, r.download(x)...)
		r.free(x, v, y)
	}
	require.NoError(r.t, seq.Release())
	return out
}
