package prefix

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every cause of a miss, once.
func TestCauses(t *testing.T) {
	r := newRig(t, 8, Config{BlockSize: 4, MinPrefix: 3, Policy: LRU})
	a := salted("a")
	r.cache(a, span(0, 8))
	r.cache(fingerprint.Root(Scope{Adapter: &Adapter{ID: "x"}}), span(20, 24))
	r.cache(r.root, span(40, 52))
	r.cache(r.root, span(60, 64))
	require.True(t, r.tree.Forget(r.cache(r.root, span(90, 94))[0]))
	for i, x := range []struct {
		root   Root
		tokens []uint32
		found  int
		cause  MissReason
	}{
		{a, span(0, 8), 8, Complete},
		{a, span(0, 7), 7, Complete},
		{r.root, span(0, 8), 0, OtherSalt},
		{r.root, span(20, 24), 0, OtherModel},
		{a, span(20, 24), 0, OtherModel},
		{r.root, span(70, 78), 0, NeverSeen},
		{r.root, span(90, 94), 0, NeverSeen},
		{r.root, append(span(40, 44), span(70, 78)...), 4, NeverSeen},
		{r.root, append(span(40, 42), span(70, 78)...), 0, NeverSeen}, // less than MinPrefix
		{r.root, span(40, 42), 0, TooShort},
		{r.root, span(70, 73), 0, TooShort},
		{r.root, nil, 0, TooShort},
		{a, span(0, 10), 8, TooShort},
		{salted("nobody"), nil, 0, TooShort},
		{salted("nobody"), span(0, 4), 0, OtherSalt},
	} {
		blocks, m := r.take(x.root, x.tokens)
		require.Equal(t, [2]any{x.found, x.cause}, [2]any{m.Tokens, m.MissReason()}, "case %d", i)
		require.Equal(t, m, r.tree.Match(x.root, Query{Tokens: x.tokens}))
		r.release(blocks)
	}
	require.True(t, r.tree.Evict(7, r.root))
	for i, x := range []struct {
		root   Root
		tokens []uint32
		cause  MissReason
	}{
		{a, span(0, 8), WasEvicted}, {r.root, span(40, 44), WasEvicted}, {r.root, span(60, 64), WasEvicted},
		{r.root, span(0, 8), NeverSeen}, // evicted under another salt is none of his business
	} {
		_, m := r.match(x.root, x.tokens)
		require.Equal(t, x.cause, m.MissReason(), "case %d", i)
	}
	require.Equal(t, []string{"complete", "never seen", "evicted", "other salt", "other model", "too short", "not looked up"},
		[]string{Complete.String(), NeverSeen.String(), WasEvicted.String(), OtherSalt.String(), OtherModel.String(), TooShort.String(), MissReason(99).String()})
}

// A block that expired is not what another tenant has.
func TestCauseOfExpired(t *testing.T) {
	r := newRig(t, 8, Config{BlockSize: 2})
	r.release(r.hold(Path{Root: r.root, RetentionHint: RetentionHint{TTL: time.Second}}, span(0, 6)))
	r.now = r.now.Add(time.Second)
	_, m := r.match(r.root, span(0, 6))
	require.Equal(t, WasEvicted, m.MissReason())
	r.take(r.root, span(0, 6))
	require.Equal(t, 1, r.tree.Stats().Misses[WasEvicted])
}

// What is stored again is no longer remembered as evicted.
func TestGhostsAreDropped(t *testing.T) {
	r := newRig(t, 2, Config{BlockSize: 1})
	r.cache(r.root, span(0, 1))
	require.True(t, r.tree.Evict(1, r.root))
	blocks := r.cache(r.root, span(0, 1))
	require.True(t, r.tree.Forget(blocks[0]))
	_, m := r.match(r.root, span(0, 1))
	require.Equal(t, NeverSeen, m.MissReason())
}

// The numbers add up, for the tree and for its salts.
func TestStatsAddUp(t *testing.T) {
	r := newRig(t, 16, Config{BlockSize: 2})
	roots := []Root{r.root, salted("a"), salted("b")}
	asked, found := 0, 0
	for i := range 300 {
		root := roots[i%3]
		tokens := append(span(0, i%5), span(100*(i%7), 100*(i%7)+i%4)...)
		blocks, m := r.take(root, tokens)
		asked, found = asked+2*len(tokens), found+m.Tokens
		r.release(blocks)
		r.cache(root, tokens) // looks up, too
		r.check()
	}
	s := r.tree.Stats()
	require.Equal(t, 600, s.Lookups)
	require.Equal(t, asked, s.TokensQueried)
	require.Greater(t, s.TokensHit, found)
	require.Equal(t, s.Blocks, s.Cached+s.Held)
	require.Positive(t, s.Evicted)
	for _, st := range []Stats{s, r.tree.SaltStats(roots[0]), r.tree.SaltStats(roots[1]), r.tree.SaltStats(roots[2])} {
		sum := st.Hits + st.Partial
		for _, n := range st.Misses {
			sum += n
		}
		require.Equal(t, st.Lookups, sum)
		require.Zero(t, st.Misses[Complete])
		for _, n := range st.PartialReasons {
			sum -= n
		}
		require.Equal(t, st.Lookups-st.Partial, sum)
		require.Positive(t, st.PartialReasons[NeverSeen]+st.PartialReasons[WasEvicted])
		require.LessOrEqual(t, st.TokensHit, st.TokensQueried)
	}
	blocks := 0
	for _, root := range roots {
		st := r.tree.SaltStats(root)
		require.Zero(t, st.Misses[OtherSalt]+st.Misses[OtherModel])
		blocks += st.Blocks
	}
	require.Equal(t, s.Blocks, blocks)
}

// A match that is shorter than the shortest prefix is none, and takes nothing.
func TestMinPrefix(t *testing.T) {
	r := newRig(t, 8, Config{BlockSize: 4, MinPrefix: 6})
	r.cache(r.root, span(0, 12))
	for n, want := range []int{0, 0, 0, 0, 0, 0, 6, 7, 8} {
		blocks, m := r.take(r.root, append(span(0, n), 99))
		require.Equal(t, want, m.Tokens, n)
		require.Len(t, blocks, (want+3)/4)
		r.release(blocks)
	}
}
