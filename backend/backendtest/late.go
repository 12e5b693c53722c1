package backendtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
	checked "github.com/ferrumkv/ferrumkv/backend/internal/check"
)

// Late is a device whose streams run as late as possible, for tests of programs that use several
// streams or reuse memory: a missing wait, or memory that is overwritten too early, shows as wrong
// content, on a CPU too, and reproducibly.
//
// The operands of an operation are checked at once; then it is queued in its stream. It runs when
// the program waits: in Sync and Close of a stream, Download, Sync of an event, and Stream.Wait,
// which is itself an entry of the queue. Meanwhile other streams run a random number of their
// operations, which the seed decides. So every order that a device may choose can occur, and
// nothing depends on time. Errors of the wrapped device are returned by the next Sync of the
// stream, including those about contents: a row that cannot be quantized, or a slot that does not
// exist.
//
// It is safe for concurrent use. It does not offer backend.HostAccess or backend.Capture. To make
// calls fail as well, wrap it in a Faulty, or let it wrap one for errors that arrive late.
type Late[B backend.Buffer] struct {
	backend.Backend[B]
	caps backend.Caps
	o    LateOptions

	mu      sync.Mutex
	rng     *rand.Rand
	streams []*lateStream[B]
	freed   []lateFree[B]
	subs    []lateSub[B] // that were not freed
	errs    []error      // of buffers that were to be freed
}

// LateOptions are the options of a Late device.
type LateOptions struct {
	// Seed decides the order in which streams run.
	Seed uint64
	// OnlyWaits runs work only when the program waits. Without it Event.Done sometimes runs some,
	// so that a loop that polls it ends.
	OnlyWaits bool
}

// lateFree is a buffer that was given back while work was queued that may use it.
type lateFree[B backend.Buffer] struct {
	b     B
	after []lateMark[B]
}

// lateSub is a sub-buffer, which ends with what it is a part of.
type lateSub[B backend.Buffer] struct{ b, of B }

// NewLate returns be with streams that run late. Streams, events and buffers of be must not be used
// with the result, and Close of the result closes be.
func NewLate[B backend.Buffer](be backend.Backend[B], o LateOptions) *Late[B] {
	return &Late[B]{Backend: be, caps: be.Caps(), o: o, rng: rand.New(rand.NewPCG(o.Seed, 1))}
}

// Drain runs all queued work, as if the program waited for every stream, and returns the errors
// that their next Sync would return.
func (d *Late[B]) Drain() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, s := range slices.Clone(d.streams) {
		errs = append(errs, s.finish())
	}
	errs = append(errs, d.errs...)
	d.errs = nil
	return errors.Join(errs...)
}

// Hold keeps a stream from running at random: until it is released, it runs only when the program
// waits for it. With it a test can force one order.
func (d *Late[B]) Hold(s backend.Stream, hold bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	own, err := d.own("hold", s)
	if err == nil {
		own.held = hold
	}
	return err
}

// Enqueue queues the caller's own work in a stream, as a runner does with kernels of its own. It
// runs on the wrapped device's stream and must not use d. The error that it returns is one of the
// stream's next Sync.
func (d *Late[B]) Enqueue(s backend.Stream, work func(under backend.Stream) error) error {
	return d.late("enqueue", s, func() error { return nil }, work)
}

// Close runs all queued work, frees every buffer and closes the wrapped device.
func (d *Late[B]) Close() error {
	err := d.Drain()
	return errors.Join(err, d.Backend.Close())
}

// Info is that of the wrapped device. Buffers that were freed do not count as live.
func (d *Late[B]) Info() backend.Info {
	d.mu.Lock()
	defer d.mu.Unlock()
	info := d.Backend.Info()
	info.Buffers -= len(d.freed)
	return info
}

// Handle is ErrFreed after Free, even while the memory is still in use.
func (d *Late[B]) Handle(b B) (backend.Handle, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := (owner[B]{d}).Owns("handle", "buffer", b); err != nil {
		return backend.Handle{}, err
	}
	return d.Backend.Handle(b)
}

// SubBuffer returns a part of b, which is freed with it.
func (d *Late[B]) SubBuffer(b B, offset int64, dt backend.DType, n int) (B, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := (owner[B]{d}).Owns("sub-buffer", "buffer", b); err != nil {
		var none B
		return none, err
	}
	sub, err := d.Backend.SubBuffer(b, offset, dt, n)
	if err == nil {
		d.subs = append(d.subs, lateSub[B]{b: sub, of: b})
	}
	return sub, err
}

// Free gives b back once the work that was enqueued before has run.
func (d *Late[B]) Free(b B) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := (owner[B]{d}).Owns("free", "buffer", b); err != nil {
		return err
	}
	return d.free(b)
}

// free gives a live buffer back after its sub-buffers.
func (d *Late[B]) free(b B) error {
	for i := 0; i < len(d.subs); {
		switch sub := d.subs[i]; {
		case same(sub.b, b):
			d.subs = slices.Delete(d.subs, i, i+1)
		case same(sub.of, b):
			if err := d.free(sub.b); err != nil {
				return err
			}
			i = 0 // it is gone, and its own sub-buffers are
		default:
			i++
		}
	}
	free := lateFree[B]{b: b}
	for _, s := range d.streams {
		if len(s.queue) > 0 {
			free.after = append(free.after, s.mark())
		}
	}
	if free.after == nil {
		return d.Backend.Free(b)
	}
	d.freed = append(d.freed, free)
	return nil
}

// sweep frees what no queued work can use any more.
func (d *Late[B]) sweep() {
	d.freed = slices.DeleteFunc(d.freed, func(f lateFree[B]) bool {
		for _, m := range f.after {
			if !m.reached() {
				return false
			}
		}
		if err := d.Backend.Free(f.b); err != nil {
			d.errs = append(d.errs, err)
		}
		return true
	})
}

// owner says which buffers are live ones of a late device; its mutex is held.
type owner[B backend.Buffer] struct{ d *Late[B] }

func (o owner[B]) Caps() *backend.Caps { return &o.d.caps }

// Known is nil: buffers may end behind the device's back.
func (o owner[B]) Known() *checked.Known[B] { return nil }

func (o owner[B]) Owns(op, name string, b B) error {
	for _, f := range o.d.freed {
		if same(f.b, b) {
			return fmt.Errorf("backend: %s: %s: %w", op, name, backend.ErrFreed)
		}
	}
	if _, err := o.d.Backend.Handle(b); err != nil {
		return fmt.Errorf("backend: %s: %s: %w", op, name, err)
	}
	return nil
}

// operands is the check of a call's operands; d's mutex is held.
func (d *Late[B]) operands(op string) *checked.Operands[B, owner[B]] {
	return &checked.Operands[B, owner[B]]{Owner: owner[B]{d}, Op: op}
}

// same reports whether two are one buffer.
func same[B backend.Buffer](a, b B) bool {
	return reflect.ValueOf(a).Comparable() && any(a) == any(b)
}

// Prepare is that of the wrapped device.
func (d *Late[B]) Prepare(p backend.Preparation) error { return backend.Prepare(d.Backend, p) }
