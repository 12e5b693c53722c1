// Package gpubench measures the kernels of a GPU and compares them with what the device
// can do at most. The list is the same for all GPUs; a backend's benchmark is one call of
// Run with its open device. Package benchpage makes a document of what it prints.
package gpubench

import (
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// Device is an open device, and what differs from one kind to another.
type Device[B launch.Buffer] struct {
	Backend backend.Backend[B]
	Stream  Stream
	Clock   Clock
	// About is what else figures depend on: lines of a name and a value.
	About [][2]string
	// State is clocks, power and temperature at this moment; nil where nothing tells.
	State func() string
	// Emulated devices only show that the programs run: shapes shrink, and no rate is
	// compared with another.
	Emulated bool
	// Resident is how many blocks of a kernel the device runs at once.
	Resident func(launch.Kernel) (int, error)
	// Matrix is the types that fkv_probe_mma multiplies, F16 first, and ProductFlops the
	// floating point operations of one of its products.
	Matrix       []backend.DType
	ProductFlops float64
}

// Stream is the device's own, on which probes are launched as an operation's kernels are.
type Stream interface {
	backend.Stream
	Calls() *launch.Calls
	Run() error
}

// Clock is how time is taken.
type Clock struct {
	// Time is how long the device takes for what enqueue puts on the stream. It may call
	// enqueue more than once, and tells of the last time.
	Time func(enqueue func() error) (time.Duration, error)
	// As many calls of an operation are timed at once as take at least Least, but never
	// more than Most.
	Least time.Duration
	Most  int
}

// Run measures everything on d, or what the pattern of the benchmarks chooses. Each
// benchmark reports the median and the quartiles of the time of a call on the device, the
// rate, and the rate as a fraction of the most that was measured in this run: of a copy
// where a kernel reads and writes, of reading alone where that is what attention waits
// for, of matrix products where they are.
func Run[B launch.Buffer](b *testing.B, d Device[B]) {
	r := &rig[B]{Device: d, b: b, random: map[backend.DType][]byte{}}
	r.measureLimits()
	r.describe()
	r.limits.report(b)
	for _, c := range r.list() {
		b.Run(c.name, func(b *testing.B) { r.measure(b, c) })
	}
	r.state("at the end")
}
