package pack

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// When the rounds of a shape end before its time does.
const (
	leastRounds = 7    // however little time a shape has, but for the end of the budget; with fewer it is not won
	settledIn   = 0.01 // of the median: so near are the quartiles of a ratio that is known well enough
	mostRounds  = 40   // the quartiles of more are not known better
	loserRounds = 5    // after which a median ratio above loserRatio ends it
	loserRatio  = 1.05
)

// side is the baseline or a variant in a comparison.
type side struct {
	variant string // "": the baseline
	trial   Trial
	check   *Check
	seconds []float64 // of a call, in the order of the samples
}

// baselineError is one that is no fault of the variant.
type baselineError struct{ error }

func (e baselineError) Error() string { return "baseline: " + e.error.Error() }
func (e baselineError) Unwrap() error { return e.error }

// comparison is a shape with both sides.
type comparison struct {
	run               *run
	baseline, variant side
	ratios            []float64 // of rounds
}

// compare measures a variant in a shape until a time, or for leastRounds where that is longer, and takes it down. The error is
// the variant's fault. What else ends it is in out.Stopped.
func (r *run) compare(v Variant, out *ShapeResult, until time.Time) error {
	c := &comparison{run: r, variant: side{variant: v.Name}}
	err := c.open(out.Name)
	if err == nil {
		err = c.check()
	}
	if err == nil {
		out.Stopped, err = c.rounds(until)
	}
	// Where a variant breaks the device the baseline cannot close either: the first error tells whose fault it is.
	for _, s := range []*side{&c.variant, &c.baseline} {
		if closed := c.close(s); err == nil {
			err = closed
		}
	}
	c.report(out)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNothing):
		out.Stopped = "skipped: " + err.Error()
		return nil
	}
	out.Stopped = err.Error()
	if errors.As(err, new(baselineError)) {
		return nil
	}
	return err
}

// on calls the lab for a side. An error of the baseline is marked as such.
func (c *comparison) on(s *side, call func() error) error {
	err := c.run.guard(call)
	c.run.alive()
	if err != nil && s.variant == "" {
		return baselineError{err}
	}
	return err
}

// open prepares both sides.
func (c *comparison) open(shape string) error {
	for _, s := range []*side{&c.baseline, &c.variant} {
		err := c.on(s, func() (err error) {
			s.trial, err = c.run.lab.Prepare(s.variant, shape)
			return err
		})
		if err != nil {
			s.trial = nil
			return err
		}
	}
	return nil
}

// check compares what both sides write with the reference, and with each other.
func (c *comparison) check() error {
	for _, s := range []*side{&c.baseline, &c.variant} {
		err := c.on(s, func() error {
			found, err := s.trial.Check()
			s.check = found.finite()
			if err == nil {
				err = found.wrong()
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return c.variant.check.beside(*c.baseline.check)
}

// close frees a side, if it is there.
func (c *comparison) close(s *side) error {
	if s.trial == nil {
		return nil
	}
	return c.on(s, s.trial.Close)
}

// rounds measures until enough is known, and says why that is.
func (c *comparison) rounds(until time.Time) (stopped string, err error) {
	for {
		if why := c.run.over(); why != "" {
			if len(c.ratios) == 0 {
				why = notMeasured + why
			}
			return why, nil
		}
		if err := c.round(); err != nil {
			return "", err
		}
		ratio, n := spread(c.ratios), len(c.ratios)
		switch {
		case n >= loserRounds && ratio.Median > loserRatio && ratio.Q1 > 1:
			return "slower", nil
		case n >= leastRounds && max(ratio.Q3-ratio.Median, ratio.Median-ratio.Q1) <= settledIn*ratio.Median:
			return "settled", nil
		case n == mostRounds:
			return "not settled", nil
		case n >= leastRounds && !c.run.lab.Now().Before(until):
			return "its share of the time is used", nil
		}
	}
}

// round takes a sample of the baseline, two of the variant, and another of the baseline: what changes evenly meanwhile,
// as clocks do while a device becomes warm, changes both sums alike.
func (c *comparison) round() error {
	var baseline, variant float64
	for _, turn := range []struct {
		of  *side
		sum *float64
	}{{&c.baseline, &baseline}, {&c.variant, &variant}, {&c.variant, &variant}, {&c.baseline, &baseline}} {
		err := c.on(turn.of, func() error { return turn.of.sample(turn.sum) })
		if err != nil {
			return err
		}
	}
	c.ratios = append(c.ratios, variant/baseline)
	return nil
}

// sample takes one sample, and adds it to a sum.
func (s *side) sample(sum *float64) error {
	took, err := s.trial.Sample()
	if err != nil {
		return err
	}
	if !(took > 1e-12 && took < 1e6) { // NaN is neither
		return fmt.Errorf("invalid sample: %g s", took)
	}
	s.seconds = append(s.seconds, took)
	*sum += took
	return nil
}

// report takes down what was measured.
func (c *comparison) report(out *ShapeResult) {
	out.Runs = len(c.ratios)
	out.Check, out.BaselineCheck = c.variant.check, c.baseline.check
	if out.Runs == 0 {
		return
	}
	out.BaselineUS, out.VariantUS = spread(c.baseline.seconds).times(1e6), spread(c.variant.seconds).times(1e6)
	out.Ratio = spread(c.ratios)
	out.Prediction.hold(out.VariantUS.Median)
}

// spread is the quartiles of values, of which there is one at least. Between two values it is on the line between them.
func spread(values []float64) Spread {
	sorted := slices.Sorted(slices.Values(values))
	at := func(part float64) float64 {
		place := part * float64(len(sorted)-1)
		below, rest := math.Modf(place)
		i := int(below)
		if rest == 0 {
			return sorted[i]
		}
		return sorted[i] + rest*(sorted[i+1]-sorted[i])
	}
	return Spread{Median: at(0.5), Q1: at(0.25), Q3: at(0.75)}
}
