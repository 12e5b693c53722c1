package bench

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Shape is the cache that Cache measures a kernel on.
type Shape struct {
	Act, Stored              backend.DType // of activations, and of keys and values
	QHeads, KVHeads, HeadDim int
	Batch, Context           int // sequences, and tokens of each
	BlockSize                int // tokens of a block; 0: those of a whole context
}

// step is attention of the last queries tokens of every sequence.
func (s Shape) step(queries int) step {
	return step{act: s.Act, stored: s.Stored, heads: heads{s.QHeads, s.KVHeads, s.HeadDim, 0}, block: s.BlockSize,
		batch: s.Batch, context: s.Context, queries: queries}
}

// Cache measures kernels on one layer of a cache, on any device, against the bandwidth of its
// memory, which is measured in turn with them. It is not safe for concurrent use.
type Cache struct {
	be        backend.Backend[backend.AnyBuffer]
	stream    backend.Stream
	clock     Clock
	footprint int64
	mem       memory[backend.AnyBuffer] // of the limits
	limits    prober
}

// NewCache prepares a device, which stays the caller's as the stream does. Calls go through
// footprint bytes before they use any of it again, or through a quarter of the device's free
// memory. The caller closes it.
func NewCache(be backend.Backend[backend.AnyBuffer], stream backend.Stream, footprint int64) (*Cache, error) {
	if free := be.Info().FreeMemory; free > 0 {
		footprint = min(footprint, free/4)
	}
	c := &Cache{be: be, stream: stream, clock: HostClock(stream), footprint: footprint, mem: memory[backend.AnyBuffer]{be: be, stream: stream}}
	if err := c.prepare(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// prepare makes the probes: of the processor's instructions where that is the device, and else
// of copies, which are the limit of reading, too.
func (c *Cache) prepare() error {
	// The system gives a process memory at the first write only.
	big := c.mem.constant(backend.I64, int(c.footprint/8), 1)
	if err := errors.Join(c.mem.err, c.stream.Sync()); err != nil {
		return err
	}
	c.limits = deviceProbes[backend.AnyBuffer]{be: c.be, stream: c.stream, big: big}
	access, ok := backend.HostAccessOf(c.be)
	info := c.be.Info()
	if name, _, _ := strings.Cut(info.Name, ":"); !ok || name != "cpu" {
		return nil
	}
	bytes, err := access.HostBytes(big)
	if err != nil {
		return err
	}
	all := &arena{mem: bytes[:len(bytes)/page*page]}
	host := hostProbes{instructions: instructionsOf(info.Kernels), threads: info.ComputeUnits, from: all, to: all, bytes: len(all.mem), ahead: new([multiplying]int)}
	c.limits = host
	return host.tune(c.clock, 6)
}

// Close frees the memory of the limits.
func (c *Cache) Close() error { return c.mem.close() }

// Result is what was measured. Times and rates are medians.
type Result struct {
	Seconds float64 // of a call
	Limit   float64 // bytes a second of the device's memory
}

// Attend measures attention of the last queries tokens of every sequence, against reading.
func (c *Cache) Attend(ctx context.Context, s Shape, queries int, budget time.Duration) (Result, error) {
	return c.measure(ctx, budget, reading, func(m *memory[backend.AnyBuffer], from ring[backend.AnyBuffer]) (*operation, error) {
		return attention(m, from, s.step(queries))
	})
}

// Append measures writing the whole context of every sequence, against copying.
func (c *Cache) Append(ctx context.Context, s Shape, budget time.Duration) (Result, error) {
	return c.measure(ctx, budget, copying, func(m *memory[backend.AnyBuffer], from ring[backend.AnyBuffer]) (*operation, error) {
		of := s.step(1)
		return appendsAt[backend.AnyBuffer](s.Act, of.layer(), of.places()).operation(m, from)
	})
}

// measure makes an operation, and measures it for about budget.
func (c *Cache) measure(ctx context.Context, budget time.Duration, k bound, set func(*memory[backend.AnyBuffer], ring[backend.AnyBuffer]) (*operation, error)) (out Result, err error) {
	mem := memory[backend.AnyBuffer]{be: c.be, stream: c.stream}
	defer func() { err = errors.Join(err, mem.close()) }()
	op, err := set(&mem, ring[backend.AnyBuffer]{&mem, c.pieces})
	if err != nil {
		return out, err
	}
	m := measurement{clock: c.clock, op: op}
	m.limit, m.limited = c.limits.probe(k)
	return m.medians(ctx, budget)
}

// pieces is how many pieces of memory, of so many bytes each, are the footprint, as far as half of
// the free memory goes.
func (c *Cache) pieces(bytes int) int {
	const most = 1024 // buffers that a small shape is spread over
	n := min((c.footprint-1)/int64(bytes)+1, most)
	if free := c.be.Info().FreeMemory; free > 0 {
		n = min(n, free/2/int64(bytes))
	}
	return int(max(n, 1))
}

// minRounds is the least number of samples, however long a call takes.
const minRounds = 3

// medians takes samples until about budget is spent.
func (m *measurement) medians(ctx context.Context, budget time.Duration) (Result, error) {
	call := m.op.call
	m.op.call = func(turn int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return call(turn)
	}
	var err error
	if m.calls, err = m.clock.calls(m.op, budget/10, 1e6); err != nil {
		return Result{}, err
	}
	var times, limits []float64
	for start := time.Now(); len(times) < minRounds || time.Since(start) < budget; {
		s, err := m.sample()
		if err != nil {
			return Result{}, err
		}
		times, limits = append(times, s.seconds), append(limits, s.limit)
	}
	return Result{median(times), median(limits)}, nil
}
