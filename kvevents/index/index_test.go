package index_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvevents"
	"github.com/ferrumkv/ferrumkv/kvevents/index"
	"github.com/stretchr/testify/require"
)

func open(t require.TestingT, o index.Options) *index.Index {
	x, err := index.New(o)
	require.NoError(t, err)
	return x
}

func count(from, n uint32) (tokens []uint32) {
	for i := range n {
		tokens = append(tokens, from+i)
	}
	return tokens
}

func hash(n uint64) kvevents.Hash { return kvevents.Hash{Number: n} }

// pick is one of some values.
func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// prompts that have beginnings in common: random tokens from a small set.
func prompt(r *rand.Rand) []uint32 {
	tokens := make([]uint32, r.IntN(25))
	for i := range tokens {
		tokens[i] = uint32(r.IntN(2))
	}
	return tokens
}

// engine draws events as engines send them, and some that they do not: hashes are drawn from so few that all meet again.
type engine struct {
	*rand.Rand
	size int
}

func (g engine) keys() []kvevents.Key {
	return pick(g.Rand, nil, nil, nil, []kvevents.Key{{Text: "salt"}}, []kvevents.Key{{Text: "a"}, {Raw: []byte{1, 2}}}, []kvevents.Key{{Text: "a"}, {Text: "\x01\x02"}}, []kvevents.Key{{Text: "lora"}}, []kvevents.Key{{Text: "lora"}, {Text: "lora"}})
}

func (g engine) stored() *kvevents.Stored {
	blocks := 1 + g.IntN(3)
	e := &kvevents.Stored{BlockSize: g.size, Medium: pick(g.Rand, "GPU", "", "CPU", "cpu", "DISK"), LoRAName: pick(g.Rand, "", "", "", "lora"),
		HasGroup: g.IntN(3) == 0, Group: g.IntN(2), Kind: pick(g.Rand, "", "", "full_attention", "mla_attention", "sliding_window"), CacheSalt: pick(g.Rand, "", "", "", "salt")}
	for range blocks {
		e.Hashes = append(e.Hashes, hash(uint64(1+g.IntN(12))))
	}
	if e.HasParent = g.IntN(2) == 0; e.HasParent {
		e.Parent = hash(uint64(g.IntN(13)))
	}
	for range blocks * g.size {
		e.Tokens = append(e.Tokens, uint32(g.IntN(2)))
	}
	if g.IntN(4) == 0 {
		for range g.IntN(blocks + 1) {
			e.ExtraKeys = append(e.ExtraKeys, g.keys())
		}
	}
	switch g.IntN(20) {
	case 0:
		e.Tokens = nil
	case 1:
		e.Tokens = e.Tokens[1:]
	case 2:
		e.BlockSize = pick(g.Rand, 0, -4, 3)
	}
	return e
}

func (g engine) event() kvevents.Event {
	switch n := g.IntN(100); {
	case n < 60:
		return g.stored()
	case n < 99:
		e := &kvevents.Removed{Medium: pick(g.Rand, "GPU", "", "CPU", "cpu", "DISK", "none"), HasGroup: g.IntN(3) == 0, Group: g.IntN(2)}
		for range 1 + g.IntN(3) {
			e.Hashes = append(e.Hashes, hash(uint64(1+g.IntN(12))))
		}
		return e
	}
	return &kvevents.Cleared{}
}

// Random events of several owners are found as the model finds them.
func TestRulesOfRouters(t *testing.T) {
	histories := 400
	if testing.Short() {
		histories = 60
	}
	for seed := range uint64(histories) {
		r := rand.New(rand.NewPCG(seed, 7))
		x, m := open(t, index.Options{BlockSize: 2}), newModel(2)
		for range 300 {
			name := pick(r, "pod-1", "pod-2", "pod-3")
			e := engine{r, pick(r, 2, 2, 4, 6)}.event()
			m.apply(name, e)
			if err := x.Apply(name, e); err != nil {
				require.ErrorIs(t, err, index.ErrBlockSize{})
			}
			q := index.Query{Tokens: prompt(r), LoRAName: pick(r, "", "", "lora"), Salt: pick(r, "", "", "salt")}
			if r.IntN(4) == 0 {
				for range r.IntN(4) {
					q.ExtraKeys = append(q.ExtraKeys, engine{r, 2}.keys())
				}
			}
			requireMatches(t, m.find(q), x.Find(nil, q), "seed %d", seed)
		}
		for _, name := range []string{"pod-1", "pod-2", "pod-3", "pod-4"} {
			x.Forget(name)
		}
		s := x.Stats()
		require.Zero(t, s.Owners)
		require.Zero(t, s.Blocks)
		require.Zero(t, s.Keys, "seed %d: blocks of owners that are gone", seed)
	}
}

