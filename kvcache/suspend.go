package kvcache

import (
	"cmp"
	"errors"
)

// Suspend takes a sequence off the device, so that others get its blocks, until Resume brings it back: all that it has, to
// the last token and in the format of the pool, is copied to host memory, behind its last step. Nothing is computed again
// afterwards. Blocks that can be found by others stay findable until they are evicted. Meanwhile the sequence can be asked for its length, saved
// (Pool.Save) and released, and anything else is ErrSuspended. What Reserve set aside for it, and what was on its way from tiers, is given up.
//
// It returns backend.ErrOutOfMemory when there is no host memory; the sequence is as before then. Host memory that suspended
// sequences take is told by Stats and bounded by nothing else: a scheduler suspends as many as it can afford.
func (s *Sequence[B]) Suspend() (err error) {
	defer naming("Sequence.Suspend", &err)
	p, n := s.pool, 0
	defer func() { p.logSuspended(n, true, err) }()
	p.lock()
	defer p.unlock()
	if err := s.idle(); err != nil {
		return err
	}
	if err := p.usable(); err != nil {
		return err
	}
	n = s.Len()
	err = s.alone(s.runs.Suspend)
	if s.runs.Suspended != nil {
		s.forgo()
	}
	return err
}

// Resume brings a suspended sequence back to the device. Like a step it waits for blocks that the device still uses before it
// returns ErrOutOfBlocks; the sequence stays suspended then. Where others have the same blocks in the cache it shares them again. It
// returns ErrDamaged if the host memory is not as Suspend filled it.
func (s *Sequence[B]) Resume() (err error) {
	defer naming("Sequence.Resume", &err)
	n := 0
	defer func() { s.pool.logSuspended(n, false, err) }()
	return s.pool.retry(func() error {
		p := s.pool
		if err := s.idle(); !errors.Is(err, ErrSuspended) {
			return cmp.Or(err, error(ErrStep{Why: "the sequence is not suspended"}))
		}
		if err := p.usable(); err != nil {
			return err
		}
		n = s.Len()
		err := s.alone(s.runs.Resume)
		if s.runs.Suspended != nil {
			return err
		}
		s.text.Resumed() // also where its host memory could not be given back
		if p.tree == nil || s.text.Draft > 0 {
			return err
		}
		return cmp.Or(err, s.publishAccepted())
	})
}
