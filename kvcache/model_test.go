package kvcache

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// machine drives a pool with random histories and compares it with lists of
// tokens. It holds for both layouts, typed and erased, on a device that works at
// once and on one that works late, with one stream and with two, in every format, those
// of quantized types within their bounds.
type machine[B backend.Buffer] struct {
	*rig[B]
	streams []backend.Stream
	seqs    []*modelSeq[B]
	nextID  uint32
}

func (m *machine[B]) ids(n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		m.nextID++
		out[i] = m.nextID
	}
	return out
}

// feed is what a sequence gets next: its prompt's tokens, then new ones.
func (m *machine[B]) feed(ms *modelSeq[B], n int) []uint32 {
	ids := ms.rest[:min(n, len(ms.rest))]
	return append(slices.Clip(ids), m.ids(n-len(ids))...)
}

func (m *machine[B]) stream(t *rapid.T) backend.Stream {
	return m.streams[rapid.IntRange(0, len(m.streams)-1).Draw(t, "stream")]
}

func (m *machine[B]) pick(t *rapid.T) *modelSeq[B] {
	if len(m.seqs) == 0 {
		m.Open(t)
	}
	return m.seqs[rapid.IntRange(0, len(m.seqs)-1).Draw(t, "sequence")]
}

func (m *machine[B]) Open(t *rapid.T) {
	if len(m.seqs) >= 6 {
		t.Skip("enough sequences")
	}
	prompt := m.ids(3)
	seq, match, err := m.pool.Open(prompt, OpenOptions{})
	require.NoError(t, err)
	require.Equal(t, 3, match.Uncached)
	ms := &modelSeq[B]{seq: seq, history: newHistory(m.pool.cfg.Model.Layers)}
	ms.rest = prompt
	m.seqs = append(m.seqs, ms)
}

// Step feeds some sequences and commits or abandons the step. When it does not
// fit, the error must say so and nothing may have changed.
func (m *machine[B]) Step(t *rapid.T) {
	m.pick(t)
	s := m.stream(t)
	var feeds []feed[B]
	var of []*modelSeq[B]
	var tooLong error // of the first that is
	for _, ms := range m.seqs {
		if n := rapid.IntRange(0, 9).Draw(t, "tokens"); n > 0 {
			feeds, of = append(feeds, feed[B]{ms.seq, m.feed(ms, n)}), append(of, ms)
			switch most := m.pool.cfg.Memory.Capacity; {
			case tooLong != nil:
			case ms.len()+n > most:
				tooLong = ErrCapacity{Have: ms.len() + n, Max: most}
			case ms.next+n > most:
				tooLong = ErrCapacity{Have: ms.next + n, Max: most, Positions: true}
			}
		}
	}
	if len(feeds) == 0 {
		t.Skip("nobody feeds")
	}
	before, err := m.pool.Stats()
	require.NoError(t, err)
	err = m.plan(s, feeds...)
	if err != nil {
		var short ErrOutOfBlocks
		switch {
		case tooLong != nil:
			require.ErrorIs(t, err, tooLong)
		case errors.As(err, &short):
			require.Greater(t, short.Need, short.Free)
		default:
			require.NoError(t, err)
		}
		after, err := m.pool.Stats()
		require.NoError(t, err)
		require.Equal(t, before.Logical, after.Logical)
		require.Equal(t, before.Reserved, after.Reserved, "a failed step keeps reservations")
		return
	}
	require.NoError(t, tooLong)
	m.t = t
	if !m.end(t, s, feeds...) {
		return
	}
	for i, ms := range of {
		ms.add(feeds[i].ids)
	}
}

// end commits a planned step, whose rows may be written twice, or gives it up, written or not.
func (r *rig[B]) end(t *rapid.T, s backend.Stream, feeds ...feed[B]) (committed bool) {
	if rapid.IntRange(0, 9).Draw(t, "fate") > 0 {
		r.write(s, feeds...)
	}
	if rapid.IntRange(0, 4).Draw(t, "abandon") == 0 {
		require.NoError(t, r.step.Reset())
		return false
	}
	r.write(s, feeds...)
	require.NoError(t, r.step.Commit())
	return true
}

