package kvcache

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Every full block that is computed goes down, is below already, or is missed, once: Stats count each case, however fast prompts
// follow each other. The naive model is the keys of what was computed, and those in the tier, which has room for all.
func TestMissedIsCountedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, err := memory.Open(memory.Options{Bytes: 16 << 20})
		require.NoError(t, err)
		r := tiered(t, rapid.IntRange(9, 30).Draw(t, "blocks"), config.Tiers{More: []tier.Tier{m}})
		repeats := rapid.Bool().Draw(t, "repeats")
		computed, keys := 0, map[tier.Key]bool{}
		for i := range rapid.IntRange(1, 20).Draw(t, "prompts") {
			first := 100 * i
			if repeats {
				first = 100 * rapid.IntRange(0, 3).Draw(t, "prompt")
			}
			prompt := sequence(first, rapid.IntRange(1, 35).Draw(t, "tokens")) // few of them end with a full block
			x, match := r.read(prompt, OpenOptions{NoReuse: rapid.Bool().Draw(t, "anew")})
			if match.Loading > 0 { // else loaded blocks may displace computed ones
				x.wait(r)
			}
			had := x.seq.Len()
			require.NoError(t, r.prefill(r.s, x))
			full := prompt[:len(prompt)/4*4]
			for j, k := range r.pool.common.Keys(nil, 4, prefix.Query{Tokens: full}) {
				if j >= had/4 {
					keys[k] = true
					computed++
				}
			}
			require.NoError(t, x.seq.Release())
			if rapid.IntRange(0, 3).Draw(t, "pause") == 0 {
				r.flush()
			}
			if repeats { // blocks on the device would displace those computed again
				r.flush()
				r.evict()
			}
			require.LessOrEqual(t, r.moves().Waiting, 2*r.stats().Blocks)
		}
		r.flush()
		st := r.stats().Moves
		require.Equal(t, int64(computed), st.Stored+st.There+st.Missed, "%d stored, %d there, %d missed", st.Stored, st.There, st.Missed)
		require.Equal(t, m.Stats().Blocks, st.Stored)
		lacking := 0
		for k := range keys {
			n, err := m.Has(t.Context(), []tier.Key{k})
			require.NoError(t, err)
			lacking += 1 - n
		}
		if !repeats {
			require.Equal(t, int64(lacking), st.Missed)
		}
		require.LessOrEqual(t, int64(lacking), st.Missed)
		require.Zero(t, st.Waiting)
		r.close()
		require.NoError(t, m.Close())
	})
}

// Blocks that no tier takes are missed, also if none is asked, and cleared ones are not.
func TestMissedWhereNoTierTakes(t *testing.T) {
	m, err := memory.Open(memory.Options{Bytes: 16 << 20})
	require.NoError(t, err)
	top := &refusing{Tier: m}
	r := tiered(t, 12, config.Tiers{More: []tier.Tier{top}})
	r.cache(sequence(1, 23), OpenOptions{})
	r.flush()
	require.NoError(t, r.pool.Clear(true))
	require.Equal(t, []int64{5, 0}, []int64{r.stats().Moves.Stored, r.stats().Moves.Missed})
	top.refuses.Store(true)
	for i := range 5 { // the last ones find the tier paused
		r.cache(sequence(1000*(i+1), 23), OpenOptions{})
		r.flush()
	}
	require.Equal(t, []int64{5, 25}, []int64{r.stats().Moves.Stored, r.stats().Moves.Missed})
	r.close()
	require.NoError(t, m.Close())
}

// refusing is a tier that takes nothing for a while.
type refusing struct {
	tier.Tier
	refuses atomic.Bool
}

func (f *refusing) Put(ctx context.Context, blocks []tier.Block) error {
	if f.refuses.Load() {
		return errors.New("full of something else")
	}
	return f.Tier.Put(ctx, blocks)
}
