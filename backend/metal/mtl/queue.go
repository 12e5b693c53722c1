//go:build cgo && !nometal && (darwin || metalsimt)

package mtl

// #include "mtl.h"
// #cgo noescape mtl_queue_make
// #cgo nocallback mtl_queue_make
// #cgo nocallback mtl_queue_id
// #cgo nocallback mtl_queue_device
// #cgo nocallback mtl_queue_order
// #cgo nocallback mtl_queue_open
// #cgo noescape mtl_queue_commit
// #cgo nocallback mtl_queue_commit
// #cgo nocallback mtl_queue_wait
// #cgo nocallback mtl_queue_sync
// #cgo nocallback mtl_queue_idle
// #cgo nocallback mtl_queue_close
import "C"

// Queue is an id<MTLCommandQueue> and the command buffer that launches go into until it is
// committed. It belongs to one goroutine at a time. At most 64 of its command buffers are
// unfinished; the next launch after them waits for the oldest.
//
// When it meets a command buffer that failed, the queue opens no more and returns that
// error, the first or the one that says that this process is ignored, until Sync has returned it.
type Queue struct {
	c       *C.struct_mtl_queue
	pending int
	ordered bool
}

// NewQueue makes a queue on the device; the caller closes it.
func (d *Device) NewQueue() (*Queue, error) { return d.queue(0) }

// ImportQueue wraps the caller's id<MTLCommandQueue> of this device (see QueueDevice), which
// stays the caller's and is retained until Close. Work is in order of the commits of both, as far as
// it uses the same tracked buffers; Order knows this Queue's own alone.
func (d *Device) ImportQueue(id uintptr) (*Queue, error) { return d.queue(id) }

func (d *Device) queue(imported uintptr) (*Queue, error) {
	q := &Queue{}
	if err := check(C.mtl_queue_make(d.id(), C.uintptr_t(imported), &q.c)); err != nil {
		return nil, err
	}
	return q, nil
}

// QueueDevice is the Info.Registry of the device of an id<MTLCommandQueue>, 0 for an object
// of another kind.
func QueueDevice(id uintptr) uint64 { return uint64(C.mtl_queue_device(C.uintptr_t(id))) }

// ID is the id<MTLCommandQueue>.
func (q *Queue) ID() uintptr { return uintptr(C.mtl_queue_id(q.c)) }

// Pending is how many launches wait for Commit.
func (q *Queue) Pending() int { return q.pending }

// Order has the launches of each command buffer from here on wait until the one before is over, whatever buffers
// they use. Without it Metal orders what uses the same tracked buffers.
func (q *Queue) Order() {
	C.mtl_queue_order(q.c)
	q.ordered = true
}

// Open makes sure that the next Commit sends a command buffer, if only an empty one. Its mark
// is then after all that anybody has committed to the id<MTLCommandQueue> before:
// https://developer.apple.com/documentation/metal/about-synchronization-events
func (q *Queue) Open() error { return check(C.mtl_queue_open(q.c)) }

// Commit sends what is open to the device, and returns the mark at its end, which the
// caller releases. With nothing open it is the last commit's, zero if there never was one.
// After an error, which is of an earlier command buffer, there is no mark.
func (q *Queue) Commit() (Mark, error) {
	q.pending = 0
	var m C.struct_mtl_mark
	if err := check(C.mtl_queue_commit(q.c, &m)); err != nil {
		return Mark{}, err
	}
	return Mark{command: uintptr(m.command), event: uintptr(m.event), value: uint64(m.value)}, nil
}

// WaitFor makes launches from here on wait until a mark, of any queue, is reached. After Order it commits the
// launches before, because Metal does not order passes of one command buffer either.
func (q *Queue) WaitFor(m Mark) error {
	if m.command == 0 {
		return nil
	}
	if q.ordered && q.pending > 0 {
		end, err := q.Commit()
		if err != nil {
			return err
		}
		end.Release()
	}
	return check(C.mtl_queue_wait(q.c, m.c()))
}

// Idle reports whether nothing is open, and all that was committed is over, without a failure.
func (q *Queue) Idle() bool { return C.mtl_queue_idle(q.c) != 0 }

// Sync commits what is open and waits until all is over. The error is the first of a command
// buffer since the last Sync, or a later one's that ends this process's work; the queue can be used again.
func (q *Queue) Sync() error {
	q.pending = 0
	return check(C.mtl_queue_sync(q.c))
}

// Close commits what is open, waits until all is over and gives the queue back. Its marks
// live on. A closed queue must not be used.
func (q *Queue) Close() {
	C.mtl_queue_close(q.c)
	q.c, q.pending = nil, 0
}
