package schedule

import (
	"bytes"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// state is where a request stands.
type state uint8

const (
	waiting   state = iota // for its turn
	suspended              // for blocks: it gave way
	opened                 // for blocks: it has a sequence, or an error
	opening                // in a goroutine, which waits for tiers
	running
	ended
)

// request is a request in the queue.
type request[B backend.Buffer] struct {
	Request
	answer                        *Answer
	state                         state
	text                          []uint32 // the prompt, and what followed
	seq                           *kvcache.Sequence[B]
	open                          atomic.Bool // opening is done
	failed                        error       // of that
	tried                         int         // the Scheduler's ends when there were too few blocks for it
	others                        int         // tokens that others were about to compute when it was opened
	behind                        *request[B] // loaded what it begins with before it was opened; nil: none did
	begins                        bool        // it has had no step: its sequence joins the first
	report                        Report
	arrived, begun, first, latest time.Time // of Submit, the first step, the first token and the latest one
}

func (r *request[B]) generated() int { return len(r.text) - len(r.Prompt) }

// pending is how many tokens are not in the cache.
func (r *request[B]) pending() int { return len(r.text) - r.seq.Len() }

// admit has requests run, in order, as long as there is room. One that does not fit has those after it wait.
func (s *Scheduler[B]) admit() {
	active := 0
	for _, r := range s.queue {
		if r.state == opening || r.seq != nil {
			active++
		}
	}
	for _, r := range s.queue {
		switch {
		case r.state >= opening:
			continue
		case r.tried == s.ends && s.others(r): // others have given back nothing since
			return
		case r.state == waiting:
			if active >= s.opt.MaxRunning || s.loading(r) {
				continue
			}
			active++
			s.open(r)
		}
		if r.state != opening && !s.enter(r) {
			return
		}
	}
}

// loading reports whether a request that came before has tiers load what r begins with: r finds it in the pool then.
func (s *Scheduler[B]) loading(r *request[B]) bool {
	if r.behind != nil { // it waits once
		return r.behind.state == opening
	}
	if !s.tiers || r.Open.NoReuse {
		return false
	}
	for _, o := range s.queue[:slices.Index(s.queue, r)] {
		if o.state == opening && !o.Open.NoPublish && o.Open.Scope.Equal(r.Open.Scope) && common(o, r) >= s.cfg.EntryTokens() {
			r.behind = o
			return true
		}
	}
	return false
}

// common is how many tokens two requests begin with in common, images included.
func common[B backend.Buffer](a, b *request[B]) int {
	n, most := 0, min(len(a.text), len(b.text))
	for n < most && a.text[n] == b.text[n] {
		n++
	}
	x, y := a.Open.Items, b.Open.Items
	for len(x) > 0 && len(y) > 0 && x[0].Begin == y[0].Begin && x[0].End == y[0].End && bytes.Equal(x[0].Hash, y[0].Hash) {
		x, y = x[1:], y[1:]
	}
	for _, item := range slices.Concat(x, y) {
		n = min(n, item.Begin)
	}
	return n
}

// open opens a request's sequence. Where there are tiers a goroutine does, since they may take their time.
func (s *Scheduler[B]) open(r *request[B]) {
	open := func() {
		seq, match, err := s.pool.Open(r.text, r.Open)
		if err == nil && match.Loading > 0 {
			why := match.MissReason
			match, err = seq.Wait(r.answer.ctx)
			match.MissReason = why
		}
		r.seq, r.failed, r.others, r.begins = seq, err, match.Pending, true
		if r.begun.IsZero() {
			r.report.Match = match
		}
		r.open.Store(true)
		s.wake.send()
	}
	if r.tried, r.state = 0, opening; s.tiers {
		s.working.Go(open)
		return
	}
	open()
	r.state = opened
}

// enter has a request run if there are blocks, and reports whether those after it may begin. Where no other has any either it fails.
func (s *Scheduler[B]) enter(r *request[B]) bool {
	err := s.take(r)
	for ; errors.Is(err, kvcache.ErrOutOfBlocks{}); err = s.take(r) {
		if r.tried = s.ends; s.others(r) {
			return false
		}
		if !s.makeRoom(r) {
			break
		}
	}
	switch {
	case err == nil:
		r.state = running
	case errors.As(err, new(kvcache.ErrDamaged)):
		s.ends++ // its turn may be now
		s.giveUp(r)
	default:
		s.end(r, Failed, err)
	}
	return true
}

// take takes the blocks of a suspended request, or those of a prompt and, beside others, of the first tokens after it.
func (s *Scheduler[B]) take(r *request[B]) error {
	switch {
	case r.state == suspended:
		return r.seq.Resume()
	case r.failed != nil:
		return r.failed
	}
	tokens := len(r.text) - r.others // those have blocks
	if s.others(r) {                 // without room to grow it would soon be suspended
		tokens = min(tokens+s.cfg.BlockTokens(), s.cfg.Memory.Capacity)
	}
	return s.pool.Reserve(kvcache.Reservation[B]{Seq: r.seq, Tokens: tokens})
}

// others reports whether another request has blocks that it will give back.
func (s *Scheduler[B]) others(than *request[B]) bool {
	return slices.ContainsFunc(s.queue, func(r *request[B]) bool { return r != than && (r.state == running || r.state == opening) })
}

// makeRoom takes the blocks of the request that came last, but the first that runs, and reports whether there was one.
func (s *Scheduler[B]) makeRoom(but *request[B]) bool {
	first := slices.IndexFunc(s.queue, func(r *request[B]) bool { return r.state == running })
	for i, r := range slices.Backward(s.queue) {
		switch {
		case r != but && r.state == opened && r.seq != nil:
			s.giveUp(r)
			return true
		case r.state == running && i > first:
			r.report.Suspended++
			s.count(func(st *Stats) { st.Preempted++ })
			if r.state, r.tried = suspended, s.ends; r.seq.Suspend() != nil { // such as for lack of host memory
				s.giveUp(r)
			}
			return true
		}
	}
	return false
}

// giveUp has a request wait to be opened again. What it computed stays in the cache until others need the room.
func (s *Scheduler[B]) giveUp(r *request[B]) {
	_ = r.seq.Release() // as in end
	r.seq, r.state, r.tried = nil, waiting, s.ends
}
