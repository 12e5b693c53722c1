package kvcache

import (
	"cmp"
	"errors"
	"flag"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/stretchr/testify/require"
)

// operations is how many operations the random histories of pools with groups have; 0: as many as there is time for.
var operations = flag.Int("group-operations", 0, "operations of a random history of a pool with groups")

// Random histories: sequences of a few prompts with beginnings in common are opened, computed in pieces, forked, cut,
// shifted, reserved, saved and loaded, and released, in a pool too small for all of them. Every row that is computed is compared with the
// model, and the books are after every operation. A million of them are -group-operations 25700 (7 minutes on a CPU).
func TestGroupsModel(t *testing.T) {
	n := cmp.Or(*operations, 150)
	if *operations == 0 && testDevice().HeadDims != nil { // a GPU, or what stands in for one
		n = 15
	}
	if *operations == 0 && testsize.Full() {
		n *= 20
	}
	for name, cfg := range kinds() {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				cfg := cfg
				cfg.Memory.Rollback = max(cfg.Memory.Rollback, []int{-1, 3, 0}[seed])
				cfg.Memory.RetainEvery = []int{1, 2, 0}[seed]
				if cfg.Memory.Layout == Paged {
					cfg.Memory.Blocks = 70
				}
				groupsHistory(newGrouped(t, cfg, seed), n)
			}
		})
	}
}

func groupsHistory(w *grouped, operations int) {
	w.t.Helper()
	w.history(operations)
	w.close()
}

// history does so many things, and gives back what there is then.
func (w *grouped) history(operations int) {
	w.t.Helper()
	for range operations {
		w.act()
		require.NoError(w.t, w.pool.Check())
		if w.events != nil {
			w.listen()
		}
	}
	for len(w.seqs) > 0 {
		w.drop(w.seqs[0])
	}
}

// The same on a device that is behind: it does nothing before somebody waits for it.
func TestGroupsModelOnALateDevice(t *testing.T) {
	n := 50
	if testDevice().HeadDims != nil {
		n = 5
	}
	for name, cfg := range chosenKinds() {
		t.Run(name, func(t *testing.T) {
			if cfg.Memory.Layout == Paged {
				cfg.Memory.Blocks = 70
			}
			r, dev, be := lateRig(t, signed(cfg))
			groupedOn(r, 5).history(n)
			closeLate(t, r, dev, be)
		})
	}
}

// act does something.
func (w *grouped) act() {
	w.t.Helper()
	if len(w.seqs) == 0 || len(w.seqs) < 5 && w.rng.IntN(5) == 0 {
		w.begin()
		return
	}
	s := w.seqs[w.rng.IntN(len(w.seqs))]
	switch w.rng.IntN(11) {
	case 10:
		again, ok := w.reborn(s.seq, w.rng.IntN(3) == 0)
		if s.seq = again; !ok {
			w.lost(s)
		}
	case 9:
		if !w.away(s.seq) {
			w.lost(s)
		}
	case 4:
		w.thin(s)
	case 0:
		w.drop(s)
	case 1:
		if child, err := s.seq.Fork(); len(w.seqs) < 6 {
			require.NoError(w.t, err)
			w.seqs = append(w.seqs, &told{child, append([]uint32(nil), s.ids...), s.draft, 0})
		} else if err == nil {
			require.NoError(w.t, child.Release())
		}
	case 2:
		w.cut(s)
	case 3:
		err := w.pool.Reserve(Reservation[buffer]{s.seq, min(len(s.ids)+w.rng.IntN(9), w.pool.cfg.Memory.Capacity)})
		if err != nil {
			require.ErrorIs(w.t, err, ErrOutOfBlocks{})
		}
	default:
		w.grow(s)
	}
}

// begin opens a sequence for a prompt that may begin as others did.
func (w *grouped) begin() {
	w.t.Helper()
	base := uint32(100 * (1 + w.rng.IntN(2)))
	var prompt []uint32
	for i := range 1 + w.rng.IntN(60) {
		prompt = append(prompt, base+uint32(i))
	}
	if at := w.rng.IntN(len(prompt)); w.rng.IntN(2) == 0 { // another from here on
		for i := at; i < len(prompt); i++ {
			prompt[i] += 1000 * uint32(1+w.rng.IntN(2))
		}
	}
	before, err := w.pool.Match(prompt, OpenOptions{})
	require.NoError(w.t, err)
	s, m := w.open(prompt)
	if w.pool.below.Offload == nil { // else more may have come for others
		require.LessOrEqual(w.t, m.Cached, before.Cached) // reservations may leave nothing to take
	}
	require.Less(w.t, m.Cached, len(prompt))
	if m.Loading > 0 && w.rng.IntN(4) > 0 {
		m = w.wait(s, prompt)
	}
	if rest := prompt[m.Cached:]; w.rng.IntN(4) > 0 {
		w.compute(s, rest)
	}
}

