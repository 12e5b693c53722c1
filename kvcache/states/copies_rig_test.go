package states

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
)

// shared is a tier in memory, which does what a test wants before it answers.
type shared struct {
	tier.Tier
	before func(op string)                   // nil: nothing
	got    func(b *tier.Block)               // changes what was read; nil: nothing
	puts   func(b []tier.Block) []tier.Block // what is taken of these; nil: all
}

func (s *shared) call(op string) {
	if s.before != nil {
		s.before(op)
	}
}

func (s *shared) Has(ctx context.Context, keys []tier.Key) (int, error) {
	s.call("has")
	return s.Tier.Has(ctx, keys)
}

func (s *shared) Get(ctx context.Context, blocks []tier.Block) (int, error) {
	s.call("get")
	n, err := s.Tier.Get(ctx, blocks)
	for i := range n {
		if s.got != nil {
			s.got(&blocks[i])
			blocks[i].Sum = blocks[i].Summed()
		}
	}
	return n, err
}

func (s *shared) Delete(ctx context.Context, keys []tier.Key) error {
	s.call("delete")
	return s.Tier.Delete(ctx, keys)
}

func (s *shared) Clear(ctx context.Context, root tier.Key) error {
	s.call("clear")
	return s.Tier.Clear(ctx, root)
}

func (s *shared) Put(ctx context.Context, blocks []tier.Block) error {
	s.call("put")
	if s.puts != nil {
		blocks = s.puts(blocks)
	}
	return s.Tier.Put(ctx, blocks)
}

func openShared(t testing.TB) *shared {
	m, err := memory.Open(memory.Options{Bytes: 256 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() })
	return &shared{Tier: m}
}

// Movers of tests never pause, and hasty ones give up soon.
var (
	steady = tier.MoverOptions{Failures: 1 << 30}
	hasty  = tier.MoverOptions{Slow: 50 * time.Millisecond, Timeout: 200 * time.Millisecond, Grace: 20 * time.Millisecond, Failures: 1 << 30}
)

// over opens a store in a directory of its own, over a tier.
func over(t *testing.T, c tier.Tier, o Options) *Store {
	t.Helper()
	o.Copies = c
	if o.mover.Failures == 0 {
		o.mover = steady
	}
	s := open(t, t.TempDir()+"/d", o)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// settle waits until nothing is to be copied.
func (s *Store) settled() {
	c := s.copies
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) > 0 || c.cancel != nil {
		c.changed.Wait()
	}
}

func long(n int) Key { return Key{Identity: llama, Tokens: tokens(1, n)} }
