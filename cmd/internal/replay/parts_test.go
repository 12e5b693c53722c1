package replay

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPartsRefuse(t *testing.T) {
	for want, p := range map[string]Parts{
		"window 0: accepts 1 to 1073741824":          {Windows: 1},
		"window 1073741825: accepts 0 to 1073741824": {Window: 1<<30 + 1},
		"window-parts 0: accepts 1 to 64":            {Window: 5},
		"window-parts -1: accepts 0 to 64":           {Windows: -1},
		"window-parts 65: accepts 1 to 64":           {Window: 5, Windows: 65},
		"state-parts -1: accepts 0 to 64":            {States: -1},
		"state-parts 65: accepts 0 to 64":            {States: 65},
		"retain -1: accepts 0 to 1073741824":         {States: 1, Every: -1},
		"retain-share 101: accepts 0 to 100":         {States: 1, Share: 101},
	} {
		err := p.Check()
		require.ErrorIs(t, err, ErrSetting{}, want)
		require.EqualError(t, err, want)
	}
	for _, p := range []Parts{{}, {Window: 1, Windows: 64}, {Window: 1 << 30, Windows: 1, States: 64, Every: 1 << 30, Share: 100}} {
		require.NoError(t, p.Check())
	}
	trace := traceOf(t, [][]uint64{{1}})
	for _, policy := range []string{"mru", Optimum} {
		_, err := trace.Replay(t.Context(), policy, Capacity{}, Setup{Parts: Parts{States: 1}}, func(int) {})
		require.ErrorIs(t, err, ErrSetting{}, policy)
	}
}

func TestRetention(t *testing.T) {
	for text, every := range map[string]int{"all": 1, "ends": 0, "2": 2, "1073741824": 1 << 30} {
		got, err := ParseRetention(text)
		require.NoError(t, err)
		require.Equal(t, every, got)
		require.Equal(t, text, RetentionName(every))
	}
	got, err := ParseRetention("1")
	require.NoError(t, err)
	require.Equal(t, "all", RetentionName(got))
	for _, text := range []string{"", "0", "-1", "some", "1.5", "1073741825", "99999999999999999999"} {
		_, err := ParseRetention(text)
		require.ErrorIs(t, err, ErrSetting{}, text)
		require.ErrorContains(t, err, "retain "+text+": accepts all, ends, and 1 to 1073741824 blocks")
	}
}

// A share of the capacity is of the blocks of all parts.
func TestPartsBlocks(t *testing.T) {
	trace := traceOf(t, [][]uint64{{1, 2, 3, 4, 5, 6, 7, 8, 9}})
	p := Parts{Window: 1, Windows: 2, States: 1}
	for text, want := range map[string]int{"1": 1, "2147483647": math.MaxInt32, "25%": 9, "0.1%": 1, "100%": 36, "unlimited": 4 * (9 + piece)} {
		c, err := ParseCapacity(text)
		require.NoError(t, err)
		require.Equal(t, want, p.Blocks(c, trace), text)
		require.Equal(t, c.Blocks(trace), Parts{}.Blocks(c, trace), text)
	}
	require.Equal(t, 36, p.All(trace))
}

// Rules count whole blocks, and at the end of one they say what those of tokens say.
func TestPartsRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.IntRange(1, 20).Draw(t, "block")
		p := Parts{Window: rapid.IntRange(1, 100).Draw(t, "window"), Windows: 1}
		n := rapid.IntRange(0, 30).Draw(t, "blocks")
		of := p.rules(tokens)[1].Rule
		exact := of
		exact.Block, exact.Window = tokens, p.Window
		require.Equal(t, exact.First(n*tokens), of.First(n))
		require.Equal(t, exact.Gone(n*tokens), of.Gone(n))
	})
}

// A window of eight blocks: borders that are no further apart keep all.
func TestPartsRetention(t *testing.T) {
	of := Parts{Window: 8*512 + 1, Windows: 1}.rules(512)[1].Rule
	kept := func(every int) (n int) {
		for i := range 72 { // the least that 8 and 9 divide
			if of.Keeps(i, every) {
				n++
			}
		}
		return n
	}
	require.Equal(t, []int{72, 72, 64, 16}, []int{kept(1), kept(8), kept(9), kept(36)})
}
