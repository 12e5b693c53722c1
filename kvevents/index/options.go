package index

import (
	"fmt"
	"math"
)

// Options are the settings of an Index. The zero value selects the defaults.
type Options struct {
	// BlockSize is the number of tokens in a block of the index; 0: 16. Each engine's block size must be a multiple of it; SGLang's default is 1.
	BlockSize int
	// Blocks is how many blocks of BlockSize tokens an owner may have; 0: 1<<20. Blocks beyond that are skipped until others are removed.
	Blocks int
	// Owners is how many owners there may be; 0: 1024.
	Owners int
	// Weights is how much a block on a medium adds to Match.Score, by the name of the medium in any case: numbers from 0, for up to 128 media. A medium that is
	// not listed adds 1. nil: gpu 1, cpu 0.8, as in llm-d. New copies the map.
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

// ErrFull is an event for which there is no room, or only for its first blocks. The index does not know of the others.
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

// ErrBlockSize is an event whose block size is not a multiple of the index's. It was skipped.
type ErrBlockSize struct{ Engine, Index int }

func (e ErrBlockSize) Error() string {
	return fmt.Sprintf("kvevents/index: an engine's block of %d tokens is not a multiple of the index's %d; choose Options.BlockSize so that it divides those of all engines", e.Engine, e.Index)
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
