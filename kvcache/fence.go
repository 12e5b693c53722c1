package kvcache

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
)

// Fence tells the pool that work of the runner's own, enqueued on stream so far,
// uses the sequence: its blocks are not handed out, nor written by a step, before
// that is done.
func (s *Sequence[B]) Fence(stream backend.Stream) error {
	p := s.pool
	p.lock()
	defer p.unlock()
	if err := s.idle("fence"); err != nil {
		return err
	}
	if stream == nil {
		return errNoStream("fence")
	}
	return s.fenceBehind(stream)
}

// fenceBehind is touched for work that was not put behind the sequence's fence. It
// does not change the sequence, so it need not wait for what others read of it; but
// whoever waits for the new fence waits for those, too.
func (s *Sequence[B]) fenceBehind(stream backend.Stream) error {
	if err := s.fence.Order(stream); err != nil {
		return errors.Join(s.pool.fences.Observe(err), residency.Drain(stream))
	}
	return s.touched(stream)
}

// touched makes this point of the stream the sequence's fence. The stream has been
// put behind the one before. Where no fence can be had it waits. The caller holds
// the lock.
func (s *Sequence[B]) touched(stream backend.Stream) error {
	f, err := s.pool.fences.Record(s.pool.be, stream)
	if err != nil {
		return errors.Join(s.pool.fences.Observe(err), residency.Drain(stream))
	}
	s.used(f)
	return nil
}
