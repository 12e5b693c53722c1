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
	err := s.step.Batch.Plan(s.stream)
	full := errors.Is(err, kvcache.ErrOutOfBlocks{})
	if err == nil {
		err = s.compute()
	}
	if err != nil {
		err = errors.Join(err, s.step.Batch.Reset())
		switch {
		case full && s.makeRoom(nil):
			return s.advance()
		case full && s.others(s.step.Parts[0].of): // tiers fill blocks for one that comes later
			return false
		}
		for _, p := range s.step.Parts {
			s.end(p.of, Failed, err)
		}
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
			if r.begins && !s.join(r) {
				continue
			}
			n := min(max(r.seq.Piece(min(r.pending(), left)), 1), r.pending())
			if n > left { // a span, which is computed in one step: the next one has room for it
				continue
			}
			tokens := r.text[r.seq.Len():][:n]
			if err := s.step.Batch.Add(r.seq, tokens); err != nil {
				s.end(r, Failed, err)
				continue
			}
			r.begins = false
			s.step.Parts = append(s.step.Parts, Part[B]{Request: &r.Request, Seq: r.seq, Tokens: tokens, Last: n == r.pending(), of: r})
			left -= n
		}
	}
}

// join has a request begin with what the step computes for others, and reports whether nobody is about to compute more of its prompt.
func (s *Scheduler[B]) join(r *request[B]) bool {
	m, err := s.step.Batch.Join(r.seq)
	switch {
	case err != nil:
		s.end(r, Failed, err)
		return false
	case m.Pending > 0:
		return false
	case r.begun.IsZero():
		r.report.Match.Cached, r.report.Match.Uncached = m.Cached, m.Uncached
	}
	return true
}

// compute computes a planned step, and tells the pool how long its prompts took.
func (s *Scheduler[B]) compute() error {
	begin, tokens := time.Now(), 0
	for _, p := range s.step.Parts {
		tokens += len(p.Tokens)
		if r := p.of; r.begun.IsZero() {
			r.begun, r.report.Queued = begin, begin.Sub(r.arrived)
		}
	}
	if err := s.model.Forward(&s.step); err != nil {
		return err
	}
	took := time.Since(begin)
	for _, p := range s.step.Parts {
		if n := len(p.Tokens); p.of.generated() == 0 {
			s.pool.Prefilled(p.Seq.Len(), n, took*time.Duration(n)/time.Duration(tokens))
			s.count(func(st *Stats) { st.Computed += int64(n) })
		}
	}
	s.measures.stepTokens.Observe(float64(tokens))
	return s.step.Batch.Commit()
}

// follow adds the token that follows a request's last one.
func (s *Scheduler[B]) follow(i int, r *request[B]) {
	token, last, err := s.model.Next(&s.step, i)
	if err != nil {
		s.end(r, Failed, err)
		return
	}
	r.text = append(r.text, token)
	r.report.Tokens++
	now := time.Now()
	if r.generated() == 1 {
		prompt, cached := int64(len(r.Prompt)), int64(r.report.Match.Cached)
		s.count(func(st *Stats) { st.Prompt, st.Cached = st.Prompt+prompt, st.Cached+cached })
		r.first, r.report.Prefill = now, now.Sub(r.begun)
		s.measures.firstToken.Observe(now.Sub(r.arrived).Seconds())
		s.measures.queued.Observe(r.report.Queued.Seconds())
	} else {
		s.measures.betweenTokens.Observe(now.Sub(r.latest).Seconds())
	}
	r.latest, r.report.Decode = now, now.Sub(r.first)
	s.count(func(st *Stats) { st.Generated++ })
	r.answer.show(r.text[len(r.Prompt):], r.report)
	switch {
	case last:
		s.end(r, Stopped, nil)
	case r.generated() == r.MaxTokens || r.seq.Len() == s.cfg.Memory.Capacity:
		s.end(r, Length, nil)
	}
}
