package pack

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// shape was measured, with a ratio and quartiles that lie on both sides of it.
func shape(name string, ratio, around float64) ShapeResult {
	return ShapeResult{Name: name, Runs: leastRounds, Ratio: Spread{Median: ratio, Q1: ratio - around, Q3: ratio + around}}
}

// rounds is a shape after n of them.
func rounds(n int, s ShapeResult) ShapeResult {
	s.Runs = n
	return s
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name   string
		shapes []ShapeResult
		why    string
	}{
		{"wins", []ShapeResult{shape(long, 0.969, 0.03)}, ""},
		{"wins by less", []ShapeResult{shape(long, 0.97, 0)}, "wins no shape: 0.970 of the baseline's time in " + long + ", after 7 rounds, is its best"},
		{"quartiles apart", []ShapeResult{shape(long, 0.9, 0.09)}, ""},
		{"quartiles not apart", []ShapeResult{shape(long, 0.9, 0.11)}, "wins no shape: 0.900 of the baseline's time in " + long + ", after 7 rounds, is its best"},
		{"loses little elsewhere", []ShapeResult{shape(short, 1.02, 0), shape(long, 0.9, 0)}, ""},
		{"loses elsewhere", []ShapeResult{shape(long, 0.5, 0), shape(short, 1.021, 0)}, "slower: 1.021 of the baseline's time in " + short},
		{"slower elsewhere after few rounds", []ShapeResult{shape(long, 0.9, 0), rounds(loserRounds-1, shape(short, 1.2, 0))}, ""},
		{"slower elsewhere, quartiles not apart", []ShapeResult{shape(long, 0.9, 0), shape(short, 1.03, 0.03)}, ""},
		{"not measured elsewhere", []ShapeResult{{Name: short}, shape(long, 0.9, 0)}, ""},
		{"not measured", []ShapeResult{{Name: short}}, "not measured: see its shapes"},
	} {
		r := Results{Variants: []VariantResult{{Name: "a", Done: true, Shapes: c.shapes}, {Name: "b", Failed: "before", Shapes: []ShapeResult{shape(long, 0.1, 0)}}}}
		r.choose()
		require.Equal(t, c.why, r.Variants[0].Dropped, c.name)
		require.Equal(t, c.why == "", len(r.Chosen) == 1, c.name)
		require.Equal(t, "before", r.Variants[1].Dropped, "what was dropped stays so")
	}
}

func TestOverlaps(t *testing.T) {
	beats := func(name, shape, by, own string) string {
		return name + " is faster in " + shape + ": " + by + " of the baseline's time, this one " + own
	}
	for _, c := range []struct {
		name   string
		shapes [][]ShapeResult // of a, b, c
		chosen []string
		why    []string
	}{
		{"apart", [][]ShapeResult{{shape(long, 0.9, 0)}, {shape(short, 0.8, 0)}, {shape(steps, 0.7, 0)}}, []string{"a", "b", "c"}, []string{"", "", ""}},
		{"one shape", [][]ShapeResult{{shape(long, 0.9, 0)}, {shape(long, 0.8, 0)}, {shape(long, 0.85, 0)}}, []string{"b"},
			[]string{beats("b", long, "0.800", "0.900"), "", beats("b", long, "0.800", "0.850")}},
		{"equals", [][]ShapeResult{{shape(long, 0.9, 0)}, {shape(long, 0.9, 0)}, {shape(short, 0.9, 0)}}, []string{"a", "c"},
			[]string{"", beats("a", long, "0.900", "0.900"), ""}},
		{"the shape that both have counts", [][]ShapeResult{{shape(short, 0.5, 0), shape(long, 0.9, 0)}, {shape(long, 0.8, 0)}, {shape(steps, 1.5, 0)}},
			[]string{"b"}, []string{beats("b", long, "0.800", "0.900"), "", "slower: 1.500 of the baseline's time in " + steps}},
		{"the greater gain is decided first", [][]ShapeResult{{shape(long, 0.8, 0), shape(short, 0.9, 0)}, {shape(long, 0.85, 0), shape(short, 0.7, 0)}, {shape(steps, 0.9, 0)}},
			[]string{"b", "c"}, []string{beats("b", short, "0.700", "0.900"), "", ""}},
		{"a dropped variant drops no other", [][]ShapeResult{{shape(long, 0.9, 0)}, {shape(long, 0.8, 0), shape(short, 0.8, 0)}, {shape(short, 0.7, 0)}},
			[]string{"a", "c"}, []string{"", beats("c", short, "0.700", "0.800"), ""}},
		{"neither does one that is not chosen", [][]ShapeResult{{shape(long, 0.9, 0)}, {shape(long, 0.8, 0), shape(short, 1.1, 0)}, {shape(steps, 0.9, 0)}},
			[]string{"a", "c"}, []string{"", "slower: 1.100 of the baseline's time in " + short, ""}},
		{"few rounds decide nothing", [][]ShapeResult{{shape(long, 0.9, 0), rounds(leastRounds-1, shape(short, 0.5, 0))}, {shape(short, 0.8, 0)}, {shape(steps, 0.9, 0)}},
			[]string{"a", "b", "c"}, []string{"", "", ""}},
		{"what was not measured is no overlap", [][]ShapeResult{{shape(long, 0.9, 0), {Name: short}}, {shape(short, 0.8, 0), {Name: long}}, {shape(steps, 0.9, 0)}},
			[]string{"a", "b", "c"}, []string{"", "", ""}},
	} {
		var r Results
		for i, shapes := range c.shapes {
			r.Variants = append(r.Variants, VariantResult{Name: string(rune('a' + i)), Shapes: shapes, Done: true})
		}
		r.choose()
		require.Equal(t, c.chosen, r.Chosen, c.name)
		for i, v := range r.Variants {
			require.Equal(t, c.why[i], v.Dropped, "%s: %s", c.name, v.Name)
		}
	}
}

// Through a whole run, too, the faster of two is kept.
func TestOverlapInARun(t *testing.T) {
	f := newFake(map[string]kernels{"": {noise: 0.01}, "good": {ratio: 0.9, noise: 0.01}, "better": {ratio: 0.8, noise: 0.01}})
	out := runs(t, f, Pack{Variants: []Variant{of("good", "."), of("better", "^prefill")}})
	require.Equal(t, []string{"better"}, out.Chosen)
	require.Regexp(t, "^better is faster in prefill/.*: 0.[78].. of the baseline's time, this one 0.[89]", out.result(t, "good").Dropped)
}
