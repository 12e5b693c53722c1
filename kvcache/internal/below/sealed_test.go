package below

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/seal"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/tiertest"
)

var (
	ctx    = context.Background()
	secret = bytes.Repeat([]byte{7}, seal.SecretBytes)
)

// counted is a sealed tier whose Stats count what was given to it.
type counted struct {
	*sealed
	read atomic.Int64
}

func (c *counted) Get(ctx context.Context, blocks []tier.Block) (int, error) {
	n, err := c.sealed.Get(ctx, blocks)
	for _, b := range blocks[:n] {
		c.read.Add(int64(len(b.Bytes)))
	}
	return n, err
}

func (c *counted) Stats() tier.Stats {
	s := c.sealed.Stats()
	s.Bytes -= s.Blocks * sealedMore
	s.Written -= s.Stored * sealedMore
	s.Read = c.read.Load()
	return s
}

func sealing(t *testing.T, in tier.Tier, secret []byte) *sealed {
	s, err := newSealed(in, secret)
	require.NoError(t, err)
	return s
}

func remember(t *testing.T, bytes int64) *memory.Tier {
	m, err := memory.Open(memory.Options{Bytes: bytes})
	require.NoError(t, err)
	return m
}

// A sealed tier is a tier.
func TestConformance(t *testing.T) {
	tiertest.Run(t, func(t *testing.T, o tiertest.Options) tier.Tier {
		return &counted{sealed: sealing(t, remember(t, o.Bytes), secret)}
	})
}

// seen is a tier that records what it was given, and changes what it returns.
type seen struct {
	tier.Tier
	blocks []tier.Block
	keys   []tier.Key
	change func(blocks []tier.Block)
	infos  int // calls of Info
}

func (s *seen) Info() tier.Info {
	s.infos++
	return s.Tier.Info()
}

func (s *seen) Put(ctx context.Context, blocks []tier.Block) error {
	for _, b := range blocks {
		b.Bytes = bytes.Clone(b.Bytes)
		s.blocks = append(s.blocks, b)
	}
	return s.Tier.Put(ctx, blocks)
}

func (s *seen) Get(ctx context.Context, blocks []tier.Block) (int, error) {
	n, err := s.Tier.Get(ctx, blocks)
	if s.change != nil {
		s.change(blocks)
	}
	return n, err
}

func (s *seen) Delete(ctx context.Context, keys []tier.Key) error {
	s.keys = append(s.keys, keys...)
	return s.Tier.Delete(ctx, keys)
}

const size = 1000

func room(blocks []tier.Block) (out []tier.Block) {
	for _, b := range blocks {
		out = append(out, tier.Block{Key: b.Key, Bytes: make([]byte, len(b.Bytes))})
	}
	return out
}

// A tier sees neither payloads nor keys, and no payload twice in the same bytes.
func TestSealedTiersSeeNothing(t *testing.T) {
	in := &seen{Tier: remember(t, 1<<20)}
	s := sealing(t, in, secret)
	a := tiertest.Chain("sealed", "a", 3, size)
	require.NoError(t, s.Put(ctx, a))
	require.NoError(t, s.Clear(ctx, a[0].Root))
	require.NoError(t, s.Put(ctx, a))
	require.Len(t, in.blocks, 6)
	for i, b := range in.blocks {
		require.Equal(t, size+sealedMore, len(b.Bytes))
		require.Equal(t, in.blocks[i%3].Key, b.Key, "keys are the same each time")
		require.Equal(t, in.blocks[i%3].Parent, b.Parent)
		for _, plain := range a {
			require.NotContains(t, string(b.Bytes), string(plain.Bytes[:16]))
			require.NotContains(t, []tier.Key{plain.Key, plain.Root}, b.Key)
			require.NotContains(t, []tier.Key{plain.Key, plain.Root}, b.Parent)
			require.NotContains(t, []tier.Key{plain.Key, plain.Root}, b.Root)
		}
	}
	for i := range 3 {
		require.NotEqual(t, in.blocks[i].Bytes, in.blocks[i+3].Bytes)
	}
}

