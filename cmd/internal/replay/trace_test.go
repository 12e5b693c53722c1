package replay

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTraceNumbersBlocks(t *testing.T) {
	trace := traceOf(t, [][]uint64{{7, 1 << 63, 7}, {7, 5}, {}, {5, 7}})
	require.Equal(t, 4, trace.Requests())
	require.Equal(t, 7, trace.References())
	require.Equal(t, 6, trace.Unique(), "an id after another block is another block")
	require.Equal(t, 1, trace.InfiniteHits())
	var paths [][]uint32
	for i := range 4 {
		paths = append(paths, trace.Path(i))
	}
	require.Equal(t, [][]uint32{{0, 1, 2}, {0, 3}, {}, {4, 5}}, paths)
}

func TestTraceProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace := drawTrace(t, 30)
		parents := map[uint32]uint32{}
		for i := range trace.Requests() {
			parent := uint32(noParent)
			for _, b := range trace.Path(i) {
				if have, known := parents[b]; known {
					require.Equal(t, have, parent, "a block comes after one other")
				}
				parents[b] = parent
				require.True(t, parent == noParent || parent < b)
				require.Less(t, int(b), trace.Unique())
				parent = b
			}
		}
		require.Len(t, parents, trace.Unique())
		naive := map[uint32]bool{}
		hits := 0
		for _, b := range trace.blocks {
			if naive[b] {
				hits++
			}
			naive[b] = true
		}
		require.Equal(t, hits, trace.InfiniteHits())
	})
}

func TestTraceOrder(t *testing.T) {
	b := newBuilder()
	for i, at := range []float64{3, 1, 2, 1, 0} {
		require.NoError(t, b.add(at, []uint64{uint64(i)}))
	}
	trace := b.finish("")
	var order []uint32
	for i := range 5 {
		order = append(order, trace.Path(i)...)
	}
	require.Equal(t, []uint32{4, 1, 3, 2, 0}, order, "by time; of one time as they came")
}

func TestTraceLimits(t *testing.T) {
	b := newBuilder()
	b.limits = limits{references: 5, unique: 3}
	require.NoError(t, b.add(0, []uint64{1, 2, 3}))
	require.ErrorContains(t, b.add(0, []uint64{4}), "more than 3 different blocks")
	b = newBuilder()
	b.limits = limits{references: 5, unique: 3}
	require.NoError(t, b.add(0, []uint64{1, 2, 3}))
	require.ErrorContains(t, b.add(0, []uint64{1, 2, 3}), "more than 5 requests or references")
	for range 4 {
		require.NoError(t, b.add(0, nil))
	}
	require.ErrorContains(t, b.add(0, nil), "more than 5 requests or references")
}

func TestCapacity(t *testing.T) {
	trace := traceOf(t, [][]uint64{{1, 2, 3, 4, 5, 6, 7, 8, 9}})
	for text, want := range map[string]int{"1": 1, "2147483647": math.MaxInt32, "25%": 2, "0.1%": 1, "99.9%": 8, "100%": 9, "unlimited": 9} {
		c, err := ParseCapacity(text)
		require.NoError(t, err)
		require.Equal(t, want, c.Blocks(trace), text)
		require.Equal(t, text, c.String())
	}
	for _, text := range []string{"", "0", "-1", "4294967295", "99999999999999999999", "1.5", "ten", "%", "0%", "-1%", "100.1%", "NaN%", "Inf%", "Unlimited"} {
		_, err := ParseCapacity(text)
		require.ErrorIs(t, err, ErrSetting{}, text)
		require.ErrorContains(t, err, "capacity "+text+": accepts 1 to 4294967294 blocks")
	}
}

func TestSynthetic(t *testing.T) {
	trace, err := Synthetic(t.Context(), DefaultSynthesis)
	require.NoError(t, err)
	require.Equal(t, []int{10_000, 582_576, 124_312, 64}, []int{trace.Requests(), trace.References(), trace.Unique(), trace.BlockTokens})
	require.Equal(t, "synthetic", trace.Name)
	require.Equal(t, 64*len(trace.Path(9)), trace.Tokens(9))
	for i := range trace.Requests() {
		require.True(t, minAnswer <= trace.Output(i) && trace.Output(i) <= maxAnswer)
	}
	again, err := Synthetic(t.Context(), DefaultSynthesis)
	require.NoError(t, err)
	require.Equal(t, trace, again)
	other := DefaultSynthesis
	other.Seed++
	different, err := Synthetic(t.Context(), other)
	require.NoError(t, err)
	require.False(t, slices.Equal(trace.blocks, different.blocks))
}

func TestSyntheticParts(t *testing.T) {
	scans := Synthesis{Requests: 50, SystemPrompts: 1, Conversations: 1, Turns: 1, ScanPercent: 100}
	trace, err := Synthetic(t.Context(), scans)
	require.NoError(t, err)
	require.Zero(t, trace.InfiniteHits(), "no scan is sent again")

	chats := Synthesis{Requests: 300, SystemPrompts: 1, Conversations: 1, Turns: 1 << 16}
	trace, err = Synthetic(t.Context(), chats)
	require.NoError(t, err)
	grown := 0
	for i := range trace.Requests() - 1 {
		if next := trace.Path(i + 1); slices.Equal(trace.Path(i), next[:len(trace.Path(i))]) {
			grown++
		}
	}
	require.Greater(t, grown, 290, "a conversation goes on where it was")

	chats.Turns = 1
	trace, err = Synthetic(t.Context(), chats)
	require.NoError(t, err)
	for i := range trace.Requests() {
		require.Equal(t, trace.Path(0)[:minSystem], trace.Path(i)[:minSystem], "all begin with the system prompt")
		require.LessOrEqual(t, len(trace.Path(i)), maxSystem+maxTurn)
	}

	popular := map[uint32]int{}
	trace, err = Synthetic(t.Context(), Synthesis{Requests: 20_000, SystemPrompts: 3, Conversations: 1, Turns: 1})
	require.NoError(t, err)
	for i := range trace.Requests() {
		popular[trace.Path(i)[0]]++
	}
	counts := []int{}
	for _, n := range popular {
		counts = append(counts, n)
	}
	slices.Sort(counts)
	for k, want := range []float64{2. / 11, 3. / 11, 6. / 11} { // 1/3 : 1/2 : 1
		require.InDelta(t, want, float64(counts[k])/20_000, 0.02)
	}
}

func TestSyntheticRefuses(t *testing.T) {
	for name, change := range map[string]func(*Synthesis){
		"requests 0":              func(s *Synthesis) { s.Requests = 0 },
		"system-prompts 10000000": func(s *Synthesis) { s.SystemPrompts = 10_000_000 },
		"conversations -1":        func(s *Synthesis) { s.Conversations = -1 },
		"turns 0":                 func(s *Synthesis) { s.Turns = 0 },
		"scans 101":               func(s *Synthesis) { s.ScanPercent = 101 },
		"requests 1000001":        func(s *Synthesis) { s.Requests = maxRequests + 1 },
	} {
		s := DefaultSynthesis
		change(&s)
		_, err := Synthetic(t.Context(), s)
		require.ErrorIs(t, err, ErrSetting{})
		require.ErrorContains(t, err, name+": accepts ")
	}
}