func (m *machine[B]) Fork(t *rapid.T) {
	ms := m.pick(t)
	if len(m.seqs) >= 6 {
		t.Skip("enough sequences")
	}
	child, err := ms.seq.Fork()
	require.NoError(t, err)
	m.seqs = append(m.seqs, &modelSeq[B]{child, ms.clone()})
}

func (m *machine[B]) Truncate(t *rapid.T) {
	ms := m.pick(t)
	n := rapid.IntRange(-1, ms.len()+1).Draw(t, "keep")
	require.Equal(t, min(max(n, 0), ms.len()), ms.seq.Resumable(n), "every length can be gone on from")
	if err := ms.seq.Truncate(n); n < 0 || n > ms.len() {
		require.ErrorIs(t, err, backend.ErrArgument{})
	} else {
		require.NoError(t, err)
		ms.truncate(n)
	}
}

func (m *machine[B]) Shift(t *rapid.T) {
	ms := m.pick(t)
	begin := rapid.IntRange(0, ms.len()).Draw(t, "begin")
	end := rapid.IntRange(begin, ms.len()).Draw(t, "end")
	err := ms.seq.Shift(m.stream(t), begin, end)
	if errors.Is(err, ErrOutOfBlocks{}) {
		return
	}
	require.NoError(t, err)
	ms.shift(begin, end)
}

// Keep drops all but some tokens, the same in all layers or not.
func (m *machine[B]) Keep(t *rapid.T) {
	ms := m.pick(t)
	kept, o := anyKept(t, ms.len(), m.pool.cfg.Model.Layers), RetainOptions{Reposition: rapid.Bool().Draw(t, "reposition")}
	err := ms.seq.Retain(m.stream(t), kept, o)
	if errors.Is(err, ErrOutOfBlocks{}) {
		return
	}
	require.NoError(t, err)
	ms.keep(kept, o)
}

func (m *machine[B]) Reserve(t *rapid.T) {
	ms := m.pick(t)
	n := rapid.IntRange(0, m.pool.cfg.Memory.Capacity).Draw(t, "tokens")
	err := m.pool.Reserve(Reservation[B]{ms.seq, n})
	if err != nil {
		require.ErrorIs(t, err, ErrOutOfBlocks{})
		return
	}
	before, err := m.pool.Stats()
	require.NoError(t, err)
	require.NoError(t, m.pool.Reserve(Reservation[B]{ms.seq, n}))
	after, err := m.pool.Stats()
	require.NoError(t, err)
	require.Equal(t, before.Reserved, after.Reserved, "asking twice changes nothing")
}

func (m *machine[B]) Release(t *rapid.T) {
	ms := m.pick(t)
	require.NoError(t, ms.seq.Release())
	require.ErrorIs(t, ms.seq.Release(), ErrReleased)
	m.seqs = slices.DeleteFunc(m.seqs, func(o *modelSeq[B]) bool { return o == ms })
}

func (m *machine[B]) Read(t *rapid.T) {
	ms := m.pick(t)
	m.t = t
	m.expectHistory(m.stream(t), ms.seq, ms.history)
}

// check runs after every action.
func (m *machine[B]) check(t *rapid.T) { require.NoError(t, m.pool.Check()) }

// finish reads everything, releases it and looks for leaks.
func (m *machine[B]) finish(t *rapid.T) {
	m.t = t
	for _, ms := range m.seqs {
		m.expectHistory(m.streams[0], ms.seq, ms.history)
		require.NoError(t, ms.seq.Release())
	}
	for _, s := range m.streams {
		require.NoError(t, s.Sync())
	}
	require.NoError(t, m.step.Reset())
	require.NoError(t, m.pool.Check())
	st, err := m.pool.Stats()
	require.NoError(t, err)
	require.Zero(t, st.Held)
	require.Zero(t, st.Reserved)
	require.Zero(t, st.Sequences)
	require.Equal(t, st.Blocks, st.Free+st.Cached)
	require.NoError(t, m.pool.Close())
	for _, s := range m.streams {
		require.NoError(t, s.Close())
	}
}

