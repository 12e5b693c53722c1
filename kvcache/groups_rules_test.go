package kvcache

import (
	"slices"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/stretchr/testify/require"
)

// The rules of this file are from bugs of other caches for hybrid models. The rig compares all that is computed.

var (
	ruleState  = config.Group{Kind: group.State, Layers: []int{0}, StateBytes: 100}
	ruleWindow = config.Group{Kind: group.Window, Layers: []int{0, 2}, Window: 9}
)

// serveAll computes a prompt in steps that end where states stay, and releases the sequence.
func (w *grouped) serveAll(prompt []uint32) Match {
	w.t.Helper()
	s, m := w.open(prompt)
	w.pieces(s, prompt)
	w.drop(s)
	w.idle()
	return m
}

// pieces computes the rest of a prompt in steps that end where states stay.
func (w *grouped) pieces(s *told, prompt []uint32) {
	w.t.Helper()
	for len(s.ids) < len(prompt) {
		require.NoError(w.t, w.run(ask{s, prompt[len(s.ids):][:s.seq.Piece(len(prompt)-len(s.ids))]}))
	}
}

// A state is not restored where the last token is computed once more: who asks for n tokens again gets a checkpoint at or
// before n−1, not the one at n (vllm#51102).
func TestRuleCheckpointBeforeTheLastToken(t *testing.T) {
	for every, want := range map[int]int{0: 4, 1: 12} {
		cfg := manyKinds(ruleState, config.Group{Layers: []int{1}})
		cfg.Memory.RetainEvery = every
		w := newGrouped(t, cfg, 1)
		prompt := sequence(1, 16)
		w.serveAll(prompt[:5]) // its end is a checkpoint at 4
		w.serveAll(append(slices.Clone(prompt), 99))
		require.Equal(t, 16, w.matched(append(slices.Clone(prompt), 7), OpenOptions{}), "there is one at 16")
		require.Equal(t, want, w.serveAll(prompt).Cached, "every %d", every)
		w.close()
	}
}

// Without a checkpoint there is no state, even where attention has all of the prompt (vllm#43090).
func TestRuleNoCheckpointNoHit(t *testing.T) {
	w := newGrouped(t, manyKinds(ruleState, config.Group{Layers: []int{1}}), 1)
	w.serveAll(sequence(1, 41))
	st := w.idle()
	require.Equal(t, 0, w.serveAll(append(sequence(1, 20), sequence(300, 12)...)).Cached, "none at 20 or before")
	require.Greater(t, st.Prefix.Blocks, 5)
	s, m := w.open(append(sequence(1, 20), 98)) // where the one before left the path it kept one
	require.Equal(t, 20, m.Cached)
	w.drop(s)
	w.close()
}

// What a draft may take back belongs to the window that is kept and looked up: who begins with what was found can go
// back by Memory.Rollback (vllm#56709).
func TestRuleDraftsExtendTheWindow(t *testing.T) {
	for back := range 9 {
		cfg := manyKinds(ruleWindow, config.Group{Layers: []int{1, 3}})
		cfg.Memory.Rollback = back
		if back == 0 {
			cfg.Memory.Rollback = -1
		}
		w := newGrouped(t, cfg, 1)
		prompt := sequence(1, 41)
		w.serveAll(prompt)
		s, m := w.open(append(slices.Clone(prompt), 50))
		require.Equal(t, 41, m.Cached)
		require.Equal(t, [2]int{(41 - back - 8) / 4, 11}, [2]int{s.seq.runs.In[0].Gone, s.seq.runs.In[0].Gone + len(s.seq.runs.In[0].Kept.Blocks)})
		require.Equal(t, 41-back, s.seq.Resumable(41-back))
		require.NoError(t, s.seq.Truncate(41-back))
		s.ids = s.ids[:41-back]
		require.NoError(t, w.run(ask{s, sequence(60, 12)}))
		w.drop(s)
		w.close()
	}
}

// Blocks of a window are found by the tokens that they hold, though a sequence's list of them loses its middle while it
// grows; and of a sequence whose tokens were moved nothing is found as if they were where they are computed first (1Cat#249).
func TestRuleTablesThatLoseTheirMiddle(t *testing.T) {
	window := ruleWindow
	window.Sinks = 2
	steps := []int{1, 3, 4, 7, 40}
	if emulated(testDevice().Info) && !testsize.Full() {
		steps = steps[1:2]
	}
	for _, step := range steps {
		cfg := manyKinds(window, config.Group{Layers: []int{1, 3}})
		cfg.Memory.RetainEvery = 1
		w := newGrouped(t, cfg, 1)
		s, _ := w.open(nil)
		for len(s.ids) < 60 {
			require.NoError(t, w.run(ask{s, sequence(len(s.ids)+1, min(step, 60-len(s.ids)))}))
		}
		w.drop(s)
		for n := 1; n < 60; n++ {
			s, m := w.open(append(sequence(1, n), 500))
			require.Equal(t, n, m.Cached)
			require.NoError(t, w.run(ask{s, []uint32{500}}))
			w.drop(s)
		}
		s, _ = w.open(nil)
		require.NoError(t, w.run(ask{s, sequence(100, 33)}))
		var kept []int
		for i := range s.ids {
			if i < 4 || i >= 16 {
				kept = append(kept, i)
			}
		}
		require.NoError(t, s.seq.Retain(w.s, [][]int{kept}, RetainOptions{}))
		s.ids = slices.Delete(s.ids, 4, 16)
		moved := slices.Clone(s.ids)
		require.NoError(t, w.run(ask{s, sequence(200, 12)}))
		w.drop(s)
		require.Equal(t, 4, w.matched(append(moved, 1), OpenOptions{}))
		w.close()
	}
}

// What a pool cannot do is refused when it is made, with the setting's name (vllm-metal#530).
func TestRuleRefusedAtTheStart(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"Model.Groups[0].Kind of a state in the contiguous layout":     func(c *Config) { c.Memory.Layout, c.Memory.BlockSize = Contiguous, 0 },
		"Storage.Residual of a state with a residual window":           func(c *Config) { c.Storage.K, c.Storage.Residual = backend.Int8, 8 },
		"Storage.V of a state beside keys unlike values":               func(c *Config) { c.Model.VHeadDim = 2 * c.Model.HeadDim },
		"Model.Groups of a layer in no group":                          func(c *Config) { c.Model.Layers++ },
		"Model.Groups[0].Chunk of a chunk that is no number of blocks": func(c *Config) { c.Model.Groups[0] = config.Group{Kind: group.Chunked, Layers: []int{0}, Chunk: 7} },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := manyKinds(ruleState, config.Group{Layers: []int{1}})
			change(&cfg)
			_, err := cfg.Resolve()
			var refused backend.ErrConfig
			require.ErrorAs(t, err, &refused)
			setting, _, _ := strings.Cut(name, " of ")
			require.Equal(t, setting, refused.Name)
		})
	}
}
