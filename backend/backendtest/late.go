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

// Late is a device whose streams run late, for tests of programs that use several streams
// or that reuse memory: a wait that is missing, or memory that is written too early, shows as
// wrong content on a CPU, too, and in the same way each time.
//
// What is enqueued is checked at once, its buffers and sizes, and put into the stream's queue. It runs when
// somebody waits: in Sync and Close of a stream, Download, Sync of an event, and
// Stream.Wait, which is a place in the queue itself. Meanwhile other streams get ahead by
// a random number of operations, which the seed decides. So every order in which a device
// may run the work has its seeds, and nothing depends on time. Errors of the device under it
// arrive at the next Sync of the stream, those of contents among them: a row that cannot be
// quantized, or a slot that does not exist.
//
// It is safe for concurrent use. It has none of the rare abilities (backend.HostAccessOf,
// backend.Capture). To let calls fail as well, put a Faulty around it, or one under it
// for errors that arrive late.
type Late[B backend.Buffer] struct {
	backend.Backend[B]
	caps backend.Caps
	o    LateOptions

	mu      sync.Mutex
	rng     *rand.Rand
	streams []*lateStream[B]
	freed   []lateFree[B]
	errs    []error // of buffers that were to be freed
}

// LateOptions say how late a device runs.
type LateOptions struct {
	// Seed decides the order in which streams get ahead.
	Seed uint64
	// OnlyWaits keeps the device from making progress unless somebody waits. Without it,
	// Event.Done lets it do some work now and then, so that asking again and again ends.
	OnlyWaits bool
}

// lateFree is a buffer that was given back while work was queued that may use it.
type lateFree[B backend.Buffer] struct {
	b     B
	after []lateMark[B]
}

// NewLate returns be with streams that run late. Streams, events and buffers of be itself
// must not be mixed with those of the result, whose Close closes be.
func NewLate[B backend.Buffer](be backend.Backend[B], o LateOptions) *Late[B] {
	return &Late[B]{Backend: be, caps: be.Caps(), o: o, rng: rand.New(rand.NewPCG(o.Seed, 1))}
}

// Drain runs everything that was enqueued, as if all streams were waited for, and
// returns the errors that their next Sync would have.
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

// Hold keeps a stream from getting ahead by chance: until it is let go, it runs only where
// somebody waits for it. It is how a test makes sure of one order.
func (d *Late[B]) Hold(s backend.Stream, hold bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	own, err := d.own("hold", s)
	if err == nil {
		own.held = hold
	}
	return err
}

// Enqueue puts work of the caller's own into a stream, as a runner's kernels are between
// this library's operations. It runs in its place, on the stream of the device
// under this one, and must not use d. What it returns is an error of the stream's next Sync.
func (d *Late[B]) Enqueue(s backend.Stream, work func(under backend.Stream) error) error {
	return d.late("enqueue", s, func() error { return nil }, work)
}

// Close does what is still queued, frees every buffer and closes the device under it.
func (d *Late[B]) Close() error {
	err := d.Drain()
	return errors.Join(err, d.Backend.Close())
}

// Info is that of the device under it. Buffers that are to be freed are not counted as live.
func (d *Late[B]) Info() backend.Info {
	d.mu.Lock()
	defer d.mu.Unlock()
	info := d.Backend.Info()
	info.Buffers -= len(d.freed)
	return info
}

// Free gives b back once the work that was enqueued before has run.
func (d *Late[B]) Free(b B) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := (owner[B]{d}).Owns("free", "buffer", b); err != nil {
		return err
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
		if v := reflect.ValueOf(f.b); v.Comparable() && any(f.b) == any(b) {
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
