package runner

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// speculates requires that guesses of several numbers give the texts of plain decoding, in both layouts, for prompts of one
// batch, again after what is cached, and up to the end of the cache. It returns the reports by the number of guesses.
func speculates(t *testing.T, m *Model, prompts []Prompt, n, capacity int) map[int]Report {
	be, reports := openCPU(t), map[int]Report{}
	for _, layout := range layouts {
		cfg := cacheOf(layout, backend.F32)
		cfg.Memory.Capacity, cfg.Memory.MaxSeqs = capacity, len(prompts)
		want, plain, err := tokens(newRunner(t, be, m, Options{Cache: cfg}), prompts, n, 0)
		require.NoError(t, err)
		require.NotEmpty(t, slices.Concat(want...))
		for _, guesses := range []int{1, 3, 8} {
			if layout == kvcache.Paged {
				cfg.Memory.BlockSize = 1 << guesses
			}
			r := newRunner(t, be, m, Options{Cache: cfg, Guesses: guesses})
			for i := range 2 {
				got, report, err := tokens(r, prompts, n, 0)
				require.NoError(t, err)
				require.Equal(t, want, got, "%v, %d guesses", layout, guesses)
				require.Equal(t, plain.DecodeTokens, report.DecodeTokens, "tokens that are in the cache")
				if reports[guesses] = report; i == 0 && len(prompts) == 1 {
					require.Equal(t, plain.PrefillTokens, report.PrefillTokens)
				}
			}
		}
	}
	return reports
}

// A tree of guesses changes no text: of the demo model, and of models with windows that are smaller than the text.
func TestGuessesChangeNoText(t *testing.T) {
	m, tok, cases := loadDemo(t)
	n := 200
	if race.Enabled {
		n = 30
	}
	var prompts []Prompt
	for _, c := range cases {
		prompts = append(prompts, Prompt{Tokens: tok.Encode(c.Prompt)})
	}
	t.Run("demo", func(t *testing.T) {
		reports := speculates(t, m, append(prompts, prompts[0]), n, 256)
		require.Greater(t, reports[8].Right, reports[1].Right)
		require.Greater(t, reports[8].Guesses, reports[8].Right, "some are wrong, too")
	})
	t.Run("capacity", func(t *testing.T) { speculates(t, m, prompts, n, 60) })
	right := 0
	for _, f := range figures(t) {
		if !slices.Contains([]string{"mistral", "gemma2", "gpt-oss", "deepseek-v3"}, f.Name) {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			text := f.Text()
			reports := speculates(t, f.load(t, "4"), []Prompt{{Tokens: append(text[:50:50], text[20:50]...)}, {Tokens: text[:7]}}, 90, 256)
			right += reports[8].Right
		})
	}
	require.Positive(t, right)
}

// The cache's end is the text's.
func TestGuessesOfAnEndlessText(t *testing.T) {
	m := endless(3)
	r := newRunner(t, openCPU(t), m, Options{Guesses: 4, Cache: kvcache.Config{Memory: kvcache.Memory{Layout: kvcache.Paged, BlockSize: 4, Capacity: 40, Prefix: prefix.Off}}})
	_, err := r.Generate(context.Background(), []Prompt{{Tokens: upTo(4)}}, 8, Sampling{Temperature: 1}, nil)
	require.ErrorIs(t, err, kvcache.ErrConfig{})
	_, report, err := tokens(r, []Prompt{{Tokens: upTo(4)}}, 1000, 0)
	require.NoError(t, err)
	require.Equal(t, 36, report.DecodeTokens, "the cache is full")
	got, _, err := tokens(r, []Prompt{{Tokens: upTo(4)}}, 20, 7)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, got[0], 7)
}

// A pool that has just the blocks of plain decoding has none for guesses, and the text goes on without them.
func TestGuessesNeedNoBlocks(t *testing.T) {
	m, be := endless(4), openCPU(t)
	cfg := kvcache.Config{Memory: kvcache.Memory{Layout: kvcache.Paged, BlockSize: 4, Capacity: 40, MaxSeqs: 2, Prefix: prefix.Off}}
	prompts := []Prompt{{Tokens: upTo(5)}, {Tokens: upTo(8)}}
	want, plain, err := tokens(newRunner(t, be, m, Options{Cache: cfg}), prompts, 30, 0)
	require.NoError(t, err)
	cfg.Memory.Blocks = plain.Cache.Held
	got, report, err := tokens(newRunner(t, be, m, Options{Cache: cfg, Guesses: 12}), prompts, 30, 0)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, plain.DecodeTokens, report.DecodeTokens)
}

func TestGuessesAreRefused(t *testing.T) {
	be := openCPU(t)
	for _, f := range figures(t) {
		m := f.load(t, "4")
		r, err := New(be, m, Options{Guesses: 2, Cache: kvcache.Config{Memory: kvcache.Memory{Capacity: 64}}})
		if m.Blocks != nil && (m.block(0).Kind > 1) {
			require.ErrorIs(t, err, kvcache.ErrConfig{}, f.Name)
			require.ErrorContains(t, err, "layer 0", f.Name)
			continue
		}
		require.NoError(t, err, f.Name)
		require.NoError(t, r.Close())
	}
	for _, n := range []int{-1, 1 << 20} {
		_, err := New(be, endless(1), Options{Guesses: n})
		require.ErrorIs(t, err, kvcache.ErrConfig{})
	}
	_, err := New(be, endless(1), Options{Guesses: 2, Cache: kvcache.Config{Storage: kvcache.Storage{K: backend.Int8, Residual: 32}, Memory: kvcache.Memory{Layout: kvcache.Paged}}})
	require.ErrorIs(t, err, kvcache.ErrConfig{})
	require.ErrorContains(t, err, "residual window")
}

func TestLookUp(t *testing.T) {
	for _, c := range []struct {
		text        []uint32
		nodes, deep int
		want        drafts
	}{
		{[]uint32{7}, 9, 9, drafts{[]uint32{7}, []int{-1}}},
		{[]uint32{1, 2, 3}, 9, 9, drafts{[]uint32{3}, []int{-1}}},
		{[]uint32{1, 2, 3, 1}, 9, 9, drafts{[]uint32{1, 2, 3, 1}, []int{-1, 0, 1, 2}}},
		{[]uint32{1, 2, 3, 1}, 9, 3, drafts{[]uint32{1, 2, 3}, []int{-1, 0, 1}}},
		{[]uint32{1, 2, 3, 1}, 1, 9, drafts{[]uint32{1}, []int{-1}}},
		// After 4 1 was 2 3, after another 1 was 5, and before that 2 6.
		{[]uint32{1, 2, 6, 4, 1, 2, 3, 1, 5, 4, 1}, 5, 9, drafts{[]uint32{1, 2, 3, 1, 5}, []int{-1, 0, 1, 2, 0}}},
	} {
		require.Equal(t, c.want, lookUp(c.text, c.nodes, c.deep), fmt.Sprint(c.text, c.nodes, c.deep))
	}
}
