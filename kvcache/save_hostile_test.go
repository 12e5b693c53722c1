package kvcache

import (
	"bytes"
	"runtime"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
	"github.com/stretchr/testify/require"
)

// Blocks that others could find are found whichever sequence comes first, even one that shares the beginning of a block, or is unpublished.
func TestLoadedIsFoundInAnyOrder(t *testing.T) {
	prompt := sequence(1, 23)
	r := savedRig(t, 60)
	x, _ := r.serve(prompt, OpenOptions{})
	short, err := x.seq.Fork()
	require.NoError(t, err)
	require.NoError(t, short.Truncate(6))
	silent, err := x.seq.Fork()
	require.NoError(t, err)
	require.NoError(t, silent.Retain(r.s, [][]int{{0, 1, 2, 3, 4, 5, 6, 7, 8, 20}}, RetainOptions{}))
	for name, all := range map[string][]*Sequence[buffer]{"short": {short, x.seq}, "silent": {silent, x.seq}, "all": {silent, short, x.seq}} {
		o := savedRig(t, 60)
		got := o.load(r.save(all...))
		require.Equal(t, 20, o.matched(prompt, OpenOptions{}), name)
		for i := range all {
			requireSame(r, o, all[i], got[i])
		}
		o.release(got...)
		o.close()
	}
	r.drop(x)
	r.release(short, silent)
	r.close()
}

// A stream that says more than it has is refused before it takes memory and time for that.
func TestLoadOfMuch(t *testing.T) {
	cfg := signed(small(Paged))
	cfg.Memory.Capacity, cfg.Memory.Blocks = 4096, 1100
	r := deviceRig(t, cfg)
	x, _ := r.serve(sequence(1, 23), OpenOptions{})
	stream := r.save(x.seq)
	for name, edit := range map[string]func(h *snapshot.Head){
		"sequences of a chunk each": func(h *snapshot.Head) {
			h.Strips[0].Tokens = 4096
			q := h.Sequences[0]
			q.Len, q.Next, q.Tokens = 4096, 4096, nil
			h.Sequences = nil
			for i := range 2000 {
				q.Strips = [][]snapshot.Run{{{Refs: []snapshot.Ref{{Chunk: i, Tokens: 4096}}}}}
				h.Sequences = append(h.Sequences, q)
			}
		},
		"sequences of a chunk": func(h *snapshot.Head) {
			q := h.Sequences[0]
			q.Len, q.Next, q.Tokens = 4096, 4096, nil
			var refs []snapshot.Ref
			for range 1024 {
				refs = append(refs, snapshot.Ref{Chunk: 0, Tokens: 4})
			}
			q.Strips = [][]snapshot.Run{{{Refs: refs}}}
			h.Sequences = nil
			for range 200 {
				h.Sequences = append(h.Sequences, q)
			}
		},
		"short sequences of a long chunk": func(h *snapshot.Head) {
			h.Strips[0].Tokens = 4096
			q := h.Sequences[0]
			q.Len, q.Next, q.Tokens = 4096, 4096, nil
			q.Strips = [][]snapshot.Run{{{Refs: []snapshot.Ref{{Chunk: 0, Tokens: 4096}}}}}
			h.Sequences = slices.Repeat([]snapshot.Sequence{q}, 2000)
		},
		"texts of one chunk": func(h *snapshot.Head) {
			q := h.Sequences[0]
			q.Len, q.Next = 4, 4
			q.Strips = [][]snapshot.Run{{{Refs: []snapshot.Ref{{Chunk: 0, Tokens: 4}}}}}
			h.Sequences = nil
			for i := range 2000 {
				q.Tokens = []uint32{1, 2, 3, uint32(i)}
				h.Sequences = append(h.Sequences, q)
			}
		},
		"a long hash": func(h *snapshot.Head) {
			q := &h.Sequences[0]
			q.Prompt, q.Tokens = 4096, sequence(1, 4096)
			q.Items = []prefix.Item{{Begin: 0, End: 4096, Hash: make([]byte, 1<<20)}}
		},
		"many items": func(h *snapshot.Head) {
			q := &h.Sequences[0]
			q.Prompt, q.Tokens = 4096, sequence(1, 4096)
			for range 20000 {
				q.Items = append(q.Items, prefix.Item{Begin: 0, End: 4096, Hash: []byte("x")})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			much := rewritten(t, stream, edit)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, err := r.pool.Load(bytes.NewReader(much), snapshot.Options{})
			runtime.ReadMemStats(&after)
			t.Logf("%d bytes: %d bytes allocated: %.200v", len(much), after.TotalAlloc-before.TotalAlloc, err)
			r.release(got.Sequences...)
			require.Error(t, err)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64*len(much)+1<<20))
		})
	}
	r.drop(x)
	r.close()
}

