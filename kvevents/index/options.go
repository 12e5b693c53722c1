package index

import (
	"fmt"
	"math"
)

// Options are the limits of an Index. The zero value has the defaults.
type Options struct {
	// BlockSize is the number of tokens of a block of the index; 0: 16. That of each engine must be a multiple of it.
	BlockSize int
	// Blocks is how many blocks of BlockSize tokens an owner may have; 0: 1<<20. Blocks beyond that are skipped until others are removed.
	Blocks int
	// Owners is how many owners there may be; 0: 1024.
	Owners int
	// Weights is what a block on a medium counts in Match.Score, by the medium's name, in which case does not matter; 0 or more, and up to 128 of them.
	// A medium that is not listed counts 1. nil: gpu 1, cpu 0.8, as in llm-d.
	Weights map[string]float64
}

// ErrConfig is an option that makes no sense.
type ErrConfig struct{ Option, What string }

func (e ErrConfig) Error() string { return "kvevents/index: " + e.Option + ": " + e.What }

// Is reports whether target is an ErrConfig.
func (e ErrConfig) Is(target error) bool {
	t, ok := target.(ErrConfig)
	return ok && (t == e || t == ErrConfig{})
}

// ErrFull is an event that there is no room for. What it says is not known to the index.
type ErrFull struct {
	Owner string
	What  string // "blocks" or "owners"
	Most  int
}

func (e ErrFull) Error() string {
	return fmt.Sprintf("kvevents/index: no room for %s: there are %d %s; raise Options, or Forget an owner that is gone", e.Owner, e.Most, e.What)
}

// Is reports whether target is an ErrFull.
func (e ErrFull) Is(target error) bool {
	t, ok := target.(ErrFull)
	return ok && (t == e || t == ErrFull{})
}

// ErrBlockSize is an event of blocks that are no multiple of the index's. It was skipped.
type ErrBlockSize struct{ Engine, Index int }

func (e ErrBlockSize) Error() string {
	return fmt.Sprintf("kvevents/index: an engine's block of %d tokens is no multiple of the index's %d; choose Options.BlockSize so that it divides those of all engines", e.Engine, e.Index)
}

// Is reports whether target is an ErrBlockSize.
func (e ErrBlockSize) Is(target error) bool {
	t, ok := target.(ErrBlockSize)
	return ok && (t == e || t == ErrBlockSize{})
}

func (o Options) filled() (Options, error) {
	for _, x := range []struct {
		name string
		n    *int
		use  int
	}{{"BlockSize", &o.BlockSize, 16}, {"Blocks", &o.Blocks, 1 << 20}, {"Owners", &o.Owners, 1024}} {
		if *x.n < 0 {
			return o, ErrConfig{x.name, fmt.Sprintf("%d is negative", *x.n)}
		}
		if *x.n == 0 {
			*x.n = x.use
		}
	}
	if len(o.Weights) > mostMedia/2 {
		return o, ErrConfig{"Weights", fmt.Sprintf("there are %d; there may be %d", len(o.Weights), mostMedia/2)}
	}
	for name, w := range o.Weights {
		if !(w >= 0 && w <= math.MaxFloat64) {
			return o, ErrConfig{"Weights", fmt.Sprintf("%s: %v is not a number from 0", name, w)}
		}
	}
	if o.Weights == nil {
		o.Weights = map[string]float64{"gpu": 1, "cpu": 0.8}
	}
	return o, nil
}
