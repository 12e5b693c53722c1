package pack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFastVariantIsChosen(t *testing.T) {
	f := newFake(map[string]kernels{"": {noise: 0.005}, "fast": {ratio: 0.8, noise: 0.005}})
	v := of("fast", "query=8192$")
	v.What, v.PredictUS = "boxes", map[string][2]float64{long: {1100, 1300}}
	out := runs(t, f, Pack{Commit: "34970b6", Variants: []Variant{v}})

	require.Equal(t, []string{"fast"}, out.Chosen)
	require.Equal(t, "34970b6", out.Commit)
	require.Equal(t, map[string]string{"device": "fake", "clocks": "1980 MHz"}, out.About)
	require.Equal(t, begun, out.Started)
	require.Equal(t, f.now, out.Ended)
	require.Len(t, out.Variants, 1)
	got := out.Variants[0]
	require.Equal(t, "boxes", got.What)
	require.Equal(t, "passed", got.Conform)
	require.Empty(t, got.Dropped)
	require.Len(t, got.Shapes, 1)
	s := got.Shapes[0]
	require.Equal(t, long, s.Name)
	require.Equal(t, "settled", s.Stopped)
	require.Equal(t, leastRounds, s.Runs)
	require.InEpsilon(t, 1500, s.BaselineUS.Median, 0.005)
	require.InEpsilon(t, 1200, s.VariantUS.Median, 0.005)
	require.InEpsilon(t, 0.8, s.Ratio.Median, 0.01)
	require.Less(t, s.Ratio.Q1, s.Ratio.Median)
	require.Less(t, s.Ratio.Median, s.Ratio.Q3)
	require.Equal(t, &Prediction{Least: 1100, Most: 1300, Hit: true}, s.Prediction)
	require.Equal(t, &Check{Largest: 0.004}, s.Check)
	require.Equal(t, &Check{Largest: 0.004}, s.BaselineCheck)

	want := []string{"describe", "conform fast", "prepare  " + long, "prepare fast " + long, "check ", "check fast"}
	for range leastRounds {
		want = append(want, "sample ", "sample fast", "sample fast", "sample ")
	}
	require.Equal(t, append(want, "close fast", "close "), f.calls)
}

func TestSlowVariantIsStoppedEarly(t *testing.T) {
	f := newFake(map[string]kernels{"": {noise: 0.02}, "slow": {ratio: 1.2, noise: 0.02}, "same": {noise: 0.001}})
	out := runs(t, f, Pack{Variants: []Variant{of("slow", steps), of("same", steps)}})
	require.Empty(t, out.Chosen)
	slow := out.result(t, "slow")
	require.Equal(t, loserRounds, slow.Shapes[0].Runs)
	require.Equal(t, "slower", slow.Shapes[0].Stopped)
	require.Regexp(t, `^slower: 1\.\d+ of the baseline's time in `+steps, slow.Dropped)
	require.Regexp(t, `^wins no shape: \d\.\d+ of the baseline's time in `+steps, out.result(t, "same").Dropped)
}

// A planted error is found by the suite, or where it is not, in the outputs that are measured. The variant is named with the
// reason, and those after it are measured.
func TestVariantWithAnErrorIsDropped(t *testing.T) {
	checks := func(c Check, err error) func() (Check, error) { return func() (Check, error) { return c, err } }
	for name, c := range map[string]struct {
		wrong kernels
		why   string
	}{
		"suite":     {kernels{conform: func() error { return errPlanted }}, "does not conform: " + errPlanted.Error()},
		"panic":     {kernels{conform: func() error { panic("no kernel") }}, "does not conform: panic: no kernel"},
		"large":     {kernels{check: checks(Check{Largest: 0.5}, nil)}, long + ": the largest error of the output is 0.5, and may be 0.016 beside the baseline's 0.004"},
		"tolerance": {kernels{check: checks(Check{Largest: 0.01}, errPlanted)}, long + ": " + errPlanted.Error()},
		"nan":       {kernels{check: checks(Check{NaN: 3}, nil)}, long + ": 3 places of the output are NaN"},
		"unwritten": {kernels{check: checks(Check{Unwritten: 4}, nil)}, long + ": 4 places of the output are not written"},
		"infinite":  {kernels{check: checks(Check{Largest: math.Inf(1)}, nil)}, long + ": the largest error of the output is +Inf"},
		"no number": {kernels{check: checks(Check{Largest: math.NaN()}, nil)}, long + ": the largest error of the output is NaN"},
		"prepare":   {kernels{prepare: func(string) error { return errPlanted }}, long + ": " + errPlanted.Error()},
		"sample": {kernels{sample: func(n int) (float64, error) {
			if n == 5 {
				return 0, errPlanted
			}
			return 1e-6, nil
		}}, long + ": " + errPlanted.Error()},
		"panics later": {kernels{ratio: 0.1, sample: func(int) (float64, error) { panic(errPlanted) }}, long + ": panic: " + errPlanted.Error()},
		"close":        {kernels{ratio: 0.1, close: func() error { return errPlanted }}, long + ": " + errPlanted.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(map[string]kernels{"wrong": c.wrong, "fast": {ratio: 0.8}})
			out := runs(t, f, Pack{Variants: []Variant{of("wrong", "."), of("fast", ".")}})
			require.Equal(t, []string{"fast"}, out.Chosen)
			require.Equal(t, c.why, out.result(t, "wrong").Dropped)
			require.Len(t, out.result(t, "fast").Shapes, 3)
			_, err := json.Marshal(out)
			require.NoError(t, err, "JSON has numbers for all")
		})
	}
}