func requireMatches(t *testing.T, want, have []index.Match, what ...any) {
	t.Helper()
	require.Len(t, have, len(want), what...)
	for i := range want {
		require.Equal(t, want[i].Owner, have[i].Owner, what...)
		require.Equal(t, want[i].Tokens, have[i].Tokens, what...)
		require.InDelta(t, want[i].Score, have[i].Score, 1e-9, what...)
	}
}

// Case 9: what llm-d-kv-cache 0.9.0 made of these events.
func TestRouterLoop(t *testing.T) {
	x := open(t, index.Options{})
	plain, salted := index.Query{Tokens: count(1, 32)}, index.Query{Tokens: count(1, 32), Salt: "salt-a"}
	block := func(i uint64, medium string, extra ...[]kvevents.Key) *kvevents.Stored {
		return &kvevents.Stored{Hashes: []kvevents.Hash{hash(i)}, Parent: hash(i - 1), HasParent: i > 1, Tokens: count(uint32(i-1)*16+1, 16), BlockSize: 16, Medium: medium, ExtraKeys: extra}
	}
	find := func(want ...index.Match) {
		t.Helper()
		requireMatches(t, want, x.Find(nil, plain))
	}
	find()
	require.NoError(t, x.Apply("pod-1", block(1, "GPU")))
	find(index.Match{"pod-1", 16, 1})
	require.NoError(t, x.Apply("pod-1", block(2, "GPU")))
	find(index.Match{"pod-1", 32, 2})
	require.NoError(t, x.Apply("pod-1", block(1, "DISK")))
	require.NoError(t, x.Apply("pod-1", &kvevents.Removed{Hashes: []kvevents.Hash{hash(1)}, Medium: "GPU"}))
	find(index.Match{"pod-1", 32, 2}) // on the disk, too
	require.NoError(t, x.Apply("pod-2", block(2, "GPU")))
	find(index.Match{"pod-1", 32, 2}) // its parent is not there
	require.NoError(t, x.Apply("pod-2", block(1, "CPU")))
	require.NoError(t, x.Apply("pod-2", block(2, "CPU")))
	find(index.Match{"pod-1", 32, 2}, index.Match{"pod-2", 32, 1.6})
	require.NoError(t, x.Apply("pod-1", &kvevents.Cleared{}))
	find(index.Match{"pod-2", 32, 1.6})
	require.NoError(t, x.Apply("pod-3", block(1, "GPU", []kvevents.Key{{Text: "salt-a"}})))
	find(index.Match{"pod-2", 32, 1.6})
	requireMatches(t, []index.Match{{"pod-3", 16, 1}}, x.Find(nil, salted))
	require.Equal(t, uint64(1), x.Stats().Orphans)
}

// Pairs of tokens, as of SGLang with EAGLE, are found by the tokens of the prompt.
func TestPairs(t *testing.T) {
	x := open(t, index.Options{BlockSize: 2})
	require.NoError(t, x.Apply("a", &kvevents.Stored{Hashes: []kvevents.Hash{hash(1), hash(2)}, Tokens: []uint32{1, 2, 2, 3, 3, 4, 4, 5}, Pairs: true, BlockSize: 2}))
	requireMatches(t, []index.Match{{"a", 4, 2}}, x.Find(nil, index.Query{Tokens: count(1, 5)}))
}

func TestLimits(t *testing.T) {
	x := open(t, index.Options{BlockSize: 1, Blocks: 2, Owners: 1})
	e := &kvevents.Stored{Hashes: []kvevents.Hash{hash(1), hash(2), hash(3)}, Tokens: count(1, 3), BlockSize: 1}
	require.Equal(t, index.ErrFull{Owner: "a", What: "blocks", Most: 2}, x.Apply("a", e))
	require.Equal(t, index.ErrFull{Owner: "b", What: "owners", Most: 1}, x.Apply("b", e))
	require.Equal(t, index.Stats{Owners: 1, Blocks: 2, Keys: 2, Stored: 2, Skipped: 4}, x.Stats())
	requireMatches(t, []index.Match{{"a", 2, 2}}, x.Find(nil, index.Query{Tokens: count(1, 3)}))
	require.NoError(t, x.Apply("a", &kvevents.Removed{Hashes: e.Hashes}))
	require.NoError(t, x.Apply("a", &kvevents.Stored{Hashes: []kvevents.Hash{hash(4)}, Tokens: count(9, 1), BlockSize: 1}))
	requireMatches(t, []index.Match{{"a", 1, 1}}, x.Find(nil, index.Query{Tokens: count(9, 1)}))

	x = open(t, index.Options{BlockSize: 1})
	for i := range 2000 { // a publisher that names media and groups without end
		_ = x.Apply("a", &kvevents.Stored{Hashes: []kvevents.Hash{hash(uint64(i) + 1)}, Tokens: count(uint32(i), 1), BlockSize: 1, Medium: fmt.Sprint("medium ", i), HasGroup: true, Group: i, Kind: "full_attention"})
	}
	requireMatches(t, []index.Match{{"a", 1, 1}}, x.Find(nil, index.Query{Tokens: count(1999, 1)}))
}

