package kvcache

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// play is calls on sequences that have given blocks back.
type play struct {
	name   string
	do     func(s *stage)
	shares bool // sequences share blocks, which count the scores of all; one pool may find more of them than the other
}

// begun is a sequence that has given blocks back over several steps.
func (s *stage) begun() {
	s.t.Helper()
	s.act(func(w *twin) error { w.open(nil); return nil })
	s.feed(0, 9, 5, 5, 5, 6, 7, 1, 1, 1)
}

// plays are all of them. Chunks of 12 tokens begin at 36 and 48.
func plays() []play {
	return []play{
		{name: "a prompt in other pieces", do: func(s *stage) {
			ids := s.tokens(46)
			whole, pieces := []int{46}, []int{9, 5, 5, 10, 1, 1, 8, 1, 6}
			if s.gives.pool.cfg.Model.NonCausal { // tokens of a step see each other
				whole = pieces
			}
			for w, steps := range map[*twin][]int{s.gives: pieces, s.hides: whole} {
				told, _ := w.open(nil)
				for _, n := range steps {
					require.NoError(s.t, w.run(deal{told: told, ids: ids[len(told.ids):][:n]}))
				}
			}
		}},
		{name: "a rejected draft", do: func(s *stage) {
			s.begun()
			ids := s.tokens(6)
			s.act(func(w *twin) error { return w.run(deal{told: w.seqs[0], ids: ids, draft: 4}) })
			s.act(func(w *twin) error { return w.cutTo(43) })
		}},
		{name: "a fork", shares: true, do: func(s *stage) {
			s.begun()
			s.act(func(w *twin) error {
				child, err := w.seqs[0].seq.Fork()
				w.seqs = append(w.seqs, &told{seq: child, ids: append([]uint32(nil), w.seqs[0].ids...)})
				return err
			})
			s.feed(1, 3, 1)
		}},
		{name: "a prompt that was there", shares: true, do: func(s *stage) {
			s.begun()
			for _, n := range []int{40, 37, 33} {
				prompt := append(append([]uint32(nil), s.gives.seqs[0].ids[:n]...), s.tokens(9)...)
				s.act(func(w *twin) error { w.open(prompt); return nil })
				last := len(s.gives.seqs) - 1
				s.act(func(w *twin) error {
					return w.run(deal{told: w.seqs[last], ids: prompt[len(w.seqs[last].ids):]})
				})
				s.feed(last, 1, 4)
			}
		}},
		{name: "several calls of a step", do: func(s *stage) {
			s.begun()
			s.act(func(w *twin) error { w.open(nil); return nil })
			ids := s.tokens(14)
			s.act(func(w *twin) error {
				return w.run(deal{told: w.seqs[0], ids: ids[:3]}, deal{told: w.seqs[1], ids: ids[3:5]}, deal{told: w.seqs[0], ids: ids[5:]})
			})
		}},
		{name: "spans", do: func(s *stage) {
			s.begun()
			ids := s.tokens(8)
			s.act(func(w *twin) error {
				return w.run(deal{told: w.seqs[0], ids: ids, spans: []Span{{Begin: 2, End: 6}}})
			})
		}},
		{name: "queries", do: func(s *stage) {
			s.begun()
			for _, views := range [][]View{{{40, 40}, {43, 40}}, {{39, 40}, {39, 38}}, {{37, 40}}, {{30, 31}}, {{20, 40}}, {{3, 4}}} {
				s.act(func(w *twin) error { return w.run(deal{told: w.seqs[0], views: views}) })
			}
		}},
		{name: "a tree", do: func(s *stage) {
			s.begun()
			ids := s.tokens(6)
			s.act(func(w *twin) error {
				return w.run(deal{told: w.seqs[0], ids: ids, parents: []int{-1, 0, 0, 2, -1, 3}, path: []int{0, 2, 3}})
			})
		}},
		{name: "steps of one shape", do: func(s *stage) {
			s.begun()
			s.act(func(w *twin) error { return errors.Join(w.step.Reset(), w.step.FixShape(1, 1)) })
			s.feed(0, 1, 1)
			s.act(func(w *twin) error { return errors.Join(w.step.Reset(), w.step.FixShape(0, 0)) })
		}},
		{name: "Retain", do: func(s *stage) {
			s.begun()
			for _, dropped := range [][]int{{8, 9, 10, 11}, {20, 25, 34}, {31}} {
				s.act(func(w *twin) error { return w.without(dropped, RetainOptions{}) })
				s.feed(0, 2)
			}
			if s.gives.pool.cfg.Model.RoPE != nil {
				s.act(func(w *twin) error { return w.without([]int{12, 13, 14, 15}, RetainOptions{Reposition: true}) })
			}
		}},
		{name: "Shift", do: func(s *stage) {
			s.begun()
			for _, r := range [][2]int{{8, 12}, {13, 18}, {29, 31}} {
				s.act(func(w *twin) error { return w.shift(r[0], r[1]) })
				s.feed(0, 2)
			}
		}},
		{name: "Suspend and Resume", do: func(s *stage) {
			s.begun()
			s.act(func(w *twin) error { require.True(s.t, w.away(w.seqs[0].seq)); return nil })
		}},
		{name: "Save and Read", do: func(s *stage) {
			s.begun()
			s.act(func(w *twin) (err error) {
				again, ok := w.reborn(w.seqs[0].seq, false)
				require.True(s.t, ok)
				w.seqs[0].seq = again
				return nil
			})
		}},
	}
}

