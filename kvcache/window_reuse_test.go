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
		cfg.Memory.Capacity, cfg.Memory.Blocks = 200, 80
		r := deviceRig(t, cfg)
		c := r.pool.Config()
		prompt := sequence(1, 9*c.Memory.BlockSize+3)
		a, match, err := r.pool.Open(prompt, OpenOptions{})
		require.NoError(t, err)
		require.Zero(t, match.Cached)
		require.NoError(t, r.feed(feed[buffer]{a, prompt}))
		sealed := c.Edge(len(prompt)-1) * c.Memory.BlockSize
		require.Positive(t, sealed)
		require.NoError(t, a.Release())

		open := func(prompt []uint32, o OpenOptions) (*Sequence[buffer], int) {
			seq, match, err := r.pool.Open(prompt, o)
			require.NoError(t, err)
			require.Equal(t, match.Cached, seq.Len())
			return seq, match.Cached
		}
		for _, cut := range []int{0, 1, c.Memory.BlockSize - 1} { // in the middle of a block, too
			other := append(append([]uint32(nil), prompt[:sealed-cut]...), 7777, 7778)
			seq, matched := open(other, OpenOptions{})
			require.Equal(t, sealed-cut, matched)
			rounds := make([]int, matched)
			for i := range rounds {
				rounds[i] = 1
			}
			w := &remembered{next: matched, pos: sequenceOf(matched), turns: make([]int, matched), ids: other[:matched:matched], kept: rounds, fresh: make([]int, matched), sealed: c.BlocksOf(matched), gone: c.BlocksOf(matched)}
			w.matches(t, seq)
			fork, err := seq.Fork()
			require.NoError(t, err)
			wf := w.clone()
			require.NoError(t, r.feed(feed[buffer]{seq, other[matched:]}))
			w.step(c, other[matched:])
			r.grown(seq, w, 3*c.Memory.BlockSize, 1)
			r.expectWindow(r.s, seq, w)
			require.NotZero(t, seq.text.Fidelity&prefix.Requantized)
			require.NoError(t, fork.Truncate(fork.Len()-1))
			wf.truncate(c, fork.Len())
			r.grown(fork, wf, 5)
			r.expectWindow(r.s, fork, wf)
			require.NoError(t, fork.Release())
			require.NoError(t, seq.Release())
		}

		// The next turn of a conversation: what it wrote behind what it found is of another kind.
		turn := append(append([]uint32(nil), prompt[:sealed]...), sequence(5000, 6*c.Memory.BlockSize)...)
		seq, matched := open(turn, OpenOptions{})
		require.NoError(t, r.feed(feed[buffer]{seq, turn[matched:]}))
		require.NoError(t, seq.Release())
		longer := append(append([]uint32(nil), turn...), 1)
		seq, matched = open(longer, OpenOptions{})
		require.Equal(t, sealed, matched, "a strict reader")
		require.NoError(t, seq.Release())
		seq, matched = open(longer, OpenOptions{Accept: prefix.Requantized})
		require.Equal(t, c.Edge(len(turn)-1)*c.Memory.BlockSize, matched)
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
	r.grown(a, w, 5*c.Memory.BlockSize)
	for draft := 1; draft <= c.Memory.BlockSize+1; draft++ {
		r.grown(a, w, draft)
		require.NoError(t, a.Truncate(a.Len()-draft))
		w.truncate(c, a.Len())
		r.grown(a, w, 1)
		for i := w.gone * c.Memory.BlockSize; i < len(w.ids); i++ {
			require.Zero(t, w.fresh[i], "token %d of %d after a draft of %d", i, len(w.ids), draft)
		}
		require.Zero(t, a.text.Fidelity)
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
		cfg.Model.QHeads, cfg.Model.KVHeads, cfg.Model.HeadDim, cfg.Model.VHeadDim = 2, 2, 32, 32
		cfg.Memory.BlockSize, cfg.Storage.Residual, cfg.Memory.StepTokens, cfg.Memory.Capacity, cfg.Memory.Blocks, cfg.Model.RoPE = 16, 40, 600, 1200, 200, nil // so that one piece is longer
		cfg.Memory.Prefix = prefix.Off
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
		x := r.vector(r.s, rows(ids, 0, c.Model.KVHeads, c.Model.HeadDim, false))
		v := r.vector(r.s, rows(ids, 0, c.Model.KVHeads, c.Model.VHeadDim, true))
		y := r.vector(r.s, make([]float32, len(ids)*c.Model.QHeads*c.Model.VHeadDim))
		require.NoError(r.t, r.step.Append(0, kv(x, v)))
		require.NoError(r.t, r.step.Attend(0, attending(x, y)))
		require.NoError(r.t, r.step.Append(1, kv(y, y)))
		require.NoError(r.t, r.step.Attend(1, attending(y, x)))
		require.NoError(r.t, r.step.Commit())
		out = append(out, r.download(x)...)
		r.free(x, v, y)
	}
	require.NoError(r.t, seq.Release())
	return out
}
