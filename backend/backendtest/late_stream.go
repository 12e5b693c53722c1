package backendtest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// lateStream is a queue of what has not run yet. The device's mutex guards it.
type lateStream[B backend.Buffer] struct {
	dev          *Late[B]
	under        backend.Stream
	queue        []func() error
	ran          int   // operations done, ever
	err          error // first since the last Sync
	busy         bool  // in the middle of an operation: it may be waiting for another stream
	held, closed bool
}

// lateMark is a point of a stream: it is reached when the stream has done as many operations.
type lateMark[B backend.Buffer] struct {
	stream *lateStream[B]
	at     int
}

func (m lateMark[B]) reached() bool { return m.stream == nil || m.stream.ran >= m.at }

// lateEvent is an event of a late device.
type lateEvent[B backend.Buffer] struct {
	dev    *Late[B]
	last   lateMark[B]
	closed bool
}

// NewStream returns a stream that runs late.
func (d *Late[B]) NewStream() (backend.Stream, error) { return d.adopt(d.Backend.NewStream()) }

// ImportStream wraps a queue that the caller owns. The library's work on it runs late; work that
// the caller enqueues itself does not.
func (d *Late[B]) ImportStream(h backend.Handle) (backend.Stream, error) {
	return d.adopt(d.Backend.ImportStream(h))
}

func (d *Late[B]) adopt(under backend.Stream, err error) (backend.Stream, error) {
	if err != nil {
		return nil, err
	}
	s := &lateStream[B]{dev: d, under: under}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.streams = append(d.streams, s)
	return s, nil
}

// NewEvent returns an event of streams that run late.
func (d *Late[B]) NewEvent() (backend.Event, error) {
	e, err := d.Backend.NewEvent() // it is not used: whether one can be had is the device's to say
	if err == nil {
		err = e.Close()
	}
	if err != nil {
		return nil, err
	}
	return &lateEvent[B]{dev: d}, nil
}

// own is the stream, if it is an open one of d.
func (d *Late[B]) own(op string, s backend.Stream) (*lateStream[B], error) {
	own, ok := s.(*lateStream[B])
	if !ok || own == nil || own.dev != d {
		return nil, fmt.Errorf("backend: %s: stream %w", op, backend.ErrOtherDevice)
	}
	if own.closed {
		return nil, fmt.Errorf("backend: %s: stream %w", op, backend.ErrClosed)
	}
	return own, nil
}

func (s *lateStream[B]) push(work func(under backend.Stream) error) {
	s.queue = append(s.queue, func() error { return work(s.under) })
}

func (s *lateStream[B]) mark() lateMark[B] { return lateMark[B]{s, s.ran + len(s.queue)} }

// run executes a stream up to a mark, others getting ahead at random. They do not
// while one is in the middle of an operation: they might have to wait for it.
func (d *Late[B]) run(to lateMark[B]) {
	waiting := slices.ContainsFunc(d.streams, func(o *lateStream[B]) bool { return o.busy })
	for s := to.stream; !to.reached() && len(s.queue) > 0; {
		if !waiting && d.rng.IntN(2) == 0 {
			if o := d.streams[d.rng.IntN(len(d.streams))]; o != s && !o.held && len(o.queue) > 0 {
				o.step()
				continue
			}
		}
		s.step()
	}
	d.sweep()
}

// step does one operation.
func (s *lateStream[B]) step() {
	s.busy = true
	err := errors.Join(s.queue[0](), s.under.Sync()) // done when it was run, on a device that is late itself, too
	if err != nil && s.err == nil {
		s.err = err
	}
	s.queue = s.queue[1:]
	s.ran++
	s.busy = false
}

// finish runs all of the stream and returns its error.
func (s *lateStream[B]) finish() error {
	s.dev.run(s.mark())
	err := s.err
	s.err = nil
	return err
}

func (s *lateStream[B]) Sync() error {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	if _, err := s.dev.own("sync", s); err != nil {
		return err
	}
	return errors.Join(s.finish(), s.under.Sync())
}

func (s *lateStream[B]) Record(e backend.Event) error {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	own, err := s.event("record", e)
	if err == nil {
		own.last = s.mark()
	}
	return err
}

func (s *lateStream[B]) Wait(e backend.Event) error {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	own, err := s.event("wait", e)
	if err != nil {
		return err
	}
	mark := own.last // the mark of now: a later Record must not move it
	s.push(func(backend.Stream) error {
		if mark.stream != nil && mark.stream != s {
			s.dev.run(mark)
		}
		return nil
	})
	return nil
}

// event is the event, if it and the stream are open and of one device.
func (s *lateStream[B]) event(op string, e backend.Event) (*lateEvent[B], error) {
	if _, err := s.dev.own(op, s); err != nil {
		return nil, err
	}
	own, ok := e.(*lateEvent[B])
	if !ok || own == nil || own.dev != s.dev {
		return nil, fmt.Errorf("backend: %s: event %w", op, backend.ErrOtherDevice)
	}
	return own, own.open(op)
}

// Handle is that of the stream under it.
func (s *lateStream[B]) Handle() backend.Handle { return s.under.Handle() }

func (s *lateStream[B]) Close() error {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	if _, err := s.dev.own("close stream", s); err != nil {
		return err
	}
	err := s.finish()
	s.closed = true
	s.dev.streams = slices.DeleteFunc(s.dev.streams, func(o *lateStream[B]) bool { return o == s })
	return errors.Join(err, s.under.Close())
}

func (e *lateEvent[B]) open(op string) error {
	if e.closed {
		return fmt.Errorf("backend: %s: event %w", op, backend.ErrClosed)
	}
	return nil
}

func (e *lateEvent[B]) Done() (bool, error) {
	e.dev.mu.Lock()
	defer e.dev.mu.Unlock()
	if err := e.open("event done"); err != nil {
		return false, err
	}
	if s := e.last.stream; s != nil && !e.dev.o.OnlyWaits && !s.held && !s.busy && len(s.queue) > 0 && e.dev.rng.IntN(4) == 0 {
		s.step()
		e.dev.sweep()
	}
	return e.last.reached(), nil
}

func (e *lateEvent[B]) Sync() error {
	e.dev.mu.Lock()
	defer e.dev.mu.Unlock()
	if err := e.open("event sync"); err != nil {
		return err
	}
	if e.last.stream != nil {
		e.dev.run(e.last)
	}
	return nil
}

func (e *lateEvent[B]) Close() error {
	e.dev.mu.Lock()
	defer e.dev.mu.Unlock()
	if err := e.open("close event"); err != nil {
		return err
	}
	e.closed = true
	return nil
}
