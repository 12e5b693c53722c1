package tier_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/tiertest"
)

// lies are what a tier may do to blocks that it read: before, the first n of four are right.
var lies = map[string]func(blocks []tier.Block, n int) int{
	"a flipped bit":            func(b []tier.Block, n int) int { b[1].Bytes[size-1] ^= 0x80; return n },
	"another sum":              func(b []tier.Block, n int) int { b[1].Sum++; return n },
	"bytes and sum of another": func(b []tier.Block, n int) int { copy(b[1].Bytes, b[2].Bytes); b[1].Sum = b[2].Sum; return n },
	"two exchanged": func(b []tier.Block, n int) int {
		one := bytes.Clone(b[1].Bytes)
		copy(b[1].Bytes, b[2].Bytes)
		copy(b[2].Bytes, one)
		b[1].Sum, b[2].Sum = b[2].Sum, b[1].Sum
		return n
	},
	"half of it":            func(b []tier.Block, n int) int { clear(b[1].Bytes[size/2:]); return n },
	"nothing":               func(b []tier.Block, n int) int { clear(b[1].Bytes); b[1].Sum = 0; return n },
	"what was there before": func(b []tier.Block, n int) int { copy(b[1].Bytes, bytes.Repeat([]byte{7}, size)); return n },
	"a sum of its own": func(b []tier.Block, n int) int { // of what it claims to have, elsewhere
		b[1].Bytes = bytes.Repeat([]byte{7}, size)
		b[1].Sum = b[1].Summed()
		return n
	},
	"under another key": func(b []tier.Block, n int) int { // right, but of a block that was not asked for
		b[1] = tiertest.Chain("mover", "other", 1, size)[0]
		return n
	},
}

// right checks that a tier has only what was stored.
func right(t *testing.T, in tier.Tier, blocks []tier.Block) {
	for _, b := range blocks {
		got := tier.Block{Key: b.Key, Bytes: make([]byte, size)}
		n, err := in.Get(ctx, []tier.Block{got})
		require.NoError(t, err)
		if n == 1 {
			require.Equal(t, b.Bytes, got.Bytes)
		}
	}
}

// Whatever a tier returns, a wrong block is a miss: it comes from another tier, or not at all, goes into no tier, is counted, and
// deleted from the tier.
func TestTiersThatLie(t *testing.T) {
	for name, lie := range lies {
		for _, upper := range []bool{true, false} {
			t.Run(name+map[bool]string{true: "/above", false: "/below"}[upper], func(t *testing.T) {
				simulated(t, tier.MoverOptions{Promote: true, Failures: 3}, func(r *rig) {
					liar, other, at := r.low, r.fast, 1
					if upper {
						liar, other, at = r.fast, r.low, 0
					}
					liar.lie = lie
					a := chain("a", 4)
					require.NoError(t, liar.Put(ctx, a))
					alone := r.get(a)
					require.Equal(t, 1, alone.Blocks, "the first, which is right")
					bad := tier.ErrCorrupt{}
					require.ErrorAs(t, alone.Err, &bad)
					require.Equal(t, tier.ErrCorrupt{Name: liar.name, Key: a[1].Key}, bad)
					require.Equal(t, int64(1), r.Stats().Tiers[at].Corrupt)
					require.Contains(t, liar.calls, "delete")
					n, err := liar.Tier.Has(ctx, keys(a))
					require.NoError(t, err)
					require.Equal(t, 1, n, "the wrong one is forgotten")
					right(t, other.Tier, a)

					require.NoError(t, liar.Put(ctx, a))
					require.NoError(t, other.Put(ctx, a))
					all := r.get(a)
					require.NoError(t, all.Err)
					require.Equal(t, 4, all.Blocks)
					right(t, other.Tier, a)
					right(t, liar.Tier, a)
				})
			})
		}
	}
}

