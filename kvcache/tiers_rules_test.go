package kvcache

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/stretchr/testify/require"
)

// The rules of groups_rules_test.go for what comes from tiers, where one block may be there and another not.

// shown is a tier that shows what it was given.
type shown struct {
	tier.Tier
	mu   sync.Mutex
	puts map[tier.Key]tier.Block
}

func (s *shown) Put(ctx context.Context, blocks []tier.Block) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range blocks {
		b.Bytes = slices.Clone(b.Bytes)
		s.puts[b.Key] = b
	}
	return s.Tier.Put(ctx, blocks)
}

// aboveStore is a grouped pool above such a tier.
func aboveStore(t *testing.T, cfg Config) (*grouped, *shown) {
	t.Helper()
	m, err := memory.Open(memory.Options{Bytes: 16 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	s := &shown{Tier: m, puts: map[tier.Key]tier.Block{}}
	cfg.Tiers.More = []tier.Tier{s}
	return newGrouped(t, cfg, 1), s
}

// key is that of block i of a part, of a prompt, as docs/keys.md says it: of a state that after entry i.
func (w *grouped) key(prompt []uint32, part, i int) tier.Key {
	w.t.Helper()
	f, err := w.pool.cfg.Fingerprint()
	require.NoError(w.t, err)
	p, size := w.pool.cfg.Parts()[part], w.pool.cfg.EntryTokens()
	begin := i * p.Rule.Block % size
	st := w.pool.parts.All[part]
	y, err := st.Pieces(st.Kept)
	require.NoError(w.t, err)
	of := prefix.Part{Blocks: f.Key(), Kind: p.Rule.Kind.String(), Layers: p.Layers, Begin: begin, End: begin + p.Rule.Block, Pieces: y.Each}
	require.NoError(w.t, y.Close())
	entries := f.Root(prefix.Scope{}).Keys(nil, size, prefix.Query{Tokens: prompt})
	return entries[i*p.Rule.Block/size].Part(of.Key())
}

// comes serves a prompt, has a tier forget some of its blocks, and returns how much of another one comes back.
func (w *grouped) comes(s *shown, prompt []uint32, lost ...tier.Key) int {
	w.t.Helper()
	w.serveAll(prompt)
	w.evict()
	for _, k := range lost {
		n, err := s.Has(context.Background(), []tier.Key{k})
		require.NoError(w.t, err)
		require.Equal(w.t, 1, n, "what is lost was there")
	}
	require.NoError(w.t, s.Delete(context.Background(), lost))
	x, m := w.open(prompt)
	loading := m.Loading
	m = w.wait(x, prompt)
	require.Equal(w.t, loading, m.Cached)
	require.NoError(w.t, w.run(ask{x, prompt[m.Cached:]}))
	require.NoError(w.t, w.run(ask{x, sequence(900, 9)}))
	w.drop(x)
	return m.Cached
}

// A window that lacks one block of those that are read is none; what left it before is not missed (vllm#56709: what a
// draft may take back belongs to it).
func TestRuleTiersWholeWindows(t *testing.T) {
	for _, back := range []int{-1, 1, 4} {
		cfg := manyKinds(ruleWindow, config.Group{Layers: []int{1, 3}})
		cfg.Memory.RetainEvery, cfg.Memory.Rollback = 1, back
		prompt := sequence(1, 42) // 40 tokens come: those from 32 - back on are read
		first := (40 - max(back, 0) - 8) / 4
		for lost := first - 1; lost < 10; lost++ {
			w, s := aboveStore(t, cfg)
			want := 40
			if lost >= first {
				want = 4 * lost // after it nothing has a window
			}
			require.Equal(t, want, w.comes(s, prompt, w.key(prompt, 0, lost)), "back %d, block %d", back, lost)
			w.close()
		}
	}
}

// A sink that is lost ends what is found where it was, and a block of a full part, too.
func TestRuleTiersSinksAndFull(t *testing.T) {
	window := ruleWindow
	window.Sinks = 6
	cfg := manyKinds(window, config.Group{Layers: []int{1, 3}})
	cfg.Memory.RetainEvery = 1
	prompt := sequence(1, 42)
	for _, c := range []struct{ part, block, want int }{{0, 1, 4}, {0, 0, 0}, {0, 3, 40}, {1, 0, 0}, {1, 3, 12}, {1, 9, 36}} {
		w, s := aboveStore(t, cfg)
		require.Equal(t, c.want, w.comes(s, prompt, w.key(prompt, c.part, c.block)), "%+v", c)
		w.close()
	}
}

// Chunks need what they have begun, and nothing of the one before.
func TestRuleTiersChunks(t *testing.T) {
	cfg := manyKinds(config.Group{Kind: group.Chunked, Layers: []int{0, 1}, Chunk: 12}, config.Group{Layers: []int{2}})
	cfg.Memory.RetainEvery = 1
	prompt := sequence(1, 46) // 44 come, the last chunk from 36 on
	for lost, want := range map[int]int{8: 44, 9: 36, 10: 40} {
		w, s := aboveStore(t, cfg)
		require.Equal(t, want, w.comes(s, prompt, w.key(prompt, 0, lost)), "block %d", lost)
		w.close()
	}
}

// Without a checkpoint there is no state, even where a tier has all of the prompt for attention (vllm#43090), and one at n
// is not for who computes token n−1 again (vllm#51102).
func TestRuleTiersCheckpoints(t *testing.T) {
	cfg := manyKinds(ruleState, config.Group{Layers: []int{1}})
	cfg.Memory.RetainEvery = 2
	prompt := sequence(1, 34) // checkpoints at 8, 16, 24 and 32
	for want, lost := range [][]int{{}, {7}, {7, 5}, {7, 5, 3, 1}} {
		w, s := aboveStore(t, cfg)
		var keys []tier.Key
		for _, e := range lost {
			keys = append(keys, w.key(prompt, 0, e))
		}
		require.Equal(t, []int{32, 24, 16, 0}[want], w.comes(s, prompt, keys...), "without %v", lost)
		w.close()
	}
	w, s := aboveStore(t, cfg)
	require.Equal(t, 32, w.comes(s, prompt))
	w.evict()
	for n, want := range map[int]int{34: 32, 33: 32, 32: 24, 31: 24, 8: 0, 9: 8} {
		m, err := w.pool.Match(prompt[:n], OpenOptions{})
		require.NoError(t, err)
		require.Equal(t, want, m.Loading, "of %d", n)
	}
	w.close()
}

// Parts of what is needed may be on the device: only the rest comes, and what is there stays until it does.
func TestRuleTiersTheRestComes(t *testing.T) {
	cfg := manyKinds(ruleWindow, config.Group{Layers: []int{1, 3}})
	cfg.Memory.RetainEvery, cfg.Memory.RetainShare, cfg.Memory.Blocks = 1, 1, 60
	w, _ := aboveStore(t, cfg)
	prompt := sequence(1, 42)
	w.serveAll(prompt)
	w.flush()
	groups := w.pool.parts.Blocks.Groups()
	w.pool.mu.Lock()
	require.NoError(t, w.pool.parts.Blocks.Reclaim())
	require.True(t, groups.EvictAny(groups.With(0)))
	require.Zero(t, groups.With(0), "windows go, full parts stay")
	require.Equal(t, 11, groups.With(1))
	w.pool.mu.Unlock()
	before := w.moves().Loaded
	s, m := w.open(prompt)
	require.Equal(t, [2]int{0, 40}, [2]int{m.Cached, m.Loading})
	require.Equal(t, 40, w.wait(s, prompt).Cached)
	require.Equal(t, int64(2), w.moves().Loaded-before, "the window alone")
	require.NoError(t, w.run(ask{s, prompt[40:]}))
	w.drop(s)
	w.close()
}

// What lies behind a state in its block, of whoever had the memory before, is in no payload.
func TestRuleTiersNothingBehindStates(t *testing.T) {
	for _, bytes := range []int{100, 300, 5000, 5002} {
		state := ruleState
		state.StateBytes = bytes
		cfg := manyKinds(state, config.Group{Layers: []int{1}})
		cfg.Memory.Blocks = 24
		w, s := aboveStore(t, cfg)
		for _, mem := range w.pool.parts.All[0].States.Layers { // as if it had been others'
			require.NoError(t, w.be.Fill(w.s, mem, 0, mem.Len(), 1<<32-1))
		}
		prompt := sequence(7000, 2*w.pool.cfg.EntryTokens()+1)
		w.serveAll(prompt)
		w.flush()
		st := w.pool.parts.All[0]
		y, err := st.Pieces(st.Kept)
		require.NoError(t, err)
		b, ok := s.puts[w.key(prompt, 0, 1)]
		require.True(t, ok)
		require.Len(t, b.Bytes, int(y.BlockBytes()))
		piece := y.Bytes
		require.Equal(t, y.Each, (bytes+piece-1)/piece)
		for i := bytes - (y.Each-1)*piece; i < piece; i++ {
			require.Zero(t, b.Bytes[(y.Each-1)*piece+i], "byte %d behind a state of %d", i, bytes)
		}
		require.NoError(t, y.Close())
		w.close()
	}
}

// A draft that is rejected goes nowhere, and what was accepted goes down with all its parts.
func TestRuleTiersDrafts(t *testing.T) {
	cfg := manyKinds(ruleWindow, config.Group{Layers: []int{1, 3}})
	cfg.Memory.Rollback, cfg.Memory.RetainEvery = 10, 1
	w, _ := aboveStore(t, cfg)
	prompt := sequence(1, 30)
	s, _ := w.open(nil)
	s.next = 9
	require.NoError(t, w.run(ask{s, prompt}))
	w.flush()
	for n, want := range map[int]int{30: 20, 22: 20} {
		m, err := w.pool.Match(prompt[:n], OpenOptions{})
		require.NoError(t, err)
		require.Equal(t, want, m.Cached+m.Loading)
	}
	require.NoError(t, s.seq.Truncate(25))
	s.ids = s.ids[:25]
	w.drop(s)
	w.evict()
	x, m := w.open(prompt)
	require.Equal(t, 24, m.Loading)
	require.Equal(t, 24, w.wait(x, prompt).Cached)
	require.NoError(t, x.seq.Truncate(24-10))
	x.ids = x.ids[:14]
	require.NoError(t, w.run(ask{x, sequence(600, 12)}))
	w.drop(x)
	w.close()
}

// The next process finds on the disk what the last one left there, with the same groups only.
func TestGroupsOnDisk(t *testing.T) {
	dir := t.TempDir()
	cfg := manyKinds(config.Group{Kind: group.State, Layers: []int{0}, StateBytes: 300}, config.Group{Layers: []int{1}},
		config.Group{Kind: group.Window, Layers: []int{2, 4}, Window: 8, Sinks: 1}, config.Group{Kind: group.None, Layers: []int{3}})
	cfg.Model.Digest = []byte("weights")
	cfg.Tiers = config.Tiers{Disk: config.Disk{Dir: dir, Bytes: 8 << 20, Floor: 1}}
	prompt := sequence(1, 61)
	w := newGrouped(t, cfg, 1)
	w.serveAll(prompt)
	had := w.matched(prompt, OpenOptions{})
	w.close()
	for _, edit := range []func(*Config){
		func(c *Config) { c.Model.Digest = []byte("others") },
		func(c *Config) { c.Model.Groups[2].Window = 7 },
		func(c *Config) { c.Model.Groups[0].StateBytes = 296 },
		func(c *Config) { c.Memory.BlockSize = 8 },
	} {
		other := cfg
		other.Model.Groups = slices.Clone(cfg.Model.Groups)
		edit(&other)
		w := newGrouped(t, other, 1)
		m, err := w.pool.Match(prompt, OpenOptions{})
		require.NoError(t, err)
		require.Zero(t, m.Loading)
		w.close()
	}
	w = newGrouped(t, cfg, 1)
	s, m := w.open(prompt)
	require.Equal(t, had, m.Loading)
	require.Equal(t, []int{had}, w.wait(s, prompt).Tiers)
	require.NoError(t, w.run(ask{s, prompt[had:]}))
	w.drop(s)
	w.close()
}

// A load that is expected to take longer than computing is not begun, and one of which only the beginning is worth it neither
// where layers need the end.
func TestGroupsLoadOrCompute(t *testing.T) {
	cfg := manyKinds(ruleWindow, config.Group{Layers: []int{1, 3}})
	cfg.Memory.RetainEvery = 1
	w, _ := aboveStore(t, cfg)
	prompt := sequence(1, 42)
	require.Equal(t, 40, w.comes(&shown{Tier: w.pool.below.Tiers[0], puts: map[tier.Key]tier.Block{}}, prompt))
	w.evict()
	w.pool.Prefilled(0, 1_000_000, time.Millisecond)
	s, m := w.open(prompt)
	if m.Loading > 0 { // a probe
		m = w.wait(s, prompt)
	}
	require.Zero(t, m.Cached)
	w.drop(s)
	w.close()
}