// A stream may name a chunk that sequences share once, but has to list each one's tokens: a few bytes that repeat a chunk over
// and over are refused by name, and what a pool with as many sequences writes is not.
func TestLoadOfManyThatShare(t *testing.T) {
	cfg := signed(small(Paged))
	cfg.Memory.Capacity, cfg.Memory.Blocks = 800, 420
	r := deviceRig(t, cfg)
	x, _ := r.serve(sequence(1, 797), OpenOptions{})
	all := []*Sequence[buffer]{x.seq}
	for range 199 {
		fork, err := x.seq.Fork()
		require.NoError(t, err)
		all = append(all, fork)
	}
	require.NoError(t, all[1].Retain(r.s, [][]int{{0, 3, 9}}, RetainOptions{Reposition: true})) // it has no tokens, and no positions
	for range 100 {
		fork, err := all[1].Fork()
		require.NoError(t, err)
		all = append(all, fork)
	}
	held := r.stats().Held
	stream := r.save(all...)
	o := deviceRig(t, cfg)
	got := o.load(stream)
	require.Equal(t, held, o.stats().Held)
	o.release(got...)
	require.Equal(t, "sequences", o.mismatch(rewritten(t, stream, func(h *snapshot.Head) {
		h.Strips[0].Tokens = 796
		q := h.Sequences[0]
		q.Tokens, q.Strips = nil, [][]snapshot.Run{{{Refs: []snapshot.Ref{{Chunk: 0, Tokens: 796}, {Chunk: 1, Tokens: 1}}}}}
		h.Sequences = slices.Repeat([]snapshot.Sequence{q}, 1000)
	})))
	o.close()
	r.drop(x)
	r.release(all[1:]...)
	r.close()
}

// Blocks after a Shift are not found, and the blocks before it are shared as before.
func TestLoadedSharesWhatIsNotExact(t *testing.T) {
	r := savedRig(t, 60)
	x, _ := r.serve(sequence(1, 23), OpenOptions{})
	var all []*Sequence[buffer]
	for _, change := range []func(s *Sequence[buffer]) error{
		func(s *Sequence[buffer]) error { return s.Shift(r.s, 13, 17) },
		func(s *Sequence[buffer]) error { return s.Shift(r.s, 16, 19) },
		func(s *Sequence[buffer]) error {
			return s.Retain(r.s, [][]int{{0, 1, 2, 3, 4, 5, 6, 7, 10}}, RetainOptions{})
		},
	} {
		fork, err := x.seq.Fork()
		require.NoError(t, err)
		require.NoError(t, change(fork))
		all = append(all, fork)
	}
	held := r.stats().Held
	for _, order := range [][]*Sequence[buffer]{{x.seq, all[0], all[1], all[2]}, {all[2], all[1], all[0], x.seq}} {
		o := savedRig(t, 60)
		got := o.load(r.save(order...))
		require.Equal(t, held, o.stats().Held, "as many blocks")
		require.Equal(t, 20, o.matched(sequence(1, 23), OpenOptions{}))
		for i := range order {
			requireSame(r, o, order[i], got[i])
		}
		o.release(got...)
		o.close()
	}
	r.drop(x)
	r.release(all...)
	r.close()
}

// A stream that cannot be verified takes nothing from a tenant with a quota, and one that can takes no more than that.
func TestLoadWithinQuota(t *testing.T) {
	salt := prefix.Scope{Salt: []byte("a")}
	from := savedRig(t, 40)
	x, _ := from.serve(sequence(1, 23), OpenOptions{Scope: salt})
	stream := from.save(x.seq)
	r := savedRig(t, 40)
	require.NoError(t, r.pool.Limit(salt, prefix.Limits{Quota: 4}))
	r.cache(sequence(100, 17), OpenOptions{Scope: salt})
	found := r.matched(sequence(100, 17), OpenOptions{Scope: salt})
	require.Positive(t, found)
	require.Error(t, r.refuse(stream[:len(stream)-1]))
	require.Equal(t, found, r.matched(sequence(100, 17), OpenOptions{Scope: salt}))
	got := r.load(stream)
	r.expect(r.s, got[0], x.want)
	t.Log(r.matched(sequence(1, 23), OpenOptions{Scope: salt}), r.matched(sequence(100, 17), OpenOptions{Scope: salt}))
	require.LessOrEqual(t, r.matched(sequence(1, 23), OpenOptions{Scope: salt}), 16)
	r.release(got...)
	r.close()
	from.drop(x)
	from.close()
}
