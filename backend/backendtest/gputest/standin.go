package gputest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Standin is a stand-in for a GPU's driver (kernels/simt), as far as tests need it: what
// it can be made to do, and counts of what it has done.
type Standin struct {
	Failures []Failure
	FailCall func(n int) // the n-th call from now on, of any kind, fails once; 0: none
	Injected func() uint64
	Live     func() uint64 // objects that somebody has yet to give back
	Launched func() uint64 // kernels
	Found    func() uint64 // kernels that were asked for by name
	Waited   func() uint64 // times that the host waited for a stream

	Lose    func(device int)              // its work fails from now on
	Restore func(device int)              // after all that was on it was closed
	Loss    func(err error) bool          // whether an error has what the driver said of a loss
	LossIs  string                        // and these words
	Check   func(t testing.TB, err error) // for what a failure left, which came as err
}

// Failure is a kind of failure that the n-th of some calls can meet.
type Failure struct {
	Name     string
	Next     func(n int)          // the n-th from now on fails once; 0: none
	Accepted func(err error) bool // whether that may come of it
}

// standin returns the stand-in of the device, whose failures end with the test, or skips.
func (d *Device[B]) standin(t testing.TB) *Standin {
	require.NoError(t, d.openNow(t).Close())
	c := d.Standin
	if c == nil {
		t.Skip("failures are made by the stand-in of kernels/simt, which this device is not")
	}
	t.Cleanup(func() {
		c.FailCall(0)
		for _, f := range c.Failures {
			f.Next(0)
		}
	})
	return c
}
