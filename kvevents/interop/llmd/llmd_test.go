// Package llmd has tests of kvevents with llm-d's own subscriber, event pool and index at the other end (llm-d-kv-cache v0.9.0).
package llmd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvevents"
	"github.com/ferrumkv/ferrumkv/kvevents/index"
	"github.com/ferrumkv/ferrumkv/kvevents/pubsub"
	"github.com/llm-d/llm-d-kv-cache/pkg/kvcache/kvblock"
	llmd "github.com/llm-d/llm-d-kv-cache/pkg/kvevents"
	"github.com/llm-d/llm-d-kv-cache/pkg/kvevents/engineadapter"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	blockSize = 16
	modelName = "model"
)

// router is llm-d's half: a manager of subscribers, a pool of workers, an index.
type router struct {
	t       *testing.T
	index   *kvblock.InMemoryIndex
	tokens  kvblock.TokenProcessor
	manager *llmd.SubscriberManager
	ctx     context.Context
}

func newRouter(t *testing.T) *router {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	ix, err := kvblock.NewInMemoryIndex(&kvblock.InMemoryIndexConfig{Size: 1 << 16, PodCacheSize: 64})
	require.NoError(t, err)
	tokens, err := kvblock.NewChunkedTokenDatabase(&kvblock.TokenProcessorConfig{BlockSizeTokens: blockSize})
	require.NoError(t, err)
	pool := llmd.NewPool(&llmd.Config{Concurrency: 2, TopicFilter: "kv@"}, ix, tokens, engineadapter.NewVLLMAdapter())
	pool.Start(ctx)
	r := &router{t, ix, tokens, llmd.NewSubscriberManager(pool), ctx}
	t.Cleanup(func() {
		r.manager.Shutdown(ctx)
		cancel()
		pool.Shutdown(ctx)
	})
	return r
}

