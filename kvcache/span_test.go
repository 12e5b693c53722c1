package kvcache

import (
	"math"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// Spans that are none, or that a step cuts, are refused and change nothing.
func TestSpansThatAreNone(t *testing.T) {
	w := newMixed(t, small(Paged))
	s := w.fresh()
	for _, spans := range [][]Span{between(-1, 2), between(0, 0), between(2, 1), between(0, 5), between(0, 2, 1, 3), between(2, 3, 0, 1)} {
		require.ErrorIs(t, w.step.AddSpans(s.seq, sequence(1, 4), spans), backend.ErrArgument{}, "%v", spans)
		_, _, err := w.pool.Open(sequence(1, 4), OpenOptions{Spans: spans})
		require.ErrorIs(t, err, backend.ErrArgument{}, "%v", spans)
		_, err = w.pool.Match(sequence(1, 4), OpenOptions{Spans: spans})
		require.ErrorIs(t, err, backend.ErrArgument{}, "%v", spans)
	}
	prompt, _, err := w.pool.Open(sequence(1, 12), OpenOptions{Spans: between(3, 6, 8, 12)})
	require.NoError(t, err)
	require.Equal(t, ErrSpan{Begin: 3, End: 6, Step: 5}, cause(w.step.Add(prompt, sequence(1, 5))))
	require.NoError(t, w.step.Add(prompt, sequence(1, 3)))
	require.Equal(t, ErrSpan{Begin: 3, End: 6, Step: 4}, cause(w.step.Add(prompt, sequence(4, 1))), "a further addition is like a further step")
	require.ErrorIs(t, w.step.AddSpans(prompt, sequence(4, 4), between(1, 4)), backend.ErrArgument{}, "overlaps that of the prompt")
	require.NoError(t, w.step.AddSpans(prompt, sequence(4, 4), between(0, 3)), "the same once more")
	require.ErrorIs(t, w.step.Add(prompt, sequence(8, 2)), ErrSpan{})
	require.NoError(t, w.step.Add(prompt, sequence(8, 5)))
	require.NoError(t, w.step.Reset())
	require.NoError(t, w.step.FixShape(1, 4))
	require.ErrorIs(t, w.step.AddSpans(s.seq, sequence(1, 4), between(0, 2)), backend.ErrUnsupported{})
	require.NoError(t, w.step.FixShape(0, 0))
	require.NoError(t, prompt.Release())
	w.drop(s)
	w.close()

	cfg := manyKinds(config.Group{Kind: group.Chunked, Layers: []int{0}, Chunk: 8}, config.Group{Layers: []int{1}})
	w = newMixed(t, cfg)
	s = w.fresh()
	err = w.step.AddSpans(s.seq, sequence(1, 12), between(0, 8, 8, 9, 10, 12))
	require.NoError(t, err)
	require.NoError(t, w.step.Reset())
	err = w.step.AddSpans(s.seq, sequence(1, 12), between(7, 9))
	require.ErrorIs(t, err, backend.ErrUnsupported{})
	require.ErrorContains(t, err, "the span of tokens 7 to 9 lies over a border of the chunks of 8 tokens")
	w.drop(s)
	w.close()
}

// cause is what a call's error says.
func cause(err error) error {
	if e, ok := err.(callError); ok {
		return e.err
	}
	return err
}

// C8: what a prompt says of its spans, Add computes, in whatever steps, also where a part of one was found.
func TestSpansOfPrompts(t *testing.T) {
	w := newMixed(t, small(Paged))
	spans := between(2, 7, 9, 20)
	prompt := sequence(1, 26)
	open := func(spans []Span) (*told, Match) {
		seq, m, err := w.pool.Open(prompt, OpenOptions{Spans: spans})
		require.NoError(t, err)
		s := &told{seq: seq, ids: append([]uint32(nil), prompt[:m.Cached]...)}
		w.seqs = append(w.seqs, s)
		return s, m
	}
	// told is a step of Add, which the model is told the spans of.
	add := func(s *told, n int) {
		have := len(s.ids)
		d := deal{told: s, ids: prompt[have : have+n]}
		require.NoError(t, w.step.Reset())
		require.NoError(t, w.step.Add(s.seq, d.ids))
		require.NoError(t, w.step.Plan(w.s))
		for _, sp := range spans {
			if sp.End > have && sp.Begin < have+n {
				d.spans = append(d.spans, Span{Begin: sp.Begin - have, End: sp.End - have})
			}
		}
		w.layers([]deal{d})
		require.NoError(t, w.commit([]deal{d}))
	}
	first, m := open(spans)
	require.Zero(t, m.Cached)
	for n, piece := range map[int]int{1: 1, 2: 2, 3: 2, 6: 2, 7: 7, 9: 9, 19: 9, 20: 20, 26: 26} {
		require.Equal(t, piece, first.seq.Piece(n), "of %d", n)
	}
	add(first, 2)
	require.Equal(t, 5, first.seq.Piece(3), "the next tokens are a span")
	add(first, 6)
	add(first, 18)
	require.Equal(t, 24, w.matchedWith(prompt, spans))
	require.Equal(t, 0, w.matchedWith(prompt, nil), "the first block would be another")
	require.Equal(t, 8, w.matchedWith(append(append([]uint32(nil), prompt[:8]...), 99), between(2, 7)))
	require.Equal(t, 8, w.matchedWith(prompt, between(2, 7, 9, 19)), "a shorter span has other keys and values in all of its tokens")
	require.Equal(t, 8, w.matchedWith(prompt[:14], between(2, 7, 9, 14)))
	changed := append([]uint32(nil), prompt...)
	changed[19] = 77 // the last token of the second span, which all others of it see
	require.Equal(t, 8, w.matchedWith(changed, spans))

	for _, cut := range []int{13, 16} { // within the second span: the tail of a block, and the end of one
		require.NoError(t, w.pool.Clear(true))
		w.drop(first)
		first, _ = open(spans)
		add(first, 26)
		require.NoError(t, first.seq.Truncate(cut))
		require.True(t, first.seq.text.Silent, "it has tokens that saw others than it will")
		w.drop(first)
		second, m := open(spans)
		require.Equal(t, 24, m.Cached)
		w.drop(second)
		first, _ = open(nil)
	}
	w.drop(first)
	w.close()
}

// C8: a part of a span that is found is gone on with: the rest of it sees all of it.
func TestSpansThatBeginInTheCache(t *testing.T) {
	cfg := small(Paged)
	cfg.Memory.Blocks = 10
	w := newMixed(t, cfg)
	prompt, spans := sequence(1, 14), between(2, 13)
	s, _, err := w.pool.Open(prompt, OpenOptions{Spans: spans})
	require.NoError(t, err)
	first := &told{seq: s}
	w.seqs = append(w.seqs, first)
	require.NoError(t, w.run(deal{told: first, ids: prompt, spans: spans}))
	w.drop(first)
	big := w.fresh() // evicts the end of the path
	require.NoError(t, w.run(deal{told: big, ids: sequence(100, 32)}))
	w.drop(big)
	s, m, err := w.pool.Open(prompt, OpenOptions{Spans: spans})
	require.NoError(t, err)
	require.Equal(t, 8, m.Cached)
	require.ErrorIs(t, w.step.Add(s, prompt[8:12]), ErrSpan{})
	second := &told{seq: s, ids: append([]uint32(nil), prompt[:8]...)}
	w.seqs = append(w.seqs, second)
	for _, again := range [][]Span{between(0, 5), nil} { // named again, or not
		d := deal{told: second, ids: prompt[8:], spans: again}
		require.NoError(t, w.plan(d))
		d.spans = between(-6, 5)
		w.layers([]deal{d})
		if again != nil {
			require.False(t, w.step.members[0].silent, "the prompt has named it")
			require.NoError(t, w.step.Reset())
			continue
		}
		require.NoError(t, w.commit([]deal{d}))
	}
	w.drop(second)
	w.close()
}

// Spans of a prompt are named again as they are there, or not at all: the error says which is whose.
func TestSpansThatOverlapThoseOfThePrompt(t *testing.T) {
	w := newMixed(t, small(Paged))
	prompt := sequence(1, 20)
	s, _, err := w.pool.Open(prompt, OpenOptions{Spans: between(6, 12, 14, 18)})
	require.NoError(t, err)
	for _, spans := range [][]Span{between(6, 12), between(6, 12, 14, 18), between(0, 2, 14, 18), between(12, 14)} {
		require.NoError(t, w.step.AddSpans(s, prompt, spans), "%v", spans)
		require.Equal(t, spans[0].Begin != 6, w.step.members[0].silent, "%v", spans)
		require.NoError(t, w.step.Reset())
	}
	for why, spans := range map[string][]Span{
		"[6, 11), as tokens of the sequence, overlaps [6, 12)": between(6, 11), "[4, 7), as tokens of the sequence, overlaps [6, 12)": between(4, 7),
		"[8, 12), as tokens of the sequence, overlaps [6, 12)": between(8, 12), "[11, 13), as tokens of the sequence, overlaps [6, 12)": between(6, 12, 11, 13)[1:],
		"[0, 19), as tokens of the sequence, overlaps [6, 12)": between(0, 19), "[17, 20), as tokens of the sequence, overlaps [14, 18)": between(6, 12, 17, 20),
	} {
		err := w.step.AddSpans(s, prompt, spans)
		require.ErrorIs(t, err, backend.ErrArgument{}, "%v", spans)
		require.ErrorContains(t, err, "the span "+why+" of the prompt")
	}
	require.NoError(t, w.step.Add(s, prompt[:6]))
	require.ErrorContains(t, w.step.AddSpans(s, prompt[6:], between(2, 6)), "the span [8, 12), as tokens of the sequence, overlaps [6, 12)")
	require.NoError(t, w.step.AddSpans(s, prompt[6:], between(0, 6)))
	require.NoError(t, w.step.Reset())
	require.NoError(t, s.Release())
	w.close()
}

// matchedWith is what is found of a prompt with spans.
func (w *mixed) matchedWith(prompt []uint32, spans []Span) int {
	w.t.Helper()
	m, err := w.pool.Match(prompt, OpenOptions{Spans: spans})
	require.NoError(w.t, err)
	return m.Cached
}

// Blocks with spans that no prompt named are found by nobody, nor are those after them; what is before them is.
func TestSpansThatNobodyNamed(t *testing.T) {
	w := newMixed(t, small(Paged))
	s := w.fresh()
	require.NoError(t, w.run(deal{told: s, ids: sequence(1, 6)}))
	require.NoError(t, w.plan(deal{told: s, ids: sequence(7, 6), spans: between(1, 3)}))
	require.NoError(t, w.step.Reset()) // nothing has happened
	require.NoError(t, w.run(deal{told: s, ids: sequence(7, 2)}))
	require.Equal(t, 8, w.matchedWith(sequence(1, 20), nil))
	require.NoError(t, w.run(deal{told: s, ids: sequence(9, 6), spans: between(1, 3)}))
	require.NoError(t, w.run(deal{told: s, ids: sequence(15, 8)}))
	w.drop(s)
	require.Equal(t, 8, w.matchedWith(sequence(1, 20), nil))
	w.close()
}

// C8: what a block with spans is called depends on all tokens of its spans, where they are, and the items there.
func TestSpanKeys(t *testing.T) {
	prompt := sequence(1, 12)
	items := []prefix.Item{{Begin: 1, End: 3, Hash: []byte("a")}, {Begin: 7, End: 9, Hash: []byte("b")}}
	keys := func(change func(prompt []uint32, items []prefix.Item, spans []Span)) []prefix.Key {
		p, i, s := append([]uint32(nil), prompt...), append([]prefix.Item(nil), items...), between(0, 10)
		change(p, i, s)
		return prefix.SpanKeys(p, i, s, 4)
	}
	same := keys(func([]uint32, []prefix.Item, []Span) {})
	require.Len(t, same, 3)
	for name, change := range map[string]func(prompt []uint32, items []prefix.Item, spans []Span){
		"its last token":              func(p []uint32, _ []prefix.Item, _ []Span) { p[9] = 77 },
		"its end":                     func(_ []uint32, _ []prefix.Item, s []Span) { s[0].End = 9 },
		"an item in a later block":    func(_ []uint32, i []prefix.Item, _ []Span) { i[1].Hash = []byte("c") },
		"an item in an earlier block": func(_ []uint32, i []prefix.Item, _ []Span) { i[0].Hash = []byte("c") },
	} {
		for b, key := range keys(change) {
			require.NotEqual(t, same[b], key, "%s, block %d", name, b)
		}
	}
	require.Equal(t, same, keys(func(p []uint32, _ []prefix.Item, _ []Span) { p[10] = 77 }), "a token behind it")
	require.Equal(t, prefix.ItemKeys(items, 12, 4), prefix.SpanKeys(prompt, items, nil, 4))
	require.Empty(t, prefix.SpanKeys(prompt, items, between(0, 10), 0))
	for _, spans := range [][]Span{between(5, 5), between(9, 2), between(12, 20), between(-4, 0), between(-9, -4), between(math.MaxInt, math.MinInt), nil} {
		require.Equal(t, prefix.ItemKeys(items, 12, 4), prefix.SpanKeys(prompt, items, spans, 4), "%v has no token", spans)
	}
	require.Equal(t, prefix.SpanKeys(prompt, items, between(0, 6, 8, 12), 4), prefix.SpanKeys(prompt, items, between(-3, 6, 7, 7, 8, 99), 4), "cut to the prompt")
	require.Empty(t, prefix.SpanKeys(nil, nil, between(0, 10), 4))
	require.NotPanics(t, func() { prefix.SpanKeys(prompt, items, between(math.MinInt, math.MaxInt, 3, 9, 1, 4), 4) }, "nor of spans that overlap")
}
