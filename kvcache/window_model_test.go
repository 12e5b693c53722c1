package kvcache

import (
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// windowMachine drives a pool with a recent window with random histories and compares it
// with lists of tokens.
type windowMachine struct {
	*rig[buffer]
	streams []backend.Stream
	seqs    []*windowedSeq
	nextID  uint32
}

type windowedSeq struct {
	seq *Sequence[buffer]
	*remembered
}

func (m *windowMachine) pick(t *rapid.T) *windowedSeq {
	if len(m.seqs) == 0 {
		m.Open(t)
	}
	return m.seqs[rapid.IntRange(0, len(m.seqs)-1).Draw(t, "sequence")]
}

func (m *windowMachine) stream(t *rapid.T) backend.Stream {
	return m.streams[rapid.IntRange(0, len(m.streams)-1).Draw(t, "stream")]
}

func (m *windowMachine) Open(t *rapid.T) {
	if len(m.seqs) >= 5 {
		t.Skip("enough sequences")
	}
	m.t = t
	m.seqs = append(m.seqs, &windowedSeq{m.open(), &remembered{}})
}

// Step feeds some sequences and commits or abandons the step. What does not fit changes
// no content, and is planned again with less.
func (m *windowMachine) Step(t *rapid.T) {
	m.pick(t)
	m.t = t
	s := m.stream(t)
	var feeds []feed[buffer]
	var of []*windowedSeq
	var tooLong error
	c := m.pool.cfg
	for _, ms := range m.seqs {
		n := rapid.SampledFrom([]int{0, 1, 1, 3, 9, 17}).Draw(t, "tokens")
		if n == 0 {
			continue
		}
		ids := make([]uint32, n)
		for i := range ids {
			m.nextID++
			ids[i] = m.nextID
		}
		switch {
		case tooLong != nil:
		case len(ms.ids)+n > c.Memory.Capacity:
			tooLong = ErrCapacity{}
		case ms.next+n > c.Memory.Capacity:
			tooLong = ErrCapacity{}
		}
		feeds, of = append(feeds, feed[buffer]{ms.seq, ids}), append(of, ms)
	}
	if len(feeds) == 0 {
		t.Skip("nobody feeds")
	}
	before, err := m.pool.Stats()
	require.NoError(t, err)
	err = m.plan(s, feeds...)
	if err != nil {
		if tooLong != nil {
			require.ErrorIs(t, err, tooLong)
		} else {
			require.ErrorIs(t, err, ErrOutOfBlocks{})
		}
		after, err := m.pool.Stats()
		require.NoError(t, err)
		require.Equal(t, before.Reserved, after.Reserved, "a failed step keeps reservations")
		return
	}
	require.NoError(t, tooLong)
	if !m.end(t, s, feeds...) {
		return
	}
	for i, ms := range of {
		ms.step(m.pool.cfg, feeds[i].ids)
	}
}

func (m *windowMachine) Fork(t *rapid.T) {
	ms := m.pick(t)
	if len(m.seqs) >= 5 {
		t.Skip("enough sequences")
	}
	child, err := ms.seq.Fork()
	require.NoError(t, err)
	m.seqs = append(m.seqs, &windowedSeq{child, ms.clone()})
}

// Truncate cuts anywhere: in the window, or in the quantized tokens.
func (m *windowMachine) Truncate(t *rapid.T) {
	ms := m.pick(t)
	n := rapid.IntRange(-1, len(ms.ids)+1).Draw(t, "keep")
	if err := ms.seq.Truncate(n); n < 0 || n > len(ms.ids) {
		require.ErrorIs(t, err, backend.ErrArgument{})
	} else {
		require.NoError(t, err)
		ms.truncate(m.pool.cfg, n)
	}
}

// Shift drops tokens anywhere, and turns the keys of those behind them.
func (m *windowMachine) Shift(t *rapid.T) {
	ms := m.pick(t)
	m.t = t
	begin := rapid.IntRange(0, len(ms.ids)).Draw(t, "begin")
	end := rapid.IntRange(begin, len(ms.ids)).Draw(t, "end")
	if err := ms.seq.Shift(m.stream(t), begin, end); err != nil {
		require.ErrorIs(t, err, ErrOutOfBlocks{})
		return
	}
	var kept []int
	for i := range ms.ids {
		if i < begin || i >= end {
			kept = append(kept, i)
		}
	}
	if begin == end {
		return
	}
	pos := ms.pos
	ms.next -= end - begin
	ms.keep(m.pool.cfg, ms.seq, kept, func(i int) int {
		if i < begin {
			return pos[i]
		}
		return pos[kept[i]] - (end - begin)
	})
}

// Keep drops all but some tokens.
func (m *windowMachine) Keep(t *rapid.T) {
	ms := m.pick(t)
	m.t = t
	kept, o := anyKept(t, len(ms.ids), 1), RetainOptions{Reposition: rapid.Bool().Draw(t, "reposition")}
	if err := ms.seq.Retain(m.stream(t), kept, o); err != nil {
		require.ErrorIs(t, err, ErrOutOfBlocks{})
		return
	}
	pos := ms.pos
	if o.Reposition {
		ms.next = len(kept[0])
	}
	ms.keep(m.pool.cfg, ms.seq, kept[0], func(i int) int {
		if o.Reposition {
			return i
		}
		return pos[kept[0][i]]
	})
}

func (m *windowMachine) Reserve(t *rapid.T) {
	ms := m.pick(t)
	err := m.pool.Reserve(Reservation[buffer]{ms.seq, rapid.IntRange(0, m.pool.cfg.Memory.Capacity).Draw(t, "tokens")})
	if err != nil {
		require.ErrorIs(t, err, ErrOutOfBlocks{})
	}
}

func (m *windowMachine) Release(t *rapid.T) {
	ms := m.pick(t)
	require.NoError(t, ms.seq.Release())
	require.ErrorIs(t, ms.seq.Release(), ErrReleased)
	m.seqs = slices.DeleteFunc(m.seqs, func(o *windowedSeq) bool { return o == ms })
}

func (m *windowMachine) Read(t *rapid.T) {
	ms := m.pick(t)
	m.t = t
	m.expectWindow(m.stream(t), ms.seq, ms.remembered)
}

func (m *windowMachine) check(t *rapid.T) {
	require.NoError(t, m.pool.Check())
	for _, ms := range m.seqs {
		ms.matches(t, ms.seq)
	}
}

func (m *windowMachine) finish(t *rapid.T) {
	m.t = t
	for _, ms := range m.seqs {
		m.expectWindow(m.streams[0], ms.seq, ms.remembered)
		require.NoError(t, ms.seq.Release())
	}
	for _, s := range m.streams {
		require.NoError(t, s.Sync())
	}
	require.NoError(t, m.step.Reset())
	st, err := m.pool.Stats()
	require.NoError(t, err)
	require.Zero(t, st.Held+st.Reserved+st.Sequences+st.Retired+st.Logical)
	require.Equal(t, st.Blocks, st.Free+st.Cached)
	recent := m.pool.parts.All[0].Written.Stats()
	require.Zero(t, recent.Held+recent.Reserved+recent.Retired+m.pool.parts.All[0].Written.Logical)
	require.Equal(t, recent.Blocks, recent.Free)
	require.NoError(t, m.pool.Close())
	for _, s := range m.streams {
		require.NoError(t, s.Close())
	}
}

func runWindows(t *rapid.T, be backend.Backend[buffer], cfg Config, streams int) {
	cfg.Memory.StepTokens = rapid.SampledFrom([]int{1, 10, cfg.Memory.StepTokens}).Draw(t, "step tokens") // steps with more go through a staging
	m := &windowMachine{rig: newRig(t, be, signed(cfg))}
	m.streams = []backend.Stream{m.s}
	for len(m.streams) < streams {
		s, err := be.NewStream()
		require.NoError(t, err)
		m.streams = append(m.streams, s)
	}
	t.Repeat(map[string]func(*rapid.T){
		"open": m.Open, "step": m.Step, "step again": m.Step, "step and again": m.Step, "fork": m.Fork, "truncate": m.Truncate, "shift": m.Shift, "keep": m.Keep,
		"reserve": m.Reserve, "release": m.Release, "suspend": m.Suspend, "save": m.Save, "read": m.Read, "": m.check,
	})
	m.finish(t)
}

// Every history of sequences whose tokens lie in two places reads as lists do: exact what
// is in the window, within the format's bound what is older.
func TestWindowAgainstLists(t *testing.T) {
	be := openDevice(t)
	formats := windowFormats(backend.F32)
	if len(formats) == 0 {
		t.Skip("the device has no format for it")
	}
	anyConfig := func(t *rapid.T) Config {
		cfg := windowConfig(rapid.SampledFrom(formats).Draw(t, "format"))
		cfg.Storage.SkipLayers = rapid.SampledFrom([][]int{nil, {0}, {1}}).Draw(t, "exact layers")
		cfg.Storage.Hadamard = rapid.Bool().Draw(t, "turned")
		cfg.Storage.Residual = rapid.SampledFrom([]int{1, 4, 6, 9}).Draw(t, "window")
		if testDevice().HeadDims == nil {
			cfg.Model.HeadDim, cfg.Model.VHeadDim = 4, 6
		}
		cfg.Memory.Blocks = rapid.SampledFrom([]int{6, 20, 80}).Draw(t, "blocks")
		cfg.Memory.MaxSeqs = rapid.IntRange(1, 4).Draw(t, "recent")
		return cfg
	}
	t.Run("device", leavesNothing(be, func(t *rapid.T) {
		runWindows(t, be, anyConfig(t), rapid.IntRange(1, 2).Draw(t, "streams"))
	}))
	t.Run("late", leavesNothing(be, func(t *rapid.T) {
		dev := newLateDevice(be, backendtest.LateOptions{Seed: rapid.Uint64().Draw(t, "seed")})
		runWindows(t, dev, anyConfig(t), 2)
		require.NoError(t, dev.late.Drain())
	}))
	require.NoError(t, be.Close())
}
