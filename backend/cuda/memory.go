//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
)

// keepFree is what a pool keeps of freed memory, in bytes, for the next allocation:
// enough for a step's index vectors, too little for a neighbour to miss.
const keepFree = 32 << 20

// memory is where buffers come from. Its two streams are private, so an
// allocation waits for no work, and returned memory is reused once the work that
// was enqueued before its return is done. Its user orders the calls, scratch excepted.
type memory struct {
	ctx           *driver.Context
	pool          driver.Pool // 0: the device has none
	allocs, frees queue
}

// queue is a stream with the event by which the host waits for it.
type queue struct {
	cu  driver.Stream
	end driver.Event
}

// newQueue makes a queue; close ends what there is of it, also after an error.
func newQueue(ctx *driver.Context) (q queue, err error) {
	if q.cu, err = ctx.NewStream(); err == nil {
		q.end, err = ctx.NewEvent(driver.Waiting)
	}
	return q, err
}

func (q queue) wait(ctx *driver.Context) error { return ctx.Await(q.cu, q.end) }

func (q queue) close(ctx *driver.Context) error {
	var errs []error
	if q.end != 0 {
		errs = append(errs, ctx.DestroyEvent(q.end))
	}
	if q.cu != 0 {
		errs = append(errs, ctx.DestroyStream(q.cu))
	}
	return errors.Join(errs...)
}

// newMemory makes the pool, where there are pools, and the streams.
func newMemory(ctx *driver.Context) (memory, error) {
	m := memory{ctx: ctx}
	var err error
	if m.allocs, err = newQueue(ctx); err == nil {
		m.frees, err = newQueue(ctx)
	}
	if err == nil && ctx.Device.Pools {
		m.pool, err = ctx.NewPool(keepFree)
	}
	if err != nil {
		_ = m.close()
	}
	return m, err
}

// obtain returns memory that work on any stream may use. Where there is too
// little, it waits for what was released.
func (m *memory) obtain(size int) (driver.Ptr, error) {
	p, err := m.take(size)
	if !errors.Is(err, backend.ErrOutOfMemory{}) || m.pool == 0 {
		return p, err
	}
	if err := m.reclaim(); err != nil {
		return 0, err
	}
	return m.take(size)
}

// reclaim waits for what was released and gives it back to the device. It needs no order with
// other calls.
func (m *memory) reclaim() error {
	if err := m.frees.wait(m.ctx); err != nil || m.pool == 0 {
		return err
	}
	return m.ctx.Trim(m.pool)
}

func (m *memory) take(size int) (driver.Ptr, error) {
	if m.pool == 0 {
		return m.ctx.Alloc(size)
	}
	p, err := m.ctx.AllocFrom(m.pool, size, m.allocs.cu)
	if err != nil {
		return 0, err
	}
	if err := m.allocs.wait(m.ctx); err != nil {
		_ = m.ctx.FreeAsync(p, m.allocs.cu)
		return 0, err
	}
	return p, nil
}

// after makes what is released from here on wait for the last record of e.
func (m *memory) after(e driver.Event) error { return m.ctx.Wait(m.frees.cu, e) }

// release returns memory once the events of after are reached. Only without a
// pool does the host wait for them.
func (m *memory) release(p driver.Ptr) error {
	if m.pool != 0 {
		return m.ctx.FreeAsync(p, m.frees.cu)
	}
	return errors.Join(m.frees.wait(m.ctx), m.ctx.Free(p))
}

// scratch returns memory for work on s alone.
func (m *memory) scratch(size int, s driver.Stream) (driver.Ptr, error) {
	if m.pool == 0 {
		return m.ctx.Alloc(size)
	}
	return m.ctx.AllocFrom(m.pool, size, s)
}

// dropScratch returns memory of scratch once the work of s is done.
func (m *memory) dropScratch(p driver.Ptr, s *stream) error {
	if m.pool != 0 {
		return m.ctx.FreeAsync(p, s.cu)
	}
	return errors.Join(m.ctx.Await(s.cu, s.end), m.ctx.Free(p))
}

// idle is what the pool has of the device's memory beyond the held bytes: it was
// freed, and obtain gets it, waiting where work still uses it.
func (m *memory) idle(held int64) int64 {
	if m.pool == 0 {
		return 0
	}
	reserved, err := m.ctx.Reserved(m.pool)
	if err != nil {
		return 0
	}
	return max(reserved-held, 0)
}

// close ends the pool and the streams. Everything was released.
func (m *memory) close() error {
	var errs []error
	if m.frees.end != 0 {
		errs = append(errs, m.frees.wait(m.ctx))
	}
	errs = append(errs, m.frees.close(m.ctx), m.allocs.close(m.ctx))
	if m.pool != 0 {
		errs = append(errs, m.ctx.DestroyPool(m.pool))
	}
	return errors.Join(errs...)
}