// A device that is broken for good lets nobody's other results be lost.
func TestErrorsOfTheBaselineAreNoFaultOfVariants(t *testing.T) {
	broken := false
	fails := func() error {
		if broken {
			return errors.New("illegal address")
		}
		return nil
	}
	f := newFake(map[string]kernels{
		"":     {prepare: func(string) error { return fails() }, close: fails},
		"good": {ratio: 0.9},
		"breaks": {close: fails, sample: func(int) (float64, error) {
			broken = true
			return 0, fails()
		}},
		"after": {},
	})
	out := runs(t, f, Pack{Variants: []Variant{of("good", long), of("breaks", short), of("after", short)}})
	require.Equal(t, []string{"good"}, out.Chosen)
	require.Equal(t, short+": illegal address", out.result(t, "breaks").Dropped)
	after := out.result(t, "after")
	require.Equal(t, "not measured: see its shapes", after.Dropped)
	require.Equal(t, "baseline: illegal address", after.Shapes[0].Stopped)
}

func TestShapesThatAreNotThere(t *testing.T) {
	nothing := func(shape string) error {
		if shape == short {
			return errors.Join(errors.New("no context is split"), ErrNothing)
		}
		return nil
	}
	f := newFake(map[string]kernels{"fast": {ratio: 0.8, prepare: nothing}})
	v := of("fast", "^prefill")
	v.PredictUS = map[string][2]float64{"prefill/f64": {1, 2}, short: {30, 40}}
	out := runs(t, f, Pack{Variants: []Variant{v, of("none", "^mass")}})
	require.Equal(t, []string{"fast"}, out.Chosen)
	shapes := out.result(t, "fast").Shapes
	require.Len(t, shapes, 3)
	require.Contains(t, shapes[1].Stopped, "skipped: no context is split")
	require.Equal(t, ShapeResult{Name: "prefill/f64", Prediction: &Prediction{Least: 1, Most: 2}, Stopped: "not measured: there is no such benchmark"}, shapes[2])
	require.Equal(t, "no benchmark matches ^mass", out.result(t, "none").Dropped)
}

// What does not fit in the budget is at the end of the list, and said.
func TestBudgetEnds(t *testing.T) {
	f := newFake(map[string]kernels{"first": {ratio: 0.8}, "second": {ratio: 0.8, noise: 0.3}, "third": {ratio: 0.8}})
	first, second := of("first", long), of("second", "^decode|^prefill.*=512$")
	// The suite takes 3 seconds, seven rounds 0.28.
	out := runs(t, f, Pack{BudgetSeconds: 3.5, Variants: []Variant{first, second, of("third", ".")}})
	require.Equal(t, leastRounds, out.result(t, "first").Shapes[0].Runs)
	shapes := out.result(t, "second").Shapes
	require.Equal(t, "no time left", shapes[0].Stopped)
	require.Less(t, shapes[0].Runs, leastRounds)
	require.Positive(t, shapes[0].Runs)
	require.Equal(t, "not measured: no time left", shapes[1].Stopped)
	require.Regexp(t, "^wins no shape: .* after 6 rounds", out.result(t, "second").Dropped, "few rounds win nothing")
	require.Equal(t, "not measured: no time left", out.result(t, "third").Dropped)
	require.Equal(t, "passed", out.result(t, "third").Conform)
	require.Equal(t, []string{"first"}, out.Chosen)

	f.now = begun
	out = runs(t, f, Pack{BudgetSeconds: 2, Variants: []Variant{first, second, of("third", ".")}})
	require.Equal(t, "not run: no time left", out.result(t, "third").Conform)
	require.Equal(t, "not measured: no time left", out.result(t, "third").Dropped)
	require.Empty(t, out.Chosen)
}

