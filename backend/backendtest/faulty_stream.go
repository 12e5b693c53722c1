package backendtest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
)

type faultyStream[B backend.Buffer] struct {
	dev   *Faulty[B]
	under backend.Stream
}

// faultyEvent knows the stream of its last mark.
type faultyEvent[B backend.Buffer] struct {
	dev   *Faulty[B]
	under backend.Event
	mu    sync.Mutex
	last  backend.Stream
}

func (f *Faulty[B]) NewStream() (backend.Stream, error) {
	return f.adopt(OpNewStream, f.Backend.NewStream)
}

func (f *Faulty[B]) ImportStream(h backend.Handle) (backend.Stream, error) {
	return f.adopt(OpImportStream, func() (backend.Stream, error) { return f.Backend.ImportStream(h) })
}

func (f *Faulty[B]) adopt(op Op, open func() (backend.Stream, error)) (backend.Stream, error) {
	if err := f.ask(op, nil); err != nil {
		return nil, err
	}
	under, err := open()
	if err != nil {
		return nil, err
	}
	return &faultyStream[B]{f, under}, nil
}

func (f *Faulty[B]) NewEvent() (backend.Event, error) {
	if err := f.ask(OpNewEvent, nil); err != nil {
		return nil, err
	}
	under, err := f.Backend.NewEvent()
	if err != nil {
		return nil, err
	}
	return &faultyEvent[B]{dev: f, under: under}, nil
}

// Sync waits before it fails: what was enqueued has run.
func (s *faultyStream[B]) Sync() error {
	err := s.under.Sync()
	if failed := s.dev.ask(OpSync, s); failed != nil {
		return failed
	}
	return err
}

func (s *faultyStream[B]) Record(e backend.Event) error {
	own, err := s.dev.event(OpRecord, e)
	if err == nil {
		err = s.dev.ask(OpRecord, s)
	}
	if err == nil {
		err = s.under.Record(own.under)
	}
	if err == nil {
		own.mark(s)
	}
	return err
}

func (s *faultyStream[B]) Wait(e backend.Event) error {
	own, err := s.dev.event(OpWait, e)
	if err == nil {
		err = s.dev.ask(OpWait, s)
	}
	if err != nil {
		return err
	}
	return s.under.Wait(own.under)
}

// event is the event, if it is one of f.
func (f *Faulty[B]) event(op Op, e backend.Event) (*faultyEvent[B], error) {
	own, ok := e.(*faultyEvent[B])
	if !ok || own == nil || own.dev != f {
		return nil, fmt.Errorf("backend: %s: event %w", op, backend.ErrOtherDevice)
	}
	return own, nil
}

func (s *faultyStream[B]) Handle() backend.Handle { return s.under.Handle() }

// Close gives the stream back, of a lost device, too.
func (s *faultyStream[B]) Close() error {
	return errors.Join(s.dev.present("close stream"), s.under.Close())
}

func (e *faultyEvent[B]) mark(s backend.Stream) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = s
}

func (e *faultyEvent[B]) stream() backend.Stream {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

func (e *faultyEvent[B]) Done() (bool, error) {
	done, err := e.under.Done()
	if err == nil {
		err = e.dev.present(OpEventDone)
	}
	if err == nil && done {
		err = e.dev.ask(OpEventDone, e.stream())
	}
	return done && err == nil, err
}

func (e *faultyEvent[B]) Sync() error {
	err := e.under.Sync()
	if failed := e.dev.ask(OpEventSync, e.stream()); failed != nil {
		return failed
	}
	return err
}

// Close gives the event back, of a lost device, too.
func (e *faultyEvent[B]) Close() error {
	return errors.Join(e.dev.present("close event"), e.under.Close())
}
