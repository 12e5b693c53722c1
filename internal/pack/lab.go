package pack

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"time"
)

// ErrNothing says that a shape has nothing to measure on this device, which is nobody's fault: the shape is skipped.
var ErrNothing = errors.New("nothing to measure")

// ErrLost says that the device cannot be used any more in this process, as after an illegal address.
var ErrLost = errors.New("the device is lost")

// Lab is a device with the baseline and the variants. Run calls it from one goroutine; a method that panics has failed.
type Lab interface {
	// Describe says what the device is and in which state: its name, driver, clocks, limits.
	Describe() map[string]string
	// Conform runs the checks of the conformance suite whose names, room/name, v.Conform matches, with v's kernels. The error
	// names the first that fails. It is an error that none matches. goOn is called before each check: false ends it early.
	Conform(v Variant, goOn func() bool) error
	// Shapes are the names of the benchmarks that a pattern matches, in the order in which they are to be measured.
	Shapes(pattern *regexp.Regexp) []string
	// Prepare makes a shape ready with the kernels of a variant, or with the baseline's where variant is "". Two trials of
	// a shape are there at once. The error wraps ErrNothing where there is nothing to measure.
	Prepare(variant, shape string) (Trial, error)
	// Now is the time that the budget is counted in.
	Now() time.Time
}

// Trial is a shape, ready to be measured.
type Trial interface {
	// Check runs the shape once and compares all that it writes with a reference. It is called once, before the first Sample. The
	// error says that this was not possible, or that the output is outside the lab's own tolerance.
	Check() (Check, error)
	// Sample is the mean seconds of a call, of as many calls as a good measurement needs: milliseconds of them.
	Sample() (seconds float64, err error)
	// Close frees what the trial has.
	Close() error
}

// Check is an output beside its reference.
type Check struct {
	Largest   float64 `json:"largest"`   // error of a place, as a part of the reference; -1: it is no finite number
	NaN       int     `json:"nan"`       // places
	Unwritten int     `json:"unwritten"` // places that have what was in memory before
}

// Errors of outputs that are sums in another order differ by less than worse times. Errors below fine are those of a number of
// 8 bits that is rounded another way, whatever the baseline's are.
const (
	worse = 4.
	fine  = 1. / 64
)

// wrong says what no output may have.
func (c Check) wrong() error {
	switch {
	case c.NaN > 0:
		return fmt.Errorf("%d places of the output are NaN", c.NaN)
	case c.Unwritten > 0:
		return fmt.Errorf("%d places of the output are not written", c.Unwritten)
	case !(c.Largest >= 0 && c.Largest <= math.MaxFloat64):
		return fmt.Errorf("the largest error of the output is %g", c.Largest)
	}
	return nil
}

// beside says what is wrong with a variant's output where the baseline's is right.
func (c Check) beside(baseline Check) error {
	if limit := max(fine, worse*baseline.Largest); c.Largest > limit {
		return fmt.Errorf("the largest error of the output is %.3g, and may be %.3g beside the baseline's %.3g", c.Largest, limit, baseline.Largest)
	}
	return nil
}

// finite is a check that JSON has numbers for.
func (c Check) finite() *Check {
	if math.IsNaN(c.Largest) || math.IsInf(c.Largest, 0) {
		c.Largest = -1
	}
	return &c
}
