package bench

import (
	"errors"
	"math"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Clock is how long a device takes for what enqueue puts on a stream. It may call enqueue more
// than once, and tells of the last time.
type Clock func(enqueue func() error) (time.Duration, error)

// HostClock is the time that the host waits, from the first call to the end of the last.
func HostClock(s backend.Stream) Clock {
	return func(enqueue func() error) (time.Duration, error) {
		if err := s.Sync(); err != nil {
			return 0, err
		}
		start := time.Now()
		err := errors.Join(enqueue(), s.Sync())
		return time.Since(start), err
	}
}

// operation is calls of a kernel, which differ in the memory that they use.
type operation struct {
	// aim, where it is set, gives the next n calls their memory: those of turns 0 to n−1.
	aim  func(n int) error
	call func(turn int) error
	turn int // of the last call, where nothing aims
}

// each is an operation whose calls are all the same.
func each(run func() error) *operation { return &operation{call: func(int) error { return run() }} }

// mean is the seconds of a call: the mean of n that follow each other.
func (c Clock) mean(op *operation, n int) (float64, error) {
	if op.aim != nil {
		if err := op.aim(n); err != nil {
			return 0, err
		}
	}
	took, err := c(func() error {
		for i := range n {
			turn := i
			if op.aim == nil {
				op.turn++
				turn = op.turn
			}
			if err := op.call(turn); err != nil {
				return err
			}
		}
		return nil
	})
	return took.Seconds() / float64(n), err
}

// calls is how many calls of op take at least least together, but never more than most. A first
// one is not counted: kernels are loaded, or compiled, then.
func (c Clock) calls(op *operation, least time.Duration, most int) (int, error) {
	if _, err := c.mean(op, 1); err != nil || least <= 0 {
		return 1, err
	}
	for n := 1; n < most; n *= 2 {
		took, err := c.mean(op, n)
		if err != nil {
			return 0, err
		}
		if took*float64(n) >= least.Seconds()/2 {
			return min(int(math.Ceil(least.Seconds()/took)), most), nil
		}
	}
	return most, nil
}

// rate is the amounts a second of a probe.
func (c Clock) rate(p probe) (float64, error) {
	took, err := c(p.run)
	return p.amount / took.Seconds(), err
}
