package schedule

import (
	"errors"
	"slices"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// state is where a request stands.
type state uint8

const (
	waiting          state = iota // for its turn
	opening                       // in a goroutine, which waits for tiers
	waitingForBlocks              // it has a sequence, or an error
	running
	suspended
	ended
)

// request is a request in the queue.
type request[B backend.Buffer] struct {
	Request
	answer *Answer
	state  state
	text   []uint32 // the prompt, and what followed
	seq    *kvcache.Sequence[B]
	failed error // of opening it
	tried  bool  // there were not enough blocks
	held   bool  // it waits for what another one computes
	report Report

	arrived, begun, first, latest time.Time // of Submit, the first step, the first token and the latest one
}

func (r *request[B]) generated() int { return len(r.text) - len(r.Prompt) }

// pending is how many tokens are not in the cache.
func (r *request[B]) pending() int { return len(r.text) - r.seq.Len() }

// admit has requests begin, in order, as long as there is room. One that does not fit has those after it wait.
func (s *Scheduler[B]) admit() {
	again := s.freed
	s.freed = false
	for _, r := range s.queue {
		if r.state == suspended && !s.resume(r, again) {
			return
		}
	}
	active := 0
	for _, r := range s.queue {
		if r.state != waiting && r.state != ended {
			active++
		}
	}
	for _, r := range s.queue {
		if r.state == waiting {
			if active == s.opt.MaxRunning {
				break
			}
			if r.held = s.shares(r); r.held {
				continue
			}
			active++
			s.open(r)
		}
		if r.state == waitingForBlocks && !s.reserve(r, again) {
			break
		}
	}
}

// shares reports whether what a request begins with is about to be computed by one that began before it.
func (s *Scheduler[B]) shares(r *request[B]) bool {
	if !s.shape.reuses || r.Open.NoReuse {
		return false
	}
	for _, o := range s.queue {
		if o.state == waiting || o.state == suspended || o.state == ended || o.Open.NoPublish || !o.Open.Scope.Equal(r.Open.Scope) {
			continue
		}
		has := 0
		if o.state != opening && o.seq != nil {
			has = o.seq.Len()
		}
		common := min(common(&o.Request, &r.Request, o.text, r.text), len(r.text)-1) // the last token is computed in any case
		if common-common%s.shape.entry > has {
			return true
		}
	}
	return false
}

// common is how many tokens two requests begin with in common, images included.
func common(a, b *Request, at, bt []uint32) int {
	n := min(len(at), len(bt))
	for i := range n {
		if at[i] != bt[i] {
			n = i
			break
		}
	}
	for i := range max(len(a.Open.Items), len(b.Open.Items)) {
		switch {
		case i >= len(a.Open.Items):
			return min(n, b.Open.Items[i].Begin)
		case i >= len(b.Open.Items):
			return min(n, a.Open.Items[i].Begin)
		}
		if x, y := a.Open.Items[i], b.Open.Items[i]; x.Begin != y.Begin || x.End != y.End || string(x.Hash) != string(y.Hash) {
			return min(n, x.Begin, y.Begin)
		}
	}
	return n
}

// open opens a request's sequence. Where there are tiers a goroutine does, since they may take their time.
func (s *Scheduler[B]) open(r *request[B]) {
	if !s.shape.tiers {
		r.state = waitingForBlocks
		s.openNow(r)
		return
	}
	r.state = opening
	s.working.Go(func() {
		s.openNow(r)
		s.mu.Lock()
		s.opened = append(s.opened, r)
		s.mu.Unlock()
		s.poke()
	})
}

func (s *Scheduler[B]) openNow(r *request[B]) {
	seq, match, err := s.pool.Open(r.text, r.Open)
	if err == nil && match.Loading > 0 {
		why := match.MissReason
		match, err = seq.Wait(r.answer.ctx)
		match.MissReason = why
	}
	if r.seq, r.failed = seq, err; r.report.Suspended == 0 {
		r.report.Match = match
	}
}

// reserve has a request run if there are blocks for its prompt and the first tokens after it.
func (s *Scheduler[B]) reserve(r *request[B], again bool) bool {
	if r.failed != nil {
		s.end(r, Failed, r.failed)
		return true
	}
	tokens := min(len(r.text)+s.shape.block, s.shape.capacity)
	return s.enter(r, again, func() error { return s.pool.Reserve(kvcache.Reservation[B]{Seq: r.seq, Tokens: tokens}) })
}

// resume has a suspended request run again.
func (s *Scheduler[B]) resume(r *request[B], again bool) bool {
	return s.enter(r, again, func() error { return r.seq.Resume() })
}

// enter has a request run if there are blocks for it, and reports whether those after it may begin. One that found too few waits until others
// have given some back; where no other has any it fails.
func (s *Scheduler[B]) enter(r *request[B], again bool, take func() error) bool {
	if r.tried && !again && s.others(r) {
		return false
	}
	err := take()
	for errors.Is(err, kvcache.ErrOutOfBlocks{}) {
		if r.tried = true; s.others(r) {
			return false
		}
		if !s.giveUpOne(r) {
			break
		}
		err = take()
	}
	if err != nil {
		s.end(r, Failed, err)
		return true
	}
	r.state, r.tried = running, false
	return true
}

// others reports whether another request has blocks that it will give back.
func (s *Scheduler[B]) others(than *request[B]) bool {
	for _, r := range s.queue {
		if r != than && (r.state == running || r.state == opening) {
			return true
		}
	}
	return false
}

// makeRoom takes the blocks of the request that came last, and reports whether there was another one.
func (s *Scheduler[B]) makeRoom() bool {
	if s.giveUpOne(nil) {
		return true
	}
	var last *request[B]
	count := 0
	for _, r := range s.queue {
		if r.state == running {
			last, count = r, count+1
		}
	}
	if count < 2 {
		return false
	}
	last.report.Suspended++
	if err := last.seq.Suspend(); err != nil { // no host memory: it is computed again
		s.giveUp(last)
	} else {
		last.state, last.tried = suspended, true
	}
	s.mu.Lock()
	s.stats.Preempted++
	s.mu.Unlock()
	return true
}

// giveUpOne has the last of those that wait for blocks give up the ones that it found.
func (s *Scheduler[B]) giveUpOne(but *request[B]) bool {
	for _, r := range slices.Backward(s.queue) {
		if r != but && r.state == waitingForBlocks && r.seq != nil {
			s.giveUp(r)
			return true
		}
	}
	return false
}

// giveUp has a request wait to be opened again. What it computed stays in the cache until others need the room.
func (s *Scheduler[B]) giveUp(r *request[B]) {
	err := r.seq.Release()
	r.seq, r.state, r.tried = nil, waiting, false
	if err != nil {
		s.end(r, Failed, err)
	}
}
