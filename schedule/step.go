package schedule

import (
	"errors"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache"
)

// advance computes a step, and reports whether there was something to compute.
func (s *Scheduler[B]) advance() bool {
	for {
		if s.gather(); len(s.parts) == 0 {
			return false
		}
		err := s.step.Batch.Plan(s.stream)
		if err == nil {
			break
		}
		full := errors.Is(err, kvcache.ErrOutOfBlocks{})
		err = errors.Join(err, s.step.Batch.Reset())
		if !full || !s.makeRoom() {
			s.fail(err)
			return true
		}
	}
	begin := time.Now()
	for _, r := range s.parts {
		if r.begun.IsZero() {
			r.begun, r.report.Queued = begin, begin.Sub(r.arrived)
		}
	}
	err := s.model.Forward(&s.step)
	if err == nil {
		err = s.step.Batch.Commit()
	}
	if err != nil {
		s.fail(errors.Join(err, s.step.Batch.Reset()))
		return true
	}
	s.computed(time.Since(begin))
	for i, r := range s.parts {
		if s.step.Parts[i].Last {
			s.follow(i, r)
		}
	}
	return true
}

// gather adds the tokens of a step: the next one of every answer, and pieces of prompts in what is left.
func (s *Scheduler[B]) gather() {
	s.step.Parts, s.parts = s.step.Parts[:0], s.parts[:0]
	left := s.opt.StepTokens
	for _, answers := range [...]bool{true, false} {
		for _, r := range s.queue {
			if r.state != running || left == 0 || answers != (r.generated() > 0 && r.pending() == 1) {
				continue
			}
			n := min(r.pending(), left)
			n = min(max(r.seq.Piece(n), 1), r.pending())
			if n > left && len(s.parts) > 0 { // tokens that are computed in one step: it has the next one for itself
				continue
			}
			at := r.seq.Len()
			tokens := r.text[at : at+n]
			if err := s.step.Batch.Add(r.seq, tokens); err != nil {
				s.end(r, Failed, err)
				continue
			}
			s.step.Parts = append(s.step.Parts, Part[B]{Request: &r.Request, Seq: r.seq, Tokens: tokens, Last: n == len(r.text)-at})
			s.parts = append(s.parts, r)
			left = max(left-n, 0)
		}
	}
}

// fail ends all requests of the step.
func (s *Scheduler[B]) fail(err error) {
	for _, r := range s.parts {
		s.end(r, Failed, err)
	}
}

// computed counts a step.
func (s *Scheduler[B]) computed(took time.Duration) {
	tokens, prompts := 0, 0
	for i := range s.step.Parts {
		tokens += len(s.step.Parts[i].Tokens)
	}
	for i, r := range s.parts {
		if n := len(s.step.Parts[i].Tokens); r.generated() == 0 {
			s.pool.Prefilled(r.seq.Len()-n, n, took*time.Duration(n)/time.Duration(tokens)) // its part of the time
			prompts += n
		}
	}
	s.measures.stepTokens.Observe(float64(tokens))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Steps++
	s.stats.Computed += int64(prompts)
}

// follow adds the token that follows a request's last one.
func (s *Scheduler[B]) follow(i int, r *request[B]) {
	token, last, err := s.model.Next(&s.step, i)
	if err != nil {
		s.end(r, Failed, err)
		return
	}
	r.text = append(r.text, token)
	s.timed(r, time.Now())
	r.answer.push(token)
	switch {
	case last:
		s.end(r, Stopped, nil)
	case r.generated() == r.MaxTokens || r.seq.Len() == s.shape.capacity:
		s.end(r, Length, nil)
	}
}

// timed notes when a token came.
func (s *Scheduler[B]) timed(r *request[B], now time.Time) {
	if r.generated() == 1 {
		r.first, r.report.Prefill = now, now.Sub(r.begun)
		s.measures.firstToken.Observe(now.Sub(r.arrived).Seconds())
	} else {
		s.measures.betweenTokens.Observe(now.Sub(r.latest).Seconds())
	}
	r.latest = now
	s.mu.Lock()
	s.stats.Generated++
	s.mu.Unlock()
}