// cutTo truncates the first sequence.
func (w *twin) cutTo(n int) error {
	err := w.seqs[0].seq.Truncate(n)
	if err == nil {
		w.seqs[0].ids, w.seqs[0].draft = w.seqs[0].ids[:n], 0
	}
	return err
}

// without drops tokens of the first sequence.
func (w *twin) without(dropped []int, o RetainOptions) error {
	var kept []int
	var ids []uint32
	for i, id := range w.seqs[0].ids {
		if len(dropped) > 0 && i == dropped[0] {
			dropped = dropped[1:]
			continue
		}
		kept, ids = append(kept, i), append(ids, id)
	}
	err := w.seqs[0].seq.Retain(w.s, [][]int{kept}, o)
	if err == nil {
		w.seqs[0].ids = ids
	}
	return err
}

// shift drops tokens of the first sequence, and rotates the remaining keys if keys are rotated.
func (w *twin) shift(begin, end int) error {
	seq := w.seqs[0].seq
	var err error
	if w.pool.cfg.Model.RoPE != nil {
		err = seq.Shift(w.s, begin, end)
	} else {
		err = seq.ShiftBy(w.s, begin, end, func(Turn[buffer]) error { return nil })
	}
	if err == nil {
		w.seqs[0].ids = append(append([]uint32(nil), w.seqs[0].ids[:begin]...), w.seqs[0].ids[end:]...)
	}
	return err
}

// feature is something of layers or storage that depends on places or distances, or adds to one that does.
type feature struct {
	name string
	set  func(c *Config)
}

func features() []feature {
	alibi := func(c *Config) {
		for i := range c.Model.Masks {
			c.Model.Masks[i].ALiBi = []float32{0.25, -0.125, 0.0625, 0}
		}
	}
	residual := func(n int) func(c *Config) {
		return func(c *Config) { c.Storage.K, c.Model.Act, c.Storage.Residual = backend.Int8, backend.F32, n }
	}
	encoder := func(c *Config) { c.Model.NonCausal, c.Memory.Prefix = true, prefix.Off }
	scores := func(c *Config) { c.Attention.Scores = true }
	both := func(a, b func(c *Config)) func(c *Config) { return func(c *Config) { a(c); b(c) } }
	return []feature{
		{"RoPE", func(c *Config) { c.Model.RoPE = &backend.RoPE{} }},
		{"ALiBi", alibi},
		{"soft cap and sink logits", func(c *Config) {
			for i := range c.Model.Masks {
				c.Model.Masks[i].SoftCap, c.Model.Masks[i].SinkLogits = 0.7, []float32{1, -1, 0.5, 0}
			}
		}},
		{"attention scores", scores},
		{"a residual of 7", residual(7)},
		{"a residual of 20", residual(20)},
		{"ALiBi, scores, a residual of 7", both(both(alibi, scores), residual(7))},
		{"scores, a residual of 20", both(scores, residual(20))},
		{"NonCausal, ALiBi", both(encoder, alibi)},
	}
}
