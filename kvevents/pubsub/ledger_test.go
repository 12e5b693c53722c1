// The ledger against a naive model.

package pubsub

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvevents"
)

// randomEvent is of few blocks, parents and places, so that all meet.
func randomEvent(random *rand.Rand, blocks uint64) kvevents.Event {
	hash := func() kvevents.Hash {
		h := kvevents.Hash{Number: 1 + random.Uint64N(blocks)}
		if h.Number%3 == 0 {
			h.Bytes = binary.BigEndian.AppendUint64(make([]byte, 24), h.Number)
		}
		return h
	}
	medium, group, has := []string{"", "GPU", "CPU"}[random.IntN(3)], random.IntN(2), random.IntN(2) == 0
	if !has {
		group = 0
	}
	switch random.IntN(40) {
	case 0:
		return &kvevents.Cleared{}
	case 1, 2, 3, 4, 5, 6, 7, 8, 9:
		e := &kvevents.Removed{Medium: medium, Group: group, HasGroup: has}
		for range 1 + random.IntN(3) {
			e.Hashes = append(e.Hashes, hash())
		}
		return e
	}
	e := &kvevents.Stored{Medium: medium, Group: group, HasGroup: has, BlockSize: 1 + random.IntN(3)}
	if random.IntN(4) > 0 {
		e.Parent, e.HasParent = hash(), true
	}
	for range 1 + random.IntN(5) {
		e.Hashes = append(e.Hashes, hash())
	}
	if random.IntN(3) == 0 {
		e.ExtraKeys = make([][]kvevents.Key, len(e.Hashes))
		for i := range e.ExtraKeys {
			if random.IntN(2) == 0 {
				e.ExtraKeys[i] = []kvevents.Key{{Text: "salt"}, {Raw: []byte{0x93, 1, 2, 3}}}
			}
		}
	}
	if random.IntN(8) == 0 {
		e.LoRAID, e.LoRAName, e.Kind, e.Window = 3, "a", "sliding_window", 128
	}
	for range len(e.Hashes) * tokensEach(e) {
		e.Tokens = append(e.Tokens, random.Uint32N(1000))
	}
	return e
}

// What a ledger says of itself is the state that the events made; each block once, and after its parent unless parents go in a circle.
func TestLedger(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		l, want := newLedger(), state{}
		blocks := 1 + random.Uint64N(60)
		for range random.IntN(200) {
			e := randomEvent(random, blocks)
			most := random.IntN(60)
			before, worst := clone(want), 0
			for _, e := range singles(e) {
				before.apply(e)
				worst = max(worst, len(before))
			}
			if after := l.after([]kvevents.Event{e}, most); after > most {
				require.Equal(t, worst, after)
			} else {
				require.LessOrEqual(t, worst, most)
			}
			l.apply(e)
			want.apply(e)
			require.Equal(t, len(want), l.n)
			scribble(e)
		}
		got, times := state{}, 0
		l.batches(func(events []kvevents.Event) {
			for _, e := range events {
				times += len(e.(*kvevents.Stored).Hashes)
				got.apply(e)
			}
		})
		require.Equal(t, want, got, seed)
		require.Equal(t, len(want), times)
		requireParentsFirst(t, l)

		for b := l.first; b != nil; b = l.first {
			l.remove(b.hash.Number, b.has.place)
		}
		require.Zero(t, l.n)
		require.Empty(t, l.blocks)
		require.Nil(t, l.last)
	}
}

func clone(s state) state {
	out := state{}
	for k, v := range s {
		out[k] = v
	}
	return out
}

// singles are the events of single blocks that an event stands for.
func singles(e kvevents.Event) (out []kvevents.Event) {
	s, ok := e.(*kvevents.Stored)
	if !ok {
		return []kvevents.Event{e}
	}
	for i := range s.Hashes {
		one, each := *s, tokensEach(s)
		one.Hashes, one.Tokens, one.ExtraKeys = s.Hashes[i:i+1], s.Tokens[i*each:(i+1)*each], nil
		out = append(out, &one)
	}
	return out
}

// scribble is a caller that uses the memory of an event again.
func scribble(e kvevents.Event) {
	if s, ok := e.(*kvevents.Stored); ok {
		for i := range s.Tokens {
			s.Tokens[i] = 1 << 30
		}
		for _, h := range append(s.Hashes, s.Parent) {
			clear(h.Bytes)
		}
		for _, keys := range s.ExtraKeys {
			for i := range keys {
				clear(keys[i].Raw)
				keys[i] = kvevents.Key{}
			}
		}
		clear(s.Hashes)
	}
}

func requireParentsFirst(t *testing.T, l *ledger) {
	had := map[*stored]bool{}
	l.inOrder(func(b *stored) {
		require.False(t, had[b])
		had[b] = true
		if p := l.parentOf(b); p != nil && !had[p] {
			on := map[*stored]bool{} // then its ancestors are a circle, or lead into one
			for c := p; !on[c]; c = l.parentOf(c) {
				require.NotNil(t, c, "a block before its parent")
				on[c] = true
			}
		}
	})
}

// A chain of many blocks is said in few batches, and needs no deep stack.
func TestLedgerChain(t *testing.T) {
	l := newLedger()
	for n := uint64(100_000); n > 0; n-- { // children first
		l.apply(block(n, n-1))
	}
	batches, events := 0, 0
	l.batches(func(b []kvevents.Event) {
		batches++
		events += len(b)
	})
	require.Less(t, batches, 100)
	require.Equal(t, batches, events)
	requireParentsFirst(t, l)
}

// Blocks on several media share what their events have in common, in whatever order they come.
func TestLedgerShares(t *testing.T) {
	l := newLedger()
	for n := range uint64(100) {
		for _, medium := range []string{"GPU", "CPU", "DISK"} {
			e := block(n+1, n)
			e.Medium = medium
			l.apply(e)
		}
	}
	shared := map[*traits]bool{}
	l.inOrder(func(b *stored) { shared[b.has] = true })
	require.Len(t, shared, 3)
}

// Blocks with much besides their tokens are in batches of their own.
func TestLedgerLargeBlocks(t *testing.T) {
	l := newLedger()
	for n := range uint64(10) {
		e := block(n+1, n)
		e.ExtraKeys = [][]kvevents.Key{{{Raw: make([]byte, mostSaid)}}}
		l.apply(e)
		e = block(n+100, 0)
		e.CacheSalt = string(make([]byte, mostSaid)) + string(rune('a'+n))
		l.apply(e)
	}
	l.batches(func(events []kvevents.Event) {
		require.Less(t, len(kvevents.VLLM.AppendBatch(nil, kvevents.Batch{}, events...)), 3*mostSaid)
	})
}

func BenchmarkLedger(b *testing.B) {
	tokens := make([]uint32, 16*64)
	store := &kvevents.Stored{Tokens: tokens, BlockSize: 16, Medium: "GPU", Hashes: make([]kvevents.Hash, 64)}
	remove := &kvevents.Removed{Medium: "GPU", Hashes: store.Hashes}
	l := newLedger()
	random := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	for b.Loop() { // 64 blocks come and go
		for i := range store.Hashes {
			store.Hashes[i].Number = random.Uint64()
		}
		l.apply(store)
		l.apply(remove)
	}
}
