package kvcache

import (
	"math"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// A step that lacks blocks takes nobody's prefix: block numbers of the one store mean nothing in the other.
func TestWindowLeavesPrefixesOfOthers(t *testing.T) {
	r := windowRig(t, openDevice(t), func(c *Config) { c.Memory.MaxSeqs, c.Memory.Blocks = 1, 60 })
	c := r.pool.Config()
	w, a := r.open(), r.open()
	require.NoError(t, r.feed(feed[buffer]{w, sequence(900, 1)}))
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 30)}))
	require.NoError(t, r.step.Reset())
	require.NoError(t, r.s.Sync())
	if len(a.runs.In[0].Kept.Blocks) == 0 {
		t.Skip("blocks are larger")
	}
	require.True(t, r.pool.parts.All[0].Kept.Published(a.runs.In[0].Kept.Blocks[0]))
	require.NoError(t, r.pool.parts.Reclaim())
	free := r.pool.parts.All[0].Written.Stats().Free
	feeds := []feed[buffer]{{w, sequence(2000, c.Memory.StepTokens)}}
	for have := 0; have <= free; have += c.BlocksOf(c.Memory.StepTokens) {
		feeds = append(feeds, feed[buffer]{r.open(), sequence(3000+1000*len(feeds), c.Memory.StepTokens)})
	}
	err := r.plan(r.s, feeds...)
	require.ErrorIs(t, err, ErrOutOfBlocks{})
	require.True(t, r.pool.parts.All[0].Kept.Published(a.runs.In[0].Kept.Blocks[0]), "a block of another sequence left the tree")
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
	r := windowRig(t, openDevice(t), func(c *Config) { c.Memory.MaxSeqs, c.Memory.Blocks = 1, 400 })
	c := r.pool.Config()
	a := r.open()
	require.NoError(t, r.pool.Reserve(Reservation[buffer]{a, c.Memory.Capacity}))
	id := uint32(10000)
	for a.Len() < c.Memory.Capacity {
		r.others(100, 1, &id)
		require.NoError(t, r.feed(feed[buffer]{a, sequence(a.Len()+1, 1)}), "at %d of %d reserved, claim %d", a.Len(), c.Memory.Capacity, a.runs.In[0].Written.Claim.Blocks())
	}
	for seq := range r.pool.seqs {
		require.NoError(t, seq.Release())
	}
	r.close()
}

// A reservation that cannot be made, of either store, leaves all claims as they were, and nobody hoards what
// its window gives up.
func TestWindowReserveFails(t *testing.T) {
	for _, change := range []func(*Config){
		func(c *Config) { c.Memory.MaxSeqs, c.Memory.Blocks = 8, 10 },  // too few quantized blocks
		func(c *Config) { c.Memory.MaxSeqs, c.Memory.Blocks = 1, 400 }, // too few recent ones
	} {
		r := windowRig(t, openDevice(t), change)
		c := r.pool.Config()
		a, b := r.open(), r.open()
		require.NoError(t, r.pool.Reserve(Reservation[buffer]{a, c.Memory.BlockSize}))
		before := [2]int{a.runs.In[0].Kept.Claim.Blocks(), a.runs.In[0].Written.Claim.Blocks()}
		rs := []Reservation[buffer]{{a, c.Memory.Capacity}, {b, c.Memory.Capacity}}
		for range 100 { // with others beside them, so that one store or the other lacks blocks
			rs = append(rs, Reservation[buffer]{r.open(), c.Memory.Capacity})
		}
		require.ErrorIs(t, r.pool.Reserve(rs...), ErrOutOfBlocks{})
		require.Equal(t, before, [2]int{a.runs.In[0].Kept.Claim.Blocks(), a.runs.In[0].Written.Claim.Blocks()})
		for _, res := range rs[1:] {
			require.Zero(t, res.Seq.runs.In[0].Kept.Claim.Blocks()+res.Seq.runs.In[0].Written.Claim.Blocks())
		}
		w := &remembered{}
		for range 5 * c.Memory.BlockSize {
			r.grown(b, w, 1)
		}
		require.NoError(t, r.s.Sync())
		require.NoError(t, r.pool.parts.Reclaim())
		require.Zero(t, b.runs.In[0].Written.Claim.Blocks())
		for seq := range r.pool.seqs {
			require.NoError(t, seq.Release())
		}
		r.close()
	}
}

// A sequence that was cut back in the middle of a quantized block writes that anew, and needs a block for it.
func TestWindowReserveBehindACut(t *testing.T) {
	r := windowRig(t, openDevice(t), func(c *Config) { c.Memory.MaxSeqs, c.Memory.Blocks = 8, 40 })
	c := r.pool.Config()
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, min(10*c.Memory.BlockSize, c.Memory.StepTokens))}))
	half := c.Edge(a.Len()-1)*c.Memory.BlockSize - c.Memory.BlockSize/2
	if half <= 0 {
		t.Skip("blocks are larger")
	}
	require.NoError(t, a.Truncate(half))
	end := min(c.Memory.Capacity, half+8*c.Memory.BlockSize)
	require.NoError(t, r.pool.Reserve(Reservation[buffer]{a, end}))
	require.NoError(t, r.feed(feed[buffer]{a, sequence(31, 1)}))
	id := uint32(10000)
	r.others(8, c.Memory.Capacity, &id)
	for a.Len() < end {
		require.NoError(t, r.feed(feed[buffer]{a, sequence(a.Len()+1, 1)}), "at %d of %d reserved, claims %d and %d", a.Len(), end, a.runs.In[0].Kept.Claim.Blocks(), a.runs.In[0].Written.Claim.Blocks())
	}
	for seq := range r.pool.seqs {
		require.NoError(t, seq.Release())
	}
	r.close()
}

// The sizes of a pool know of the blocks of recent tokens: their memory, their largest buffer, their number.
func TestWindowSizes(t *testing.T) {
	cfg := windowConfig(backend.Format{Act: backend.F32, K: backend.Int8, V: backend.Int8})
	cfg.Memory.MaxSeqs, cfg.Memory.Blocks = 10000, 20
	c, err := cfg.Resolve()
	require.NoError(t, err)
	var size ErrPoolSize
	require.ErrorAs(t, c.Fits(0, backend.Caps{MaxBuffer: 1 << 16}), &size)
	require.True(t, size.Recent && size.Layer)
	require.ErrorContains(t, size, "lower Memory.MaxSeqs, Storage.Residual or Memory.StepTokens")
	require.NoError(t, c.Fits(0, backend.Caps{MaxBuffer: 1 << 40}))
	cfg.Memory.MaxSeqs, cfg.Storage.Residual = 8, 1<<20 // no sequence has more than its capacity
	c, err = cfg.Resolve()
	require.NoError(t, err)
	require.Equal(t, 8*c.BlocksOf(c.Memory.Capacity)+2*max(c.BlocksOf(c.Memory.StepTokens), c.WindowBlocks()), c.Recent().Memory.Blocks)
	cfg.Memory.MaxSeqs, cfg.Storage.Residual = math.MaxInt32, math.MaxInt32
	if c, err = cfg.Resolve(); err == nil {
		require.LessOrEqual(t, c.Recent().Memory.Blocks, math.MaxInt32)
	}
	r := windowRig(t, openDevice(t), func(c *Config) { c.Model.Masks = []Mask{{SinkLogits: make([]float32, 4)}} })
	require.LessOrEqual(t, r.pool.parts.Buffers(), r.pool.cfg.MostBuffers())
	r.close()
}
