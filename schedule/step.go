package schedule

import (
	"errors"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache"
)

// advance computes a step, and reports whether there was something to compute.
func (s *Scheduler[B]) advance() bool {
	if s.gather(); len(s.step.Parts) == 0 {
		return false
	}
	if err := s.step.Batch.Plan(s.stream); err != nil {
		full := errors.Is(err, kvcache.ErrOutOfBlocks{})
		err = errors.Join(err, s.step.Batch.Reset())
		switch {
		case full && s.makeRoom():
			return s.advance()
		case full && s.others(s.step.Parts[0].of): // tiers fill blocks for one that comes later
			return false
		}
		s.fail(err)
		return true
	}
	begin := time.Now()
	for _, p := range s.step.Parts {
		if r := p.of; r.begun.IsZero() {
			r.begun, r.report.Queued = begin, begin.Sub(r.arrived)
		}
	}
	err := s.model.Forward(&s.step)
	if err == nil {
		s.computed(time.Since(begin))
		err = s.step.Batch.Commit()
	}
	if err != nil {
		s.fail(errors.Join(err, s.step.Batch.Reset()))
		return true
	}
	for i, p := range s.step.Parts {
		if p.Last {
			s.follow(i, p.of)
		}
	}
	return true
}

// gather adds the tokens of a step: the next one of every answer, and pieces of prompts in what is left.
func (s *Scheduler[B]) gather() {
	clear(s.step.Parts)
	s.step.Parts = s.step.Parts[:0]
	left := s.opt.StepTokens
	for _, answers := range [...]bool{true, false} {
		for _, r := range s.queue {
			if r.state != running || left == 0 || answers != (r.generated() > 0 && r.pending() == 1) {
				continue
			}
			n := min(max(r.seq.Piece(min(r.pending(), left)), 1), r.pending())
			if n > left { // a span, which is computed in one step: the next one has room for it
				continue
			}
			at := r.seq.Len()
			tokens := r.text[at : at+n]
			if err := s.step.Batch.Add(r.seq, tokens); err != nil {
				s.end(r, Failed, err)
				continue
			}
			s.step.Parts = append(s.step.Parts, Part[B]{Request: &r.Request, Seq: r.seq, Tokens: tokens, Last: n == r.pending(), of: r})
			left -= n
		}
	}
}

// fail ends all requests of the step.
func (s *Scheduler[B]) fail(err error) {
	for _, p := range s.step.Parts {
		s.end(p.of, Failed, err)
	}
}

// computed counts a step that is not committed yet, and tells the pool how long its prompts took.
func (s *Scheduler[B]) computed(took time.Duration) {
	tokens, prompts := 0, 0
	for _, p := range s.step.Parts {
		tokens += len(p.Tokens)
	}
	for _, p := range s.step.Parts {
		if n := len(p.Tokens); p.of.generated() == 0 {
			s.pool.Prefilled(p.Seq.Len(), n, took*time.Duration(n)/time.Duration(tokens))
			prompts += n
		}
	}
	s.measures.stepTokens.Observe(float64(tokens))
	s.count(func(st *Stats) { st.Computed += int64(prompts) })
}

// follow adds the token that follows a request's last one.
func (s *Scheduler[B]) follow(i int, r *request[B]) {
	token, last, err := s.model.Next(&s.step, i)
	if err != nil {
		s.end(r, Failed, err)
		return
	}
	r.text = append(r.text, token)
	s.followed(r, time.Now())
	r.answer.push(r.text[len(r.Prompt):])
	switch {
	case last:
		s.end(r, Stopped, nil)
	case r.generated() == r.MaxTokens || r.seq.Len() == s.cfg.Memory.Capacity:
		s.end(r, Length, nil)
	}
}