// engine is a publisher of ours that llm-d follows.
func (r *router) engine(pod string) *pubsub.Publisher {
	p, err := pubsub.Listen(pubsub.PublisherOptions{Events: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0", Topic: pubsub.Topic(pod, modelName)})
	require.NoError(r.t, err)
	r.t.Cleanup(func() { p.Close() })
	events, _ := p.Endpoints()
	require.NoError(r.t, r.manager.EnsureSubscriber(r.ctx, pod, events, "kv@", true))
	require.Eventually(r.t, func() bool { return p.Stats().Subscribers == 1 }, time.Minute, time.Millisecond)
	time.Sleep(200 * time.Millisecond) // until the subscription is there, too
	return p
}

// has is, for each block of a prompt, which pods have it on which medium, as pod/medium.
func (r *router) has(tokens []uint32, extras []*kvblock.BlockExtraFeatures) (out [][]string) {
	keys, err := r.tokens.TokensToKVBlockKeys(kvblock.EmptyBlockHash, tokens, modelName, extras)
	require.NoError(r.t, err)
	for _, k := range keys {
		found, err := r.index.Lookup(r.ctx, []kvblock.BlockHash{k}, sets.New[string]())
		require.NoError(r.t, err)
		var at []string
		for _, e := range found[k] {
			if s := e.PodIdentifier + "/" + e.DeviceTier; !slices.Contains(at, s) {
				at = append(at, s)
			}
		}
		sort.Strings(at)
		out = append(out, at)
	}
	return out
}

// becomes waits until llm-d says so: its workers are asynchronous.
func (r *router) becomes(tokens []uint32, want ...[]string) {
	r.t.Helper()
	var have [][]string
	for range 600 {
		if have = r.has(tokens, nil); fmt.Sprint(have) == fmt.Sprint(want) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	require.Equal(r.t, want, have)
}

func count(from, n uint32) (tokens []uint32) {
	for i := range n {
		tokens = append(tokens, from+i)
	}
	return tokens
}

// hash is of 64 bits, as those of engines: llm-d drops a batch with an integer that MessagePack has in fewer, such as 1000.
func hash(i uint64) kvevents.Hash { return kvevents.Hash{Number: 1<<63 | i*0x9e3779b97f4a7c15>>1} }

func block(i uint64, medium string, extra ...[]kvevents.Key) *kvevents.Stored {
	return &kvevents.Stored{Hashes: []kvevents.Hash{hash(i)}, Parent: hash(i - 1), HasParent: i > 0, Tokens: count(uint32(i)*blockSize+1, blockSize), BlockSize: blockSize, Medium: medium, ExtraKeys: extra}
}

func removed(i uint64, medium string) *kvevents.Removed {
	return &kvevents.Removed{Hashes: []kvevents.Hash{hash(i)}, Medium: medium}
}

func TestRouterLoop(t *testing.T) {
	r := newRouter(t)
	const pod = "10.0.0.7:8000"
	p := r.engine(pod)
	prompt := count(1, 2*blockSize)
	publish := func(e ...kvevents.Event) { require.NoError(t, p.Publish(e...)) }
	publish(block(0, "GPU"))
	r.becomes(prompt, []string{pod + "/gpu"}, nil)
	publish(block(1, "GPU"))
	r.becomes(prompt, []string{pod + "/gpu"}, []string{pod + "/gpu"})
	publish(block(0, "DISK"))
	r.becomes(prompt, []string{pod + "/disk", pod + "/gpu"}, []string{pod + "/gpu"})
	publish(removed(0, "GPU"))
	r.becomes(prompt, []string{pod + "/disk"}, []string{pod + "/gpu"})
	publish(&kvevents.Cleared{})
	r.becomes(prompt, nil, nil)
	publish(block(0, "GPU", []kvevents.Key{{Text: "salt-a"}}))
	salted := []*kvblock.BlockExtraFeatures{{MMHashes: []kvblock.MMHash{{Hash: "salt-a"}}}, nil}
	require.Eventually(t, func() bool { return fmt.Sprint(r.has(prompt, salted)) == "[["+pod+"/gpu] []]" }, time.Minute, 20*time.Millisecond)
	r.becomes(prompt, nil, nil)
	other := r.engine("10.0.0.8:8000")
	require.NoError(t, other.Publish(block(0, "CPU")))
	r.becomes(prompt, []string{"10.0.0.8:8000/cpu"}, nil)
}

// text is matches as a line; %.3v would cut the names off after three characters.
func text(matches []index.Match) (s string) {
	for _, m := range matches {
		s += fmt.Sprintf("%s %d %.3f; ", m.Owner, m.Tokens, m.Score)
	}
	return s
}

// Random prompts that engines store, evict and have on other media: llm-d's index and ours name the same owners of every block.
func TestSameOwners(t *testing.T) {
	r := newRouter(t)
	ours, err := index.New(index.Options{BlockSize: blockSize})
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 3 {
		pod := fmt.Sprintf("10.0.0.%d:8000", n)
		p := r.engine(pod)
		have := map[uint64][]string{} // the media of each block
		for range 300 {
			i, medium := uint64(rng.IntN(12)), []string{"GPU", "CPU", "DISK"}[rng.IntN(3)]
			var e kvevents.Event = block(i, medium)
			parent := i == 0 || len(have[i-1]) > 0
			leaf := len(have[i+1]) == 0
			switch on := slices.Contains(have[i], medium); {
			case !on && parent:
				have[i] = append(have[i], medium)
			case on && (leaf || len(have[i]) > 1):
				e = removed(i, medium)
				have[i] = slices.DeleteFunc(have[i], func(m string) bool { return m == medium })
			default:
				continue
			}
			require.NoError(t, p.Publish(e))
			require.NoError(t, ours.Apply(pod, e))
		}
	}
	prompt := count(1, 12*blockSize)
	same := func() bool {
		var want []index.Match
		theirs := r.has(prompt, nil)
		for n := range 3 {
			m := index.Match{Owner: fmt.Sprintf("10.0.0.%d:8000", n)}
			for _, at := range theirs {
				best, has := 0.0, false
				for medium, w := range map[string]float64{"gpu": 1, "cpu": 0.8, "disk": 1} {
					if slices.Contains(at, m.Owner+"/"+medium) {
						best, has = max(best, w), true
					}
				}
				if !has {
					break
				}
				m.Tokens, m.Score = m.Tokens+blockSize, m.Score+best
			}
			if m.Tokens > 0 {
				want = append(want, m)
			}
		}
		sort.SliceStable(want, func(i, j int) bool { return want[i].Score > want[j].Score })
		return text(want) == text(ours.Find(nil, index.Query{Tokens: prompt}))
	}
	require.Eventually(t, same, time.Minute, 50*time.Millisecond)
	require.NotEmpty(t, ours.Find(nil, index.Query{Tokens: prompt}))
}