// A sealed block that is changed in any part, by itself or with another one, even with a valid sum, is a miss, reported as
// corrupt, and deleted.
func TestSealedForgeries(t *testing.T) {
	in := &seen{Tier: remember(t, 1<<20)}
	s := sealing(t, in, secret)
	a := tiertest.Chain("sealed", "a", 3, size)
	check := func(what string, change func(blocks []tier.Block)) {
		t.Helper()
		require.NoError(t, s.Put(ctx, a))
		in.change, in.keys = change, nil
		got := room(a)
		n, err := s.Get(ctx, got)
		require.Equal(t, 1, n, what)
		require.Equal(t, a[0].Bytes, got[0].Bytes)
		bad := tier.ErrCorrupt{}
		require.ErrorAs(t, err, &bad, what)
		require.Equal(t, a[1].Key, bad.Key)
		require.Equal(t, []tier.Key{s.key(a[1].Key)}, in.keys, "the tier has to forget it")
		in.change = nil
		n, err = s.Has(ctx, []tier.Key{a[1].Key})
		require.NoError(t, err)
		require.Zero(t, n, what)
	}
	for at := range size + sealedMore {
		if at < 20 || at >= size-20 || at%97 == 0 {
			check("a bit", func(b []tier.Block) { b[1].Bytes[at] ^= 4; b[1].Sum = b[1].Summed() })
		}
	}
	check("another block", func(b []tier.Block) { copy(b[1].Bytes, b[2].Bytes); b[1].Sum = b[1].Summed() })
	check("an earlier nonce", func(b []tier.Block) { copy(b[1].Bytes[size:], in.blocks[1].Bytes[size:]); b[1].Sum = b[1].Summed() })
	check("in the clear", func(b []tier.Block) { copy(b[1].Bytes, a[1].Bytes); b[1].Sum = a[1].Sum })
	check("elsewhere", func(b []tier.Block) { clear(b[1].Bytes); b[1].Bytes = bytes.Clone(in.blocks[1].Bytes) })
}

// Pools with other secrets, or none, find nothing of each other in a shared tier, and destroy nothing.
func TestSecretsAreApart(t *testing.T) {
	in := remember(t, 1<<20)
	other := bytes.Repeat([]byte{8}, seal.SecretBytes)
	a := tiertest.Chain("sealed", "a", 3, size)
	all := []tier.Tier{in, sealing(t, in, secret), sealing(t, in, other)}
	for i, s := range all {
		n, err := s.Has(ctx, []tier.Key{a[0].Key})
		require.NoError(t, err)
		require.Zero(t, n, i)
		require.NoError(t, s.Put(ctx, a))
	}
	for i, s := range append(all, sealing(t, in, secret)) {
		got := room(a)
		n, err := s.Get(ctx, got)
		require.NoError(t, err)
		require.Equal(t, 3, n, i)
		for k := range got {
			require.Equal(t, []any{a[k].Bytes, a[k].Sum}, []any{got[k].Bytes, got[k].Sum})
		}
	}
	require.Equal(t, int64(9), in.Stats().Blocks)
	require.Zero(t, in.Stats().Corrupt)
	require.NoError(t, all[1].Clear(ctx, a[0].Root))
	require.Equal(t, int64(6), in.Stats().Blocks)
}

// Info is called when a tier is opened, and not when it returns wrong blocks: it may not answer.
func TestSealedTiersAreNotAskedWhatTheyAre(t *testing.T) {
	in := &seen{Tier: remember(t, 1<<20), change: func(b []tier.Block) { b[0].Bytes[0]++ }}
	s := sealing(t, in, secret)
	a := tiertest.Chain("sealed", "a", 1, size)
	require.NoError(t, s.Put(ctx, a))
	in.infos = 0
	_, err := s.Get(ctx, room(a))
	require.ErrorIs(t, err, tier.ErrCorrupt{Name: "memory", Key: a[0].Key})
	require.Zero(t, in.infos)
}
