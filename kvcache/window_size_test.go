package kvcache

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// A step that lacks blocks takes nobody's prefix: block numbers of the one store mean nothing in the other.
func TestWindowLeavesPrefixesOfOthers(t *testing.T) {
	r := windowRig(t, openDevice(t), func(c *Config) { c.MaxSeqs, c.Blocks = 1, 60 })
	c := r.pool.Config()
	w, a, x := r.open(), r.open(), r.open()
	require.NoError(t, r.feed(feed[buffer]{w, sequence(900, 1)}))
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 30)}))
	require.NoError(t, r.step.Reset())
	require.NoError(t, r.s.Sync())
	if len(a.kept.blocks) == 0 {
		t.Skip("blocks are larger")
	}
	require.True(t, r.pool.kept.Published(a.kept.blocks[0]))
	require.NoError(t, r.pool.reclaim())
	free := r.pool.fresh.Stats().Free
	err := r.plan(r.s, feed[buffer]{w, sequence(2000, min(c.Capacity-1, (free-1)*c.BlockSize+3))}, feed[buffer]{x, sequence(3000, 2*c.BlockSize)})
	require.ErrorIs(t, err, ErrOutOfBlocks{})
	require.True(t, r.pool.kept.Published(a.kept.blocks[0]), "a block of another sequence left the tree")
	for seq := range r.pool.seqs {
		require.NoError(t, seq.Release())
	}
	r.close()
}

// others open sequences of so many tokens each, token by token, until nothing is left.
func (r *rig[B]) others(most, tokens int, id *uint32) (opened []*Sequence[B]) {
	for range most {
		s := r.open()
		opened = append(opened, s)
		for range tokens {
			*id += 100
			if err := r.feed(feed[B]{s, sequence(int(*id), 1)}); err != nil {
				require.ErrorIs(r.t, err, ErrOutOfBlocks{})
				return opened
			}
		}
	}
	return opened
}

// What is reserved is there to its end, token by token, although blocks of the window are given up and
// taken again all the time, and whoever comes meanwhile takes what is left.
func TestWindowReserve(t *testing.T) {
	r := windowRig(t, openDevice(t), func(c *Config) { c.MaxSeqs, c.Blocks = 1, 400 })
	c := r.pool.Config()
	a := r.open()
	require.NoError(t, r.pool.Reserve(Reservation[buffer]{a, c.Capacity}))
	id := uint32(10000)
	for a.Len() < c.Capacity {
		r.others(100, 1, &id)
		require.NoError(t, r.feed(feed[buffer]{a, sequence(a.Len()+1, 1)}), "at %d of %d reserved, claim %d", a.Len(), c.Capacity, a.recent.claim.Blocks())
	}
	for seq := range r.pool.seqs {
		require.NoError(t, seq.Release())
	}
	r.close()
}

// A sequence that was cut back in the middle of a quantized block writes that anew, and needs a block for it.
func TestWindowReserveBehindACut(t *testing.T) {
	r := windowRig(t, openDevice(t), func(c *Config) { c.MaxSeqs, c.Blocks = 8, 40 })
	c := r.pool.Config()
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, min(10*c.BlockSize, c.StepTokens))}))
	half := c.edge(a.Len()-1)*c.BlockSize - c.BlockSize/2
	if half <= 0 {
		t.Skip("blocks are larger")
	}
	require.NoError(t, a.Truncate(half))
	end := min(c.Capacity, half+8*c.BlockSize)
	require.NoError(t, r.pool.Reserve(Reservation[buffer]{a, end}))
	require.NoError(t, r.feed(feed[buffer]{a, sequence(31, 1)}))
	id := uint32(10000)
	r.others(8, c.Capacity, &id)
	for a.Len() < end {
		require.NoError(t, r.feed(feed[buffer]{a, sequence(a.Len()+1, 1)}), "at %d of %d reserved, claims %d and %d", a.Len(), end, a.kept.claim.Blocks(), a.recent.claim.Blocks())
	}
	for seq := range r.pool.seqs {
		require.NoError(t, seq.Release())
	}
	r.close()
}

// The sizes of a pool know of the blocks of recent tokens: their memory, their largest buffer, their number.
func TestWindowSizes(t *testing.T) {
	cfg := windowConfig(backend.Format{Act: backend.F32, K: backend.Int8, V: backend.Int8})
	cfg.MaxSeqs, cfg.Blocks = 10000, 20
	c, err := cfg.Resolve()
	require.NoError(t, err)
	var size ErrPoolSize
	require.ErrorAs(t, c.Fits(0, backend.Caps{MaxBuffer: 1 << 16}), &size)
	require.True(t, size.Recent && size.Layer)
	require.ErrorContains(t, size, "lower MaxSeqs, Residual or StepTokens")
	require.NoError(t, c.Fits(0, backend.Caps{MaxBuffer: 1 << 40}))
	cfg.MaxSeqs, cfg.Residual = 8, 1<<20 // no sequence has more than its capacity
	c, err = cfg.Resolve()
	require.NoError(t, err)
	require.Equal(t, 8*ceilDiv(c.Capacity, c.BlockSize)+2*ceilDiv(c.StepTokens, c.BlockSize), c.residualBlocks())
	cfg.MaxSeqs, cfg.Residual = maxSetting, maxSetting
	if c, err = cfg.Resolve(); err == nil {
		require.LessOrEqual(t, c.residualBlocks(), maxSetting)
	}
	r := windowRig(t, openDevice(t), func(c *Config) { c.Masks = []Mask{{SinkLogits: make([]float32, 4)}} })
	require.LessOrEqual(t, len(r.pool.owned), r.pool.cfg.buffers())
	r.close()
}
