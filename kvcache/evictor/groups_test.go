package evictor

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache"
	kvconfig "github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/evict"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/stretchr/testify/require"
)

// A pool with a window's layers keeps its budget like others, though those layers have given up most of what is dropped. A
// policy that does not look at scores keeps what it keeps where the window is a mask; one that does sees no scores of what
// is gone.
func TestHistoriesOfGroupsKeepTheBudget(t *testing.T) {
	be := device(t)
	grouped, masked := config(), config()
	grouped.Model.Groups = []kvconfig.Group{{Layers: []int{1}}, {Kind: group.Window, Window: 9, Sinks: 2, Layers: []int{0}}}
	masked.Model.Masks = []kvcache.Mask{{Window: 9, SinkTokens: 2}, {}}
	for _, p := range []evict.Policy{evict.SlidingWindow{Sinks: 2, Window: 28}, evict.H2O{Sinks: 2, Recent: 12}, evict.SnapKV{Sinks: 2, Window: 8, Kernel: 3}} {
		t.Run(p.String(), func(t *testing.T) {
			o := Options{Policy: p, Budget: 30, Slack: 3}
			got, want := history(t, be, mostScores, o, grouped), history(t, be, mostScores, o, masked)
			require.Len(t, got, len(want))
			if !p.NeedsScores() {
				require.Equal(t, want, got)
			}
		})
	}
}
