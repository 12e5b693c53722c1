package kvcache

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
)

// lazyDevice is the test device with streams that run late: operations queue up and
// run when somebody waits, streams in random order. A missing event wait or a block
// handed out too early shows as wrong content, on a CPU too.
type lazyDevice struct {
	backend.Backend[buffer]
	mu      sync.Mutex
	rng     *rand.Rand
	streams []*lazyStream
	freed   []buffer
	fail    func(op string) error    // injected failures; nil: none
	frozen  bool                     // Done makes no progress by itself
	broken  map[backend.Stream]error // what events of a stream report
}

func newLazyDevice(be backend.Backend[buffer], seed uint64) *lazyDevice {
	return &lazyDevice{Backend: be, rng: rand.New(rand.NewPCG(seed, 1))}
}

type lazyStream struct {
	dev   *lazyDevice
	inner backend.Stream
	queue []func() error
	ran   int  // operations done, ever
	busy  bool // in the middle of one: it may be waiting for another stream
	err   error
}

// lazyEvent is reached when its stream has done as many operations as were
// enqueued at the time of Record.
type lazyEvent struct {
	dev    *lazyDevice
	stream *lazyStream
	at     int
}

func (d *lazyDevice) NewStream() (backend.Stream, error) {
	inner, err := d.Backend.NewStream()
	if err != nil {
		return nil, err
	}
	s := &lazyStream{dev: d, inner: inner}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.streams = append(d.streams, s)
	return s, nil
}

func (d *lazyDevice) NewEvent() (backend.Event, error) { return &lazyEvent{dev: d}, nil }

// run executes s up to its n-th operation, other streams getting ahead at random. They
// do not while one is in the middle of an operation: they might have to wait for it.
func (d *lazyDevice) run(s *lazyStream, n int) {
	waiting := slices.ContainsFunc(d.streams, func(o *lazyStream) bool { return o.busy })
	for s.ran < n && len(s.queue) > 0 {
		if !waiting && d.rng.IntN(2) == 0 {
			if o := d.streams[d.rng.IntN(len(d.streams))]; o != s && len(o.queue) > 0 {
				d.step(o)
				continue
			}
		}
		d.step(s)
	}
}

func (d *lazyDevice) step(s *lazyStream) {
	s.busy = true
	err := s.queue[0]()
	if err = errors.Join(err, s.inner.Sync()); err != nil && s.err == nil { // done when it was run, on a device that is late itself, too
		s.err = err
	}
	s.queue = s.queue[1:]
	s.ran++
	s.busy = false
}

func (d *lazyDevice) enqueue(s backend.Stream, name string, op func(inner backend.Stream) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	ls := s.(*lazyStream)
	if d.fail != nil {
		if err := d.fail(name); err != nil {
			return err
		}
	}
	ls.queue = append(ls.queue, func() error { return op(ls.inner) })
	return nil
}

func (s *lazyStream) Sync() error {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	s.dev.run(s, s.ran+len(s.queue))
	err := s.err
	s.err = nil
	return err
}

func (s *lazyStream) Record(e backend.Event) error {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	if s.dev.fail != nil {
		if err := s.dev.fail("record"); err != nil {
			return err
		}
	}
	le := e.(*lazyEvent)
	le.stream, le.at = s, s.ran+len(s.queue)
	return nil
}

func (s *lazyStream) Wait(e backend.Event) error {
	le := *e.(*lazyEvent) // the mark of now: a later Record must not move it
	return s.dev.enqueue(s, "wait", func(backend.Stream) error {
		if le.stream != nil && le.stream != s {
			s.dev.run(le.stream, le.at)
		}
		return nil
	})
}

func (s *lazyStream) Handle() backend.Handle { return backend.Handle{} }
func (s *lazyStream) Close() error           { return errors.Join(s.Sync(), s.inner.Close()) }

func (e *lazyEvent) Done() (bool, error) {
	e.dev.mu.Lock()
	defer e.dev.mu.Unlock()
	if e.stream == nil {
		return true, nil
	}
	if !e.dev.frozen && e.dev.rng.IntN(4) == 0 && !e.stream.busy && len(e.stream.queue) > 0 {
		e.dev.step(e.stream)
	}
	if e.stream.ran < e.at {
		return false, nil
	}
	err := e.dev.broken[e.stream]
	return err == nil, err
}

