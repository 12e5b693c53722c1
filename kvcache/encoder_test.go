package kvcache

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// In a model that is not causal a token sees those behind it that come in the same call: all of them, or those within a window
// in both directions. Queries without new tokens, and batches with them, see what their ends say.
func TestEncoders(t *testing.T) {
	encoder := func(change func(c *Config)) Config {
		c := small(Paged)
		c.Model.NonCausal = true
		change(&c)
		return c
	}
	groups := manyKinds(config.Group{Kind: group.Window, Layers: []int{0, 2}, Window: 5}, config.Group{Kind: group.Chunked, Layers: []int{1}, Chunk: 8}, config.Group{Layers: []int{3}})
	groups.Model.NonCausal, groups.Memory.Rollback = true, 8
	for name, cfg := range map[string]Config{
		"paged": encoder(func(*Config) {}), "one place": encoder(func(c *Config) { c.Memory.Layout, c.Memory.BlockSize = Contiguous, 0 }),
		"window": encoder(func(c *Config) { c.Model.Masks = []Mask{{Window: 5}, {}} }), "groups": groups,
		"window and sinks": encoder(func(c *Config) { c.Model.Masks = []Mask{{Window: 5, SinkTokens: 3}, {Window: 2}} }),
	} {
		t.Run(name, func(t *testing.T) {
			w := newMixed(t, cfg)
			require.Equal(t, prefix.Off, w.pool.Config().Memory.Prefix)
			a, b := w.fresh(), w.fresh()
			require.NoError(t, w.run(deal{told: a, ids: sequence(1, 21)}, deal{told: b, ids: sequence(50, 6)}))
			require.NoError(t, w.run(deal{told: b, ids: sequence(60, 9)}), "which those before do not see")
			require.NoError(t, w.run(deal{told: a, views: []View{{20, 21}, {20, 18}, {19, 21}}}, deal{told: b, ids: sequence(70, 5)}, deal{told: b, ids: sequence(80, 3)}))
			require.ErrorIs(t, w.step.AddSpans(a.seq, sequence(1, 3), between(0, 2)), backend.ErrUnsupported{})
			require.NoError(t, w.step.Reset())
			w.drop(a)
			w.drop(b)
			w.close()
		})
	}
}

// What does not go with such a model is refused.
func TestEncoderConfig(t *testing.T) {
	for field, change := range map[string]func(c *Config){
		"Memory.Prefix":    func(c *Config) { c.Memory.Prefix = prefix.LRU },
		"Storage.Residual": func(c *Config) { c.Storage.K, c.Storage.Residual = backend.Int8, 8 },
	} {
		cfg := small(Paged)
		cfg.Model.NonCausal = true
		change(&cfg)
		_, err := cfg.Resolve()
		require.ErrorIs(t, err, backend.ErrConfig{}, field)
		require.ErrorContains(t, err, field)
	}
	causal, encoder := small(Paged), small(Paged)
	encoder.Model.NonCausal = true
	text, err := causal.Content()
	require.NoError(t, err)
	other, err := encoder.Content()
	require.NoError(t, err)
	require.NotEqual(t, text, other)
	require.Contains(t, other, "residual 0\nnon-causal yes\n")
	require.NotContains(t, text, "non-causal")
}

// Blocks of any number of tokens, where the device takes them; where it does not the error says what it takes.
func TestBlocksOfAnySize(t *testing.T) {
	for _, size := range []int{1, 3, 5, 12, 24, 40} {
		cfg := small(Paged)
		cfg.Memory.BlockSize = size
		if !testDevice().SupportsBlockSize(size) {
			be := openDevice(t)
			_, err := NewPool(be, cfg)
			require.ErrorIs(t, err, backend.ErrUnsupported{})
			require.ErrorContains(t, err, "power of two")
			require.NoError(t, be.Close())
			continue
		}
		w := newMixed(t, cfg)
		a, b := w.fresh(), w.fresh()
		for range 3 {
			require.NoError(t, w.run(deal{told: a, ids: sequence(1+len(a.ids), 7)}, deal{told: b, ids: sequence(50+len(b.ids), 1)}))
		}
		w.expect(w.s, a.seq, tokens(sequence(1, 21)...))
		w.expect(w.s, b.seq, tokens(sequence(50, 3)...))
		w.drop(a)
		w.drop(b)
		w.close()
	}
}