// compute runs the tokens in pieces, as far as there is room.
func (w *grouped) compute(s *told, ids []uint32) {
	w.t.Helper()
	for len(ids) > 0 {
		n := 1 + w.rng.IntN(len(ids))
		err := w.run(ask{s, ids[:n]})
		if errors.Is(err, ErrOutOfBlocks{}) {
			return
		}
		require.NoError(w.t, err)
		ids = ids[n:]
	}
}

// grow gives one or several sequences new tokens in a step.
func (w *grouped) grow(s *told) {
	w.t.Helper()
	var asks []ask
	for _, other := range w.seqs {
		if other != s && w.rng.IntN(3) > 0 {
			continue
		}
		room := w.pool.cfg.Memory.Capacity - len(other.ids)
		ids := other.seq.text.Tokens()
		if ids = ids[min(len(other.ids), len(ids)):]; other.seq.text.Prompt() > 0 {
			ids = append([]uint32(nil), ids[:1+w.rng.IntN(len(ids))]...)
		} else {
			ids = nil
			for range 1 + w.rng.IntN(8) {
				ids = append(ids, uint32(w.rng.IntN(3)))
			}
		}
		ids = ids[:min(len(ids), room)]
		if other.next = 0; len(ids) > 0 && other.seq.text.Prompt() == 0 && w.rng.IntN(2) == 0 {
			other.next = w.rng.IntN(len(ids) + 1)
			for i := len(ids) - other.next; i < len(ids); i++ {
				ids[i] = guesses + w.guess
				w.guess++
			}
		}
		if len(ids) > 0 {
			asks = append(asks, ask{other, ids})
		}
	}
	if len(asks) == 0 {
		return
	}
	if err := w.run(asks...); err != nil {
		require.ErrorIs(w.t, err, ErrOutOfBlocks{})
	}
}

// thin drops some tokens of a sequence, if its groups allow it: most of its last ones stay.
func (w *grouped) thin(s *told) {
	w.t.Helper()
	if len(s.ids) == 0 || w.rng.IntN(2) == 0 || w.mixes {
		return
	}
	var kept []int
	var ids []uint32
	drop := 1 + w.rng.IntN(4)
	for i, id := range s.ids {
		if i < len(s.ids)-w.rng.IntN(30) && w.rng.IntN(4) < drop {
			continue
		}
		kept, ids = append(kept, i), append(ids, id)
	}
	err := s.seq.Retain(w.s, [][]int{kept}, RetainOptions{})
	switch {
	case err == nil:
		s.ids, s.draft = ids, min(s.draft, len(ids))
	case errors.Is(err, ErrGone{}) || errors.Is(err, backend.ErrUnsupported{}) || errors.Is(err, ErrOutOfBlocks{}):
	default:
		require.NoError(w.t, err)
	}
	require.Equal(w.t, len(s.ids), s.seq.Len())
}

// cut truncates a sequence: to where it can, and not to where it cannot.
func (w *grouped) cut(s *told) {
	w.t.Helper()
	n := w.rng.IntN(len(s.ids) + 1)
	at := s.seq.Resumable(n)
	require.LessOrEqual(w.t, at, n)
	alone := w.pool.below.Offload == nil // else blocks come and go meanwhile
	if alone {
		require.Equal(w.t, at, s.seq.Resumable(at))
	}
	err := s.seq.Truncate(n)
	var resume ErrResume
	if at < n && alone || errors.As(err, &resume) {
		require.ErrorAs(w.t, err, &resume)
		require.Less(w.t, resume.At, n)
		if alone {
			require.Equal(w.t, [2]int{n, at}, [2]int{resume.Tokens, resume.At})
		}
		at = resume.At
		require.Equal(w.t, len(s.ids), s.seq.Len())
		if w.rng.IntN(2) == 0 {
			return
		}
		err = s.seq.Truncate(at)
	} else {
		at = n
	}
	if errors.Is(err, ErrOutOfBlocks{}) || !alone && errors.Is(err, ErrResume{}) {
		return
	}
	require.NoError(w.t, err)
	s.draft = max(s.draft-(len(s.ids)-at), 0)
	s.ids = s.ids[:at]
	w.accept(s)
}