// What one variant leaves of its share is there for the next ones.
func TestTimeIsShared(t *testing.T) {
	f := newFake(map[string]kernels{"": {noise: 0.1}, "a": {ratio: 0.8, noise: 0.1}, "b": {ratio: 2}, "c": {ratio: 0.8, noise: 0.1}})
	out := runs(t, f, Pack{BudgetSeconds: 5.4, Variants: []Variant{of("a", "^prefill"), of("b", short), of("c", steps)}})
	for _, s := range out.result(t, "a").Shapes {
		require.InDelta(t, 10, s.Runs, 1, "half of a third of 2.4 seconds, of 0.04 each")
		require.Equal(t, "its share of the time is used", s.Stopped)
	}
	require.Equal(t, loserRounds, out.result(t, "b").Shapes[0].Runs)
	require.InDelta(t, 40-loserRounds, out.result(t, "c").Shapes[0].Runs, 1)
	require.WithinDuration(t, begun.Add(5400*time.Millisecond), f.now, 50*time.Millisecond)
}

func TestContextEndsTheRun(t *testing.T) {
	f := newFake(map[string]kernels{"": {noise: 0.3}})
	ctx, cancel := context.WithCancelCause(context.Background())
	f.before = func(string) {
		if f.taken == 30 {
			cancel(errors.New("the machine goes"))
		}
	}
	out, err := Run(ctx, f, Pack{BudgetSeconds: 60, Variants: []Variant{of("a", long), of("b", long)}}, Results{}, func(Results) error { return nil }, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 8, out.result(t, "a").Shapes[0].Runs, "the round is ended")
	require.Equal(t, "the machine goes", out.result(t, "a").Shapes[0].Stopped)
	require.Equal(t, "not measured: the machine goes", out.result(t, "b").Dropped)
	require.Zero(t, f.open)
}

// Wherever the process is killed, what was saved before says what was on its way, and has all that was measured.
func TestWhatIsSavedBeforeAnEnd(t *testing.T) {
	var saved Results
	at := map[string]Results{}
	f := newFake(map[string]kernels{"a": {ratio: 0.8}})
	f.before = func(call string) {
		if _, ok := at[call]; !ok {
			at[call] = saved
		}
	}
	save := func(r Results) error { saved = r; return nil }
	out, err := Run(context.Background(), f, Pack{BudgetSeconds: 60, Variants: []Variant{of("a", long), of("b", steps)}}, Results{}, save, io.Discard)
	require.NoError(t, err)
	require.Equal(t, out, saved)

	suite := at["conform b"]
	require.Equal(t, "passed", suite.Variants[0].Conform)
	require.Equal(t, "not measured: the process ended before", suite.Variants[0].Dropped)
	require.Equal(t, "hung or crashed", suite.Variants[1].Conform)
	require.Equal(t, "conform hung or crashed", suite.Variants[1].Dropped)
	require.Equal(t, long+": hung or crashed", at["sample a"].Variants[0].Dropped)
	second := at["sample b"]
	require.Equal(t, []string{"a"}, second.Chosen)
	require.Equal(t, out.Variants[0], second.Variants[0])
	require.Equal(t, steps+": hung or crashed", second.Variants[1].Dropped)
	require.True(t, slices.IsSortedFunc([]time.Time{at["describe"].Ended, suite.Ended, second.Ended, out.Ended}, time.Time.Compare))
}

// A full disk ends no measurement, and is no secret.
func TestSaveFails(t *testing.T) {
	full := errors.New("no space left on device")
	var said bytes.Buffer
	f := newFake(map[string]kernels{"a": {ratio: 0.8}})
	out, err := Run(context.Background(), f, Pack{BudgetSeconds: 60, Variants: []Variant{of("a", long)}}, Results{}, func(Results) error { return full }, &said)
	require.ErrorIs(t, err, full)
	require.Equal(t, []string{"a"}, out.Chosen)
	require.Contains(t, said.String(), "results are not saved: no space left on device\n")
	require.Contains(t, said.String(), "a: conform: passed\n")
	require.Contains(t, said.String(), "a: "+long+": 1200 µs, 0.800 of the baseline's time (0.800 to 0.800) in 7 rounds: settled\n")
}

func TestDescribePanics(t *testing.T) {
	f := newFake(map[string]kernels{"a": {ratio: 0.8}})
	f.before = func(call string) {
		if call == "describe" {
			panic("no driver")
		}
	}
	out := runs(t, f, Pack{Variants: []Variant{of("a", long)}})
	require.Equal(t, map[string]string{"error": "panic: no driver"}, out.About)
	require.Equal(t, []string{"a"}, out.Chosen)
}
