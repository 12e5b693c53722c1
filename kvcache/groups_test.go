package kvcache

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/stretchr/testify/require"
)

// kinds are configurations with groups that differ in what they ask of the pool.
func kinds() map[string]Config {
	window := config.Group{Kind: group.Window, Layers: []int{0, 2}, Window: 9}
	sinks := config.Group{Kind: group.Window, Layers: []int{0, 1, 2, 4}, Window: 7, Sinks: 5}
	chunked := config.Group{Kind: group.Chunked, Layers: []int{0, 1}, Chunk: 12}
	return map[string]Config{
		"window":       manyKinds(window, config.Group{Layers: []int{1, 3}}),
		"sinks":        manyKinds(sinks, config.Group{Layers: []int{3}}),
		"chunked":      manyKinds(chunked, config.Group{Layers: []int{2}}),
		"state":        manyKinds(config.Group{Kind: group.State, Layers: []int{0, 2}, StateBytes: 100}, config.Group{Layers: []int{1}}),
		"a long state": manyKinds(config.Group{Kind: group.State, Layers: []int{0, 2}, StateBytes: 5000}, config.Group{Layers: []int{1}}),
		"only windows": manyKinds(config.Group{Kind: group.Window, Layers: []int{0, 1}, Window: 6}),
		"only states":  manyKinds(config.Group{Kind: group.State, Layers: []int{0, 1}, StateBytes: 12}),
		"all":          manyKinds(config.Group{Kind: group.State, Layers: []int{0}, StateBytes: 300}, config.Group{Layers: []int{1}}, config.Group{Kind: group.Window, Layers: []int{2, 4}, Window: 8, Sinks: 1}, config.Group{Kind: group.None, Layers: []int{3}}, config.Group{Kind: group.Chunked, Layers: []int{5}, Chunk: 16}),
	}
}

// Every layer sees what its group says, whatever steps a prompt is computed in, and what it does not see any more is given
// back.
func TestGroupsSee(t *testing.T) {
	for name, cfg := range kinds() {
		t.Run(name, func(t *testing.T) {
			w := newGrouped(t, cfg, 1)
			for _, pieces := range [][]int{{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {40}, {3, 20, 1, 7, 30}} {
				s, _ := w.open(nil)
				next := uint32(1)
				for _, n := range pieces {
					var ids []uint32
					for range n {
						ids, next = append(ids, next), next+1
					}
					require.NoError(t, w.run(ask{s, ids}))
					require.NoError(t, w.pool.Check())
					for i := range s.seq.body.Parts {
						b := &s.seq.body.Parts[i]
						require.Len(t, b.Kept.Blocks, b.Stores.Rule.Need(s.seq.Len()), "part %d after %d tokens", i, s.seq.Len())
					}
				}
				w.drop(s)
			}
			w.close()
		})
	}
}

// D4: blocks that left a window stay held until the step that reads them is done, and those of the last step that used
// them, wherever it runs.
func TestD4WindowsWaitForTheirSteps(t *testing.T) {
	cfg := manyKinds(config.Group{Kind: group.Window, Layers: []int{0}, Window: 5}, config.Group{Layers: []int{1}})
	r, dev, be := lateRig(t, cfg)
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 40)}))
	window := &a.body.Parts[0]
	require.Equal(t, window.Stores.Rule.Need(40), len(window.Kept.Blocks), "the window has slid")
	st := r.stats()
	require.Equal(t, 2*10, st.Held, "both parts' blocks of the step are on the device")
	require.Equal(t, 10-len(window.Kept.Blocks), st.Retired)
	require.NoError(t, r.s.Sync())
	st = r.stats()
	require.Equal(t, [2]int{10 + len(window.Kept.Blocks), 0}, [2]int{st.Held, st.Retired})
	require.NoError(t, a.Release())
	closeLate(t, r, dev, be)
}

// Shift and Retain move what is there. What a window or a state cannot follow is refused, and nothing has changed.
func TestGroupsDropTokens(t *testing.T) {
	window := config.Group{Kind: group.Window, Layers: []int{0}, Window: 9, Sinks: 2}
	cfg := manyKinds(window, config.Group{Layers: []int{1}})
	w := newGrouped(t, cfg, 3)
	s, _ := w.open(nil)
	require.NoError(t, w.run(ask{s, sequence(1, 50)}))
	require.ErrorIs(t, s.seq.Retain(w.s, [][]int{{1, 2, 3, 20, 45, 46, 47, 48, 49}}, RetainOptions{}), ErrGone{})
	require.ErrorIs(t, s.seq.Retain(w.s, [][]int{{0, 1, 2, 3, 20, 45, 46, 47, 48, 49}}, RetainOptions{}), ErrGone{}, "20 would be in the window")
	kept := append(sequence(0, 4), sequence(10, 4)...)
	kept = append(kept, sequence(38, 12)...)
	list := make([]int, len(kept))
	for i, id := range kept {
		list[i] = int(id)
	}
	require.NoError(t, w.pool.Check())
	require.NoError(t, s.seq.Retain(w.s, [][]int{list}, RetainOptions{}))
	require.NoError(t, w.pool.Check())
	var ids []uint32
	for _, i := range list {
		ids = append(ids, s.ids[i])
	}
	s.ids = ids
	require.NoError(t, w.run(ask{s, sequence(100, 9)}))
	w.drop(s)
	w.close()

	w = newGrouped(t, manyKinds(config.Group{Kind: group.State, Layers: []int{0}, StateBytes: 8}, config.Group{Layers: []int{1}}), 3)
	s, _ = w.open(nil)
	require.NoError(t, w.run(ask{s, sequence(1, 16)}))
	require.NoError(t, w.run(ask{s, sequence(17, 4)}))
	require.Equal(t, 16, s.seq.Resumable(18))
	require.ErrorIs(t, s.seq.Retain(w.s, [][]int{{0, 1}}, RetainOptions{}), backend.ErrUnsupported{})
	require.ErrorIs(t, s.seq.Truncate(18), ErrResume{Tokens: 18, At: 16, Group: group.State})
	w.drop(s)
	w.close()
}