// runMachine plays one history and leaves be as it was.
func runMachine[B backend.Buffer](t *rapid.T, be backend.Backend[B], cfg Config, streams int) {
	m := &machine[B]{rig: newRig(t, be, signed(cfg))}
	m.streams = []backend.Stream{m.s}
	for len(m.streams) < streams {
		s, err := be.NewStream()
		require.NoError(t, err)
		m.streams = append(m.streams, s)
	}
	t.Repeat(map[string]func(*rapid.T){
		"open": m.Open, "step": m.Step, "step again": m.Step, "fork": m.Fork, "truncate": m.Truncate,
		"shift": m.Shift, "keep": m.Keep, "reserve": m.Reserve, "release": m.Release, "suspend": m.Suspend, "save": m.Save, "read": m.Read, "": m.check,
	})
	m.finish(t)
}

// leavesNothing is a check of many histories, each of which leaves the device's memory as it
// found it: one that failed before, and left some, does not make the next one fail.
func leavesNothing[B backend.Buffer](be backend.Backend[B], history func(*rapid.T)) func(*testing.T) {
	return rapid.MakeCheck(func(t *rapid.T) {
		before := be.Info().Buffers
		history(t)
		require.Equal(t, before, be.Info().Buffers, "device memory leaked")
	})
}

// anyFormat is cfg in one of the formats and head sizes of the test device, of plain
// numbers or quantized. K of Int4Channel is not for pools of one place.
func anyFormat(t *rapid.T, cfg Config, quantized bool) Config {
	caps := testDevice().Caps
	formats := slices.DeleteFunc(slices.Clone(caps.Formats), func(f backend.Format) bool {
		return (f.K.Quantized() || f.V.Quantized()) != quantized || f.K == backend.Int4Channel
	})
	f := rapid.SampledFrom(formats).Draw(t, "format")
	cfg.Model.Act, cfg.Storage.K, cfg.Storage.V = f.Act, f.K, f.V
	if caps.HeadDims != nil && !cfg.Model.Latent {
		dims := rapid.SampledFrom(caps.HeadDims).Draw(t, "dims")
		cfg.Model.HeadDim, cfg.Model.VHeadDim = dims[0], dims[1]
	}
	return cfg
}

// Every history leaves sequences that read as lists of tokens do: on the CPU in its
// typed form, and on the test device as it is and with streams that run late.
func TestPoolAgainstLists(t *testing.T) {
	for _, layout := range []Layout{Contiguous, Paged} {
		cfg := small(layout)
		if layout == Paged {
			cfg.Memory.Blocks = 24 // fewer than six sequences can fill
		}
		plain := cfg
		plain.Model.HeadDim, plain.Model.VHeadDim = 4, 6
		latents := latent(cfg)
		latents.Model.KVHeads = 2
		typed, be := openCPU(t), openDevice(t)
		t.Run(layout.String()+"/typed", leavesNothing(typed, func(t *rapid.T) {
			runMachine(t, typed, plain, 1)
		}))
		t.Run(layout.String()+"/device", leavesNothing(be, func(t *rapid.T) {
			runMachine(t, be, anyFormat(t, cfg, false), rapid.IntRange(1, 2).Draw(t, "streams"))
		}))
		t.Run(layout.String()+"/quantized", leavesNothing(be, func(t *rapid.T) {
			cfg := anyFormat(t, cfg, true)
			cfg.Storage.Hadamard = cfg.Storage.K.Quantized() && rapid.Bool().Draw(t, "hadamard")
			cfg.Storage.SkipLayers = rapid.SampledFrom([][]int{nil, {0}, {1}, {1, 0}}).Draw(t, "skip")
			runMachine(t, be, cfg, 1)
		}))
		for _, quantized := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/latent, quantized %v", layout, quantized), leavesNothing(be, func(t *rapid.T) {
				if !testDevice().Latent {
					t.Skip("the device has no latent caches")
				}
				cfg := anyFormat(t, latents, quantized)
				if cfg.Storage.V = cfg.Storage.K; cfg.Storage.K.Quantized() {
					cfg.Storage.SkipLayers = rapid.SampledFrom([][]int{nil, {0}, {1}}).Draw(t, "skip")
				}
				runMachine(t, be, cfg, rapid.IntRange(1, 2).Draw(t, "streams"))
			}))
		}
		t.Run(layout.String()+"/late", leavesNothing(be, func(t *rapid.T) {
			dev := newLateDevice(be, backendtest.LateOptions{Seed: rapid.Uint64().Draw(t, "seed")})
			runMachine(t, dev, cfg, 2)
			require.NoError(t, dev.late.Drain())
		}))
		require.NoError(t, errors.Join(typed.Close(), be.Close()))
	}
}