func TestOptions(t *testing.T) {
	var zero index.Index
	require.Empty(t, zero.Find(nil, index.Query{Tokens: count(1, 16)}))
	require.NoError(t, zero.Apply("a", &kvevents.Stored{Hashes: []kvevents.Hash{hash(1)}, Tokens: count(1, 16), BlockSize: 16}))
	requireMatches(t, []index.Match{{"a", 16, 1}}, zero.Find(nil, index.Query{Tokens: count(1, 16)}))
	for _, o := range []index.Options{{BlockSize: -1}, {Blocks: -1}, {Owners: -1}} {
		_, err := index.New(o)
		require.ErrorIs(t, err, index.ErrConfig{})
	}
	x := open(t, index.Options{})
	require.Equal(t, index.ErrBlockSize{Engine: 8, Index: 16}, x.Apply("a", &kvevents.Stored{Hashes: []kvevents.Hash{hash(1)}, Tokens: count(1, 8), BlockSize: 8}))
	for _, e := range []kvevents.Event{nil, (*kvevents.Stored)(nil), (*kvevents.Removed)(nil), (*kvevents.Cleared)(nil)} {
		require.NoError(t, x.Apply("a", e))
	}
	x = open(t, index.Options{BlockSize: 1, Weights: map[string]float64{"disk": 0.25}})
	require.NoError(t, x.Apply("a", &kvevents.Stored{Hashes: []kvevents.Hash{hash(1)}, Tokens: count(1, 1), BlockSize: 1, Medium: "Disk"}))
	require.NoError(t, x.Apply("b", &kvevents.Stored{Hashes: []kvevents.Hash{hash(1)}, Tokens: count(1, 1), BlockSize: 1}))
	requireMatches(t, []index.Match{{"b", 1, 1}, {"a", 1, 0.25}}, x.Find(nil, index.Query{Tokens: count(1, 3)}))
}

// Callers that find, and publishers that come and go, beside each other.
func TestAtOnce(t *testing.T) {
	x := open(t, index.Options{BlockSize: 2})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Add(2)
		go func() {
			defer wg.Done()
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for range 2000 {
				_ = x.Apply(fmt.Sprint("pod-", w%3), engine{r, 2}.event())
			}
		}()
		go func() {
			defer wg.Done()
			r := rand.New(rand.NewPCG(uint64(w), 2))
			var ms []index.Match
			for range 2000 {
				ms = x.Find(ms[:0], index.Query{Tokens: prompt(r)})
				_ = x.Stats()
			}
		}()
	}
	wg.Wait()
}

// filled has 8 owners with the same 2,000 blocks of a prompt, and as many of their own.
func filled(b require.TestingT) (*index.Index, index.Query) {
	x := open(b, index.Options{})
	tokens := count(1, 32000)
	for o := range 8 {
		for i := range uint64(2000) {
			require.NoError(b, x.Apply(fmt.Sprint("10.0.0.", o, ":8000"), &kvevents.Stored{Hashes: []kvevents.Hash{hash(i + 1)}, Parent: hash(i), HasParent: i > 0, Tokens: tokens[i*16 : i*16+16], BlockSize: 16, Medium: "GPU"}))
			require.NoError(b, x.Apply(fmt.Sprint("10.0.0.", o, ":8000"), &kvevents.Stored{Hashes: []kvevents.Hash{hash(i + 100001)}, Parent: hash(i + 100000), HasParent: i > 0, Tokens: count(uint32(o*100000)+uint32(i)*16, 16), BlockSize: 16, Medium: "GPU"}))
		}
	}
	return x, index.Query{Tokens: tokens}
}

func BenchmarkFind(b *testing.B) {
	x, q := filled(b)
	var ms []index.Match
	b.ReportAllocs()
	for b.Loop() {
		if ms = x.Find(ms[:0], q); len(ms) != 8 {
			b.Fatal(ms)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2000, "ns/block")
}

func BenchmarkApply(b *testing.B) {
	x := open(b, index.Options{})
	e := &kvevents.Stored{Hashes: []kvevents.Hash{hash(1)}, Tokens: count(1, 16), BlockSize: 16, Medium: "GPU"}
	gone := &kvevents.Removed{Hashes: []kvevents.Hash{hash(0)}, Medium: "GPU"}
	b.ReportAllocs()
	n := uint64(0)
	for b.Loop() {
		n++
		e.Hashes[0].Number, e.Tokens[0] = n, uint32(n)
		if err := x.Apply("a", e); err != nil {
			b.Fatal(err)
		}
		if n > 100000 {
			gone.Hashes[0].Number = n - 100000
			if err := x.Apply("a", gone); err != nil {
				b.Fatal(err)
			}
		}
	}
}
