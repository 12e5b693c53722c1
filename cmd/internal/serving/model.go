package serving

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/schedule"
)

type step = schedule.Step[backend.AnyBuffer]

// model computes the steps of a scheduler with a runner.
type model struct {
	runner *runner.Runner[backend.AnyBuffer]
	stops  func(token uint32) bool
	work   []runner.Work[backend.AnyBuffer]
	logits runner.Logits
	rows   []int // of logits, for each part
}

// Forward is schedule.Model's.
func (m *model) Forward(s *step) (err error) {
	m.work, m.rows = m.work[:0], m.rows[:0]
	rows := 0
	for _, p := range s.Parts {
		m.work, m.rows = append(m.work, runner.Work[backend.AnyBuffer]{Seq: p.Seq, Tokens: p.Tokens}), append(m.rows, rows)
		if p.Last {
			rows++
		}
	}
	m.logits, err = m.runner.Step(m.work, func(i int) bool { return s.Parts[i].Last })
	return err
}

// Next is schedule.Model's.
func (m *model) Next(s *step, i int) (token uint32, last bool, err error) {
	v := s.Parts[i].Request.State.(*voice)
	token = v.sampler.Sample(m.logits.Row(m.rows[i]), nil)
	last = m.stops(token)
	return token, v.hear(token, last) || last, nil
}