func (e *lazyEvent) Sync() error {
	e.dev.mu.Lock()
	defer e.dev.mu.Unlock()
	if e.stream == nil {
		return nil
	}
	e.dev.run(e.stream, e.at)
	return e.dev.broken[e.stream]
}

func (e *lazyEvent) Close() error { return nil }

// Free is only noted: queued work may still use the buffer.
func (d *lazyDevice) Free(b buffer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.freed = append(d.freed, b)
	return nil
}

// drain runs everything and frees what was given back.
func (d *lazyDevice) drain() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, s := range d.streams {
		d.run(s, s.ran+len(s.queue))
		errs = append(errs, s.err)
	}
	for _, b := range d.freed {
		errs = append(errs, d.Backend.Free(b))
	}
	d.freed = nil
	return errors.Join(errs...)
}

func (d *lazyDevice) Alloc(dt backend.DType, n int) (buffer, error) {
	if d.fail != nil {
		if err := d.fail("alloc"); err != nil {
			return buffer{}, err
		}
	}
	return d.Backend.Alloc(dt, n)
}

func (d *lazyDevice) Upload(s backend.Stream, dst buffer, off int, src []byte) error {
	staged := append([]byte(nil), src...)
	return d.enqueue(s, "upload", func(in backend.Stream) error { return d.Backend.Upload(in, dst, off, staged) })
}

func (d *lazyDevice) Download(s backend.Stream, dst []byte, src buffer, off int) error {
	if err := s.Sync(); err != nil {
		return err
	}
	return d.Backend.Download(s.(*lazyStream).inner, dst, src, off)
}

func (d *lazyDevice) Copy(s backend.Stream, dst buffer, dstOff int, src buffer, srcOff, n int) error {
	return d.enqueue(s, "copy", func(in backend.Stream) error { return d.Backend.Copy(in, dst, dstOff, src, srcOff, n) })
}

func (d *lazyDevice) Fill(s backend.Stream, dst buffer, off, n int, v float64) error {
	return d.enqueue(s, "fill", func(in backend.Stream) error { return d.Backend.Fill(in, dst, off, n, v) })
}

func (d *lazyDevice) Append(s backend.Stream, p backend.AppendParams[buffer]) error {
	return d.enqueue(s, "append", func(in backend.Stream) error { return d.Backend.Append(in, p) })
}

func (d *lazyDevice) Attend(s backend.Stream, p backend.AttendParams[buffer]) error {
	p.Plan.Work = slices.Clone(p.Plan.Work) // the batch uses it again
	return d.enqueue(s, "attend", func(in backend.Stream) error { return d.Backend.Attend(in, p) })
}

func (d *lazyDevice) Gather(s backend.Stream, p backend.GatherParams[buffer]) error {
	return d.enqueue(s, "gather", func(in backend.Stream) error { return d.Backend.Gather(in, p) })
}

func (d *lazyDevice) CopyBlocks(s backend.Stream, p backend.CopyBlocksParams[buffer]) error {
	return d.enqueue(s, "copy blocks", func(in backend.Stream) error { return d.Backend.CopyBlocks(in, p) })
}

func (d *lazyDevice) MoveSlots(s backend.Stream, p backend.MoveSlotsParams[buffer]) error {
	return d.enqueue(s, "move slots", func(in backend.Stream) error { return d.Backend.MoveSlots(in, p) })
}

func (d *lazyDevice) ConvertBlocks(s backend.Stream, p backend.ConvertBlocksParams[buffer]) error {
	return d.enqueue(s, "convert blocks", func(in backend.Stream) error { return d.Backend.ConvertBlocks(in, p) })
}

func (d *lazyDevice) Merge(s backend.Stream, p backend.MergeParams[buffer]) error {
	return d.enqueue(s, "merge", func(in backend.Stream) error { return d.Backend.Merge(in, p) })
}

func (d *lazyDevice) Rotate(s backend.Stream, p backend.RotateParams[buffer]) error {
	return d.enqueue(s, "rotate", func(in backend.Stream) error { return d.Backend.Rotate(in, p) })
}
