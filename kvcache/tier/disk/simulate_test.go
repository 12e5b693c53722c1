package disk

import (
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A simulation keeps, gives up, declines and returns what a disk of so many blocks does.
func TestSimulation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const bytes = 24
		blocks := rapid.IntRange(1, 6).Draw(rt, "blocks")
		admission := rapid.SampledFrom([]Admission{"", All, SecondUse}).Draw(rt, "admission")
		now := time.Unix(1e9, 0)
		clock := func() time.Time { return now }
		sim, err := Simulation{Blocks: blocks, Payload: bytes, Admission: admission, Now: clock}.Open()
		require.NoError(rt, err)
		defer sim.Close()
		stride := sim.stride
		real, err := Open(Options{Dir: t.TempDir(), Payload: bytes, Bytes: 3*page + int64(blocks)*(stride+entryBytes), Floor: 1, Admission: admission, now: clock})
		require.NoError(rt, err)
		defer real.Close()
		both := func(do func(*Tier) any) {
			rt.Helper()
			require.Equal(rt, do(real), do(sim))
		}
		for range rapid.IntRange(1, 30).Draw(rt, "calls") {
			var path []tier.Block // of a tree in which a key's number is that of its parent and more
			for n := 0; n < rapid.IntRange(1, 4).Draw(rt, "length"); n++ {
				k := keyOf(10*n + rapid.IntRange(0, 2).Draw(rt, "key"))
				b := tier.Block{Key: k, Bytes: content(k, bytes)}
				b.Sum = b.Summed()
				if n > 0 {
					b.Parent = path[n-1].Key
				}
				path = append(path, b)
			}
			keys := make([]tier.Key, len(path))
			for i := range path {
				keys[i] = path[i].Key
			}
			switch rapid.IntRange(0, 3).Draw(rt, "call") {
			case 0:
				both(func(d *Tier) any { n, err := d.Has(ctx, keys); return []any{n, err} })
			case 1:
				both(func(d *Tier) any { return d.Delete(ctx, keys[:1]) })
			case 2:
				both(func(d *Tier) any {
					dst := make([]tier.Block, len(keys))
					for i := range dst {
						dst[i] = tier.Block{Key: keys[i], Bytes: make([]byte, bytes)}
					}
					n, err := d.Get(ctx, dst)
					for i := range n {
						require.Equal(rt, path[i], tier.Block{Key: keys[i], Parent: path[i].Parent, Bytes: dst[i].Bytes, Sum: dst[i].Sum})
					}
					return []any{n, err}
				})
			default:
				both(func(d *Tier) any { return d.Put(ctx, path) })
			}
			both(func(d *Tier) any { return d.Stats() })
		}
		require.LessOrEqual(rt, sim.Stats().Blocks, int64(blocks))
	})
}

// What a sparse file does not have reads as zeros, and ends where it ends.
func TestSparse(t *testing.T) {
	f := &sparse{}
	_, err := f.WriteAt([]byte("abcdef"), piece-3)
	require.NoError(t, err)
	got := make([]byte, 8)
	n, err := f.ReadAt(got, piece-4)
	require.Error(t, err)
	require.Equal(t, "\x00abcdef", string(got[:n]))
	require.NoError(t, f.Allocate(0, 3*piece))
	_, err = f.ReadAt(got, piece-4)
	require.NoError(t, err)
	require.Equal(t, "\x00abcdef\x00", string(got))
	require.NoError(t, f.Truncate(piece+1))
	require.NoError(t, f.Allocate(0, 3*piece))
	_, err = f.ReadAt(got, piece-4)
	require.NoError(t, err)
	require.Equal(t, "\x00abcd\x00\x00\x00", string(got), "what was cut off does not come back")
}
