package metrics_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
)

// rig is a small pool.
type rig struct {
	t    testing.TB
	kv   *ferrumkv.Cache
	step *ferrumkv.Step
}

func newRig(t testing.TB, m kvcache.Memory, tiers ...tier.Tier) *rig {
	cfg := kvcache.Config{Model: kvcache.Model{Layers: 1, KVHeads: 1, HeadDim: 16, Digest: []byte("weights")}, Memory: m}
	cfg.Tiers.More = tiers
	kv, err := ferrumkv.Open("cpu", cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, kv.Close()) })
	step, err := kv.NewStep()
	require.NoError(t, err)
	return &rig{t, kv, step}
}

// open computes a prompt, unless there are no blocks for it.
func (r *rig) open(prompt []uint32, o kvcache.OpenOptions) *ferrumkv.Sequence {
	seq, m, err := r.kv.Pool.Open(prompt, o)
	require.NoError(r.t, err)
	if m.Loading > 0 {
		m, err = seq.Wait(context.Background())
		require.NoError(r.t, err)
	}
	require.NoError(r.t, r.step.Reset())
	require.NoError(r.t, r.step.Add(seq, prompt[seq.Len():]))
	if err := r.step.Plan(); errors.Is(err, kvcache.ErrOutOfBlocks{}) {
		require.NoError(r.t, r.step.Reset())
		require.NoError(r.t, seq.Release())
		return nil
	} else {
		require.NoError(r.t, err)
	}
	rows := func() []float32 { return make([]float32, r.step.Tokens()*16) }
	require.NoError(r.t, r.step.Attend(0, ferrumkv.Rows{Q: rows(), K: rows(), V: rows(), Out: rows()}))
	require.NoError(r.t, r.step.Commit())
	return seq
}

// Counters and the counts of histograms never fall, whatever happens in a pool.
func TestCountersNeverFall(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		low, err := memory.Open(memory.Options{Bytes: 1 << 14})
		require.NoError(t, err)
		defer func() { require.NoError(t, low.Close()) }()
		r := newRig(t, kvcache.Memory{BlockSize: 4, Blocks: 12, Capacity: 64, MaxSeqs: 4}, low)
		defer func() { _ = r.kv.Pool.Close() }()
		var open []*ferrumkv.Sequence
		was := map[string]float64{}
		pick := func(rt *rapid.T) int {
			if len(open) == 0 {
				rt.Skip()
			}
			return rapid.IntRange(0, len(open)-1).Draw(rt, "sequence")
		}
		rt.Repeat(map[string]func(*rapid.T){
			"open": func(rt *rapid.T) {
				prompt := make([]uint32, rapid.IntRange(1, 30).Draw(rt, "length"))
				family := rapid.Uint32Range(0, 3).Draw(rt, "family")
				for i := range prompt {
					prompt[i] = uint32(i) * family
				}
				salt := []byte(nil)
				if rapid.IntRange(0, 3).Draw(rt, "salted") == 3 {
					salt = []byte("salt")
				}
				if s := r.open(prompt, kvcache.OpenOptions{Scope: prefix.Scope{Salt: salt}}); s != nil {
					open = append(open, s)
				}
			},
			"release": func(rt *rapid.T) {
				i := pick(rt)
				require.NoError(t, open[i].Release())
				open = append(open[:i], open[i+1:]...)
			},
			"suspend": func(rt *rapid.T) {
				if s := open[pick(rt)]; rapid.Bool().Draw(rt, "away") {
					_ = s.Suspend()
				} else {
					_ = s.Resume()
				}
			},
			"clear": func(rt *rapid.T) {
				if rapid.IntRange(0, 15).Draw(rt, "clear") == 15 { // rarely, for blocks have to come back
					require.NoError(rt, r.kv.Pool.Clear(true))
				}
			},
			"prefilled": func(*rapid.T) { r.kv.Pool.Prefilled(0, 16, time.Millisecond) },
			"flush":     func(*rapid.T) { require.NoError(t, r.kv.Pool.Flush(context.Background())) },
			"": func(rt *rapid.T) {
				s, err := r.kv.Pool.Stats()
				require.NoError(rt, err)
				require.Equal(rt, s.Prefix.Blocks, s.Prefix.Cached+s.Prefix.Held)
				p, err := parse(text(t, s))
				require.NoError(rt, err)
				var lookups float64
				for key, v := range p.values {
					name, _, _ := strings.Cut(key, "{")
					if p.types[name] != "gauge" {
						require.GreaterOrEqual(rt, v, was[key], key)
						was[key] = v
					}
					if name == "ferrumkv:prefix_lookups_total" {
						lookups += v
					}
				}
				require.Equal(rt, float64(s.Prefix.Lookups), lookups)
			},
		})
	})
}
