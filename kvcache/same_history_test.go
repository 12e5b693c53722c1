package kvcache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/stretchr/testify/require"
)

// sameHistory is sequences that read texts in a pool.
type sameHistory struct {
	*bitwise
	rig      *rig[*cpu.Buffer]
	rng      *rand.Rand
	readings []*reading
	shaped   bool // steps have one shape
	exact    bool // older tokens are stored in few bits: a sequence that goes back finds them so
	done     []string
}

func (h *sameHistory) note(format string, args ...any) {
	h.done = append(h.done, fmt.Sprintf(format, args...))
}

// act does something.
func (h *sameHistory) act() {
	if len(h.readings) < 4 && (len(h.readings) == 0 || chance(h.rng, 5)) {
		h.begin()
		return
	}
	s := pick(h.rng, h.readings...)
	switch h.rng.IntN(13) {
	case 0:
		require.NoError(h.t, s.seq.Release())
		h.readings = slices.DeleteFunc(h.readings, func(o *reading) bool { return o == s })
		h.note("release of %p", s)
	case 1:
		if child, err := s.seq.Fork(); len(h.readings) > 4 {
			require.NoError(h.t, errors.Join(err, child.Release()))
		} else {
			require.NoError(h.t, err)
			h.readings = append(h.readings, &reading{child, s.text, s.have})
			h.note("fork of %p", s)
		}
	case 2:
		h.back(s)
	case 3:
		require.NoError(h.t, s.seq.Suspend())
		require.NoError(h.t, s.seq.Resume())
		h.note("%p was away", s)
	case 4:
		again, ok := h.rig.reborn(s.seq, chance(h.rng, 2))
		require.True(h.t, ok)
		s.seq = again
		h.note("%p was saved", s)
	case 5:
		h.ask(s)
	case 6:
		require.NoError(h.t, h.rig.step.Reset())
		if h.shaped = !h.shaped; h.shaped {
			require.NoError(h.t, h.rig.step.FixShape(5, 1))
		} else {
			require.NoError(h.t, h.rig.step.FixShape(0, 0))
		}
	default:
		h.read()
	}
}

// begin opens a text.
func (h *sameHistory) begin() {
	s := &reading{text: h.rng.IntN(len(h.texts))}
	prompt := h.texts[s.text]
	if h.exact {
		prompt = nil
	}
	seq, m, err := h.rig.pool.Open(prompt, OpenOptions{})
	require.NoError(h.t, err)
	if m.Loading > 0 {
		m, err = seq.Wait(context.Background())
		require.NoError(h.t, err)
	}
	s.seq, s.have = seq, m.Cached
	h.readings = append(h.readings, s)
	h.note("%p begins with %d of text %d", s, s.have, s.text)
}

// back cuts a sequence.
func (h *sameHistory) back(s *reading) {
	most := 20
	if h.exact { // what is certain to be unchanged
		most = h.cfg.Memory.BlockSize
		if len(h.cfg.Model.Groups) > 0 {
			most = min(most, max(h.rig.pool.cfg.Memory.Rollback, 0))
		}
	}
	n := s.seq.Resumable(s.have - h.rng.IntN(min(s.have, most)+1))
	if h.exact && n < s.have-most && n > 0 {
		return
	}
	if err := s.seq.Truncate(n); err == nil {
		s.have = n
		h.note("%p goes back to %d", s, n)
	}
}

// ask asks for tokens that a sequence has.
func (h *sameHistory) ask(s *reading) {
	if h.exact || h.shaped || s.have == 0 || h.cfg.Model.RoPE != nil || h.cfg.Storage.Hadamard {
		return
	}
	p := piece{s, 1 + h.rng.IntN(min(s.have, 5)), true}
	got, err := h.compute(h.rig, p)
	if err != nil {
		return // a state, or tokens that a window has given up
	}
	h.note("%p asks for %d before %d", s, p.n, s.have)
	h.check(got, p)
}

// read is a step of some sequences.
func (h *sameHistory) read() {
	var pieces []piece
	for _, s := range h.readings {
		left := len(h.texts[s.text]) - s.have
		if left == 0 || len(pieces) > 0 && chance(h.rng, 2) {
			continue
		}
		n := min(left, pick(h.rng, 1, 1, 1+h.rng.IntN(9), 1+h.rng.IntN(70), 1+h.rng.IntN(left)))
		if n = s.seq.Piece(n); h.shaped {
			n = 1
		}
		pieces = append(pieces, piece{reading: s, n: n})
	}
	if len(pieces) == 0 {
		return
	}
	got, err := h.compute(h.rig, pieces...)
	if errors.Is(err, ErrOutOfBlocks{}) {
		return
	}
	require.NoError(h.t, err)
	for _, p := range pieces {
		h.note("%p reads %d up to %d", p.reading, p.n, p.have)
	}
	h.check(got, pieces...)
}

func (h *sameHistory) check(got []answers, pieces ...piece) {
	if what := h.differs(got, pieces...); what != "" {
		c := h.rig.pool.cfg
		require.Fail(h.t, what, "%+v\nof %+v\n%+v %+v\ntexts of %d and %d tokens\n%v", c.Model, c.Model.Groups, c.Storage, c.Memory, len(h.texts[0]), len(h.texts[1]), h.done)
	}
}