// A tier that keeps lying is paused like one that fails; its right blocks count as before.
func TestLiesAreFailures(t *testing.T) {
	simulated(t, tier.MoverOptions{Failures: 3}, func(r *rig) {
		r.low.lie = lies["a flipped bit"]
		a := chain("a", 4)
		for i := range 3 {
			require.False(t, r.Stats().Tiers[1].Paused)
			require.NoError(t, r.low.Put(ctx, a))
			require.Equal(t, 1, r.get(a).Blocks)
			require.Equal(t, int64(i+1), r.Stats().Tiers[1].Corrupt)
		}
		require.True(t, r.Stats().Tiers[1].Paused)
		require.ErrorAs(t, r.get(a).Err, &tier.ErrRefused{})
		s := r.Stats().Tiers[1]
		require.Equal(t, []int64{3, 3, 0}, []int64{s.Corrupt, s.Loaded, s.Errors})
	})
}

// A tier that cannot delete a wrong block, or hangs in that, holds up neither the job nor its worker.
func TestLiesThatStay(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		simulated(t, tier.MoverOptions{Workers: 1, Failures: 10}, func(r *rig) {
			r.low.lie = lies["another sum"]
			a := chain("a", 4)
			require.NoError(t, r.low.Put(ctx, a))
			hook, open := stubborn("delete")
			if !hangs {
				hook, open = func(_ context.Context, op string) error {
					if op == "delete" {
						return errDisk
					}
					return nil
				}, func() {}
			}
			r.low.set(hook)
			m := r.submit(ctx, true, 0, a)
			res := m.result()
			if !hangs {
				require.Equal(t, 1, res.Blocks)
				require.ErrorIs(t, res.Err, errDisk)
				<-m.released
				require.Equal(t, int64(1), r.Stats().Tiers[1].Corrupt)
				require.Equal(t, 1, r.get(a).Blocks, "again, and again a miss")
				return
			}
			require.ErrorIs(t, res.Err, tier.ErrHung{Name: "low", Op: "get"})
			require.Zero(t, r.get(chain("b", 1)).Blocks)
			require.Equal(t, 1, r.Stats().Tiers[1].Hanging)
			open()
			<-m.released
		})
	}
}

// A tier within MoverOptions.Checked is not checked again.
func TestCheckedTiers(t *testing.T) {
	simulated(t, tier.MoverOptions{Checked: 1}, func(r *rig) {
		a := chain("a", 2)
		require.Equal(t, 2, r.put(a).Blocks)
		r.fast.lie = func(b []tier.Block, n int) int { b[0].Sum++; return n }
		require.Equal(t, tier.Result{Blocks: 2, By: []int{2, 0}}, r.get(a))
		require.NoError(t, r.fast.Clear(ctx, tier.Key{}))
		r.low.lie = r.fast.lie
		res := r.get(a)
		require.Zero(t, res.Blocks)
		require.True(t, errors.As(res.Err, new(tier.ErrCorrupt)))
	})
}

// A store sums what it is given, whatever sums its blocks have.
func TestStoresSum(t *testing.T) {
	simulated(t, tier.MoverOptions{}, func(r *rig) {
		a := slices.Clone(chain("a", 3))
		for i := range a {
			a[i].Sum = 12345
		}
		require.Equal(t, 3, r.put(a).Blocks)
		require.Equal(t, tier.Result{Blocks: 3, By: []int{3, 0}}, r.get(a))
	})
}

// A tier's changes of the list that it was called with reach no other tier: they store, and delete, what they were asked to.
func TestTiersThatWriteToTheirLists(t *testing.T) {
	simulated(t, tier.MoverOptions{Promote: true, Workers: 1}, func(r *rig) {
		a := chain("a", 4)
		r.fast.greedy = true
		r.low.set(func(context.Context, string) error { synctest.Wait(); return nil }) // the other one has returned
		require.Equal(t, []int{4, 4}, r.put(a).By)
		for _, in := range []*faulty{r.fast, r.low} {
			n, err := in.Tier.Has(ctx, keys(a))
			require.NoError(t, err)
			require.Equal(t, 4, n, in.name)
		}
		require.NoError(t, r.Delete(ctx, keys(a)))
		n, err := r.low.Tier.Has(ctx, keys(a)[1:])
		require.NoError(t, err)
		require.Zero(t, n)
	})
}
