package bench

import (
	"errors"
	"slices"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Device is an open device, and what differs from one kind of GPU to another.
type Device[B backend.Buffer] struct {
	Backend backend.Backend[B]
	Stream  backend.Stream
	Clock   Clock
	// As many calls of an operation are timed at once as take at least Least, but never more
	// than Most.
	Least time.Duration
	Most  int
	// About is what else figures depend on: lines of a name and a value.
	About [][2]string
	// State is clocks, power and temperature at this moment; nil where nothing tells.
	State func() string
	// Emulated devices only show that the programs run: shapes shrink, and no rate is
	// compared with another.
	Emulated bool
	// Read enqueues a kernel that does nothing but read all of memory; it may write to the
	// single f32 at out.
	Read func(memory, out B) error
	// Matrix is the types of which the device multiplies matrices, F16 first.
	Matrix []backend.DType
	// Multiply makes what enqueues a kernel that does nothing else, in so many rounds, and says
	// how many floating point operations it has; it may write to the single f32 at out.
	Multiply func(dt backend.DType, out B, rounds int) (enqueue func() error, flops float64, err error)
	// Probes makes more limits of a device that has more ways to read, or to multiply: the greatest counts. nil: there are none.
	Probes func(memory, out B) ([]Probe, error)
	// Host enqueues one copy of all of memory to as much pinned memory of the host, or back; nil where the device has the
	// host's memory.
	Host func(memory B, host backend.HostMemory, toHost bool) error
	// Merges makes what enqueues, for each launch of an attention, the one that combines the
	// parts of its contexts, and says how many these are: 0 where no context is split.
	Merges func(p backend.AttendParams[B]) (enqueue func() error, launches int, err error)
}

// Probe is something that a device does as fast as it can: it reads Bytes, or has Flops operations of matrix products of Type.
type Probe struct {
	Name         string
	Type         backend.DType
	Bytes, Flops float64
	Enqueue      func() error
}

// GPU is a device whose kernels are measured, each against the most that was measured in this
// run: a copy where a kernel reads and writes, reading alone where that is what attention waits
// for, matrix products where they are. It is not safe for concurrent use.
type GPU[B backend.Buffer] struct {
	Device[B]
	limits limits
	states [][2]string // of the device, by when
}

// NewGPU measures the limits of a device, which stays the caller's. It takes about 6 seconds.
func NewGPU[B backend.Buffer](d Device[B]) (*GPU[B], error) {
	g := &GPU[B]{Device: d}
	return g, g.measureLimits()
}

// Trials are the limits, which were measured, and everything that is to be measured.
func (g *GPU[B]) Trials() (limits, trials []*GPUTrial[B]) {
	for _, l := range slices.Concat([]limit{g.limits.copy}, g.limits.read, g.limits.matrix, g.limits.host) {
		limits = append(limits, &GPUTrial[B]{Name: "limit/" + l.name, gpu: g, work: l.does, isLimit: true, times: l.times})
	}
	return limits, g.list()
}

// size is a size of a shape.
func (g *GPU[B]) size(device, emulated int) int {
	if g.Emulated {
		return emulated
	}
	return device
}

// turns is how many pieces of memory, of so many bytes each, exceed what a device caches: a
// call that takes the next finds nothing of an earlier one there. It is 5 times the L2 of an
// H100: a cache that evicts at random keeps a hundredth of what was used so long ago.
func (g *GPU[B]) turns(bytes int) int {
	const exceeds = 256 << 20
	return g.size((exceeds+bytes-1)/bytes, 1)
}

// memory is none yet.
func (g *GPU[B]) memory() *memory[B] { return &memory[B]{be: g.Backend, stream: g.Stream} }

// ErrNothing says that there is nothing to measure: no context of a step is split.
var ErrNothing = errors.New("bench: no context is split")

// GPUTrial is a benchmark: Prepare makes its memory, Sample takes its time as often as the caller
// likes, Metrics says what was found, and Close frees the memory.
type GPUTrial[B backend.Buffer] struct {
	Name    string // with its parts, as go test has them
	gpu     *GPU[B]
	work    work
	act     backend.DType // of matrix products
	isLimit bool
	set     func(m *memory[B], from source[B]) (*operation, error)

	mem   *memory[B]
	op    *operation
	out   B // rows of attention; the zero B of what is none
	calls int
	times []float64 // seconds of a call
}

// Prepare makes the memory, and finds out how many calls take long enough. The error is
// backend.ErrOutOfMemory where a small device has no room for it, and ErrNothing where nothing
// is to be measured. In any case Close is called at the end.
func (t *GPUTrial[B]) Prepare() (err error) {
	t.mem = t.gpu.memory()
	if t.op, err = t.set(t.mem, ring[B]{t.mem, t.gpu.turns}); err != nil {
		return err
	}
	t.calls, err = t.gpu.calls(t.op)
	return err
}

// Close frees the memory.
func (t *GPUTrial[B]) Close() error { return t.mem.close() }

// Sample takes the time of a call.
func (t *GPUTrial[B]) Sample() error {
	seconds, err := t.gpu.Clock.mean(t.op, t.calls)
	t.times = append(t.times, seconds/float64(max(t.work.times, 1)))
	return err
}

// calls is how many calls of op are timed at once.
func (g *GPU[B]) calls(op *operation) (int, error) {
	return g.Clock.calls(op, g.Least, g.size(g.Most, 1))
}

// Metrics is the time that a call took the device, the rate and, where rates are compared,
// the fraction of the limit, by unit. There is a sample at least.
func (t *GPUTrial[B]) Metrics() map[string]float64 {
	slices.Sort(t.times)
	seconds := quantile(t.times, 0.5)
	out := map[string]float64{"ns/op": seconds * 1e9, "q1-ns": quantile(t.times, 0.25) * 1e9, "q3-ns": quantile(t.times, 0.75) * 1e9,
		"runs": float64(len(t.times))}
	if t.work.bound == multiplying {
		out["TFLOP/s"] = t.work.flops / seconds / 1e12
	} else {
		out["GB/s"] = t.work.bytes / seconds / 1e9
	}
	if t.work.bytes > 0 {
		out["MB"] = t.work.bytes / 1e6
		if t.work.flops > 0 {
			out["flop/B"] = t.work.flops / t.work.bytes
		}
	}
	if limit := t.gpu.limits.rate(t.work.bound, t.act); limit > 0 && !t.isLimit && !t.gpu.Emulated {
		out["of-limit"] = t.work.amount() / seconds / limit
	}
	return out
}
