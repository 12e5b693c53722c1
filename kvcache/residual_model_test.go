package kvcache

import (
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// tierMachine drives a pool with a recent window with random histories and compares it
// with lists of tokens.
type tierMachine struct {
	*rig[buffer]
	streams []backend.Stream
	seqs    []*tieredSeq
	nextID  uint32
}

type tieredSeq struct {
	seq *Sequence[buffer]
	*tiered
}

func (m *tierMachine) pick(t *rapid.T) *tieredSeq {
	if len(m.seqs) == 0 {
		m.Open(t)
	}
	return m.seqs[rapid.IntRange(0, len(m.seqs)-1).Draw(t, "sequence")]
}

func (m *tierMachine) stream(t *rapid.T) backend.Stream {
	return m.streams[rapid.IntRange(0, len(m.streams)-1).Draw(t, "stream")]
}

func (m *tierMachine) Open(t *rapid.T) {
	if len(m.seqs) >= 5 {
		t.Skip("enough sequences")
	}
	m.t = t
	m.seqs = append(m.seqs, &tieredSeq{m.open(), &tiered{}})
}

// Step feeds some sequences and commits or abandons the step. What does not fit changes
// no content, and is planned again with less.
func (m *tierMachine) Step(t *rapid.T) {
	m.pick(t)
	m.t = t
	s := m.stream(t)
	var feeds []feed[buffer]
	var of []*tieredSeq
	rows := 0
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
		rows += n
		switch {
		case tooLong != nil:
		case len(ms.ids)+n > c.Capacity:
			tooLong = ErrCapacity{}
		case rows > c.StepTokens:
			tooLong = backend.ErrShape{}
		}
		feeds, of = append(feeds, feed[buffer]{ms.seq, ids}), append(of, ms)
	}
	if len(feeds) == 0 {
		t.Skip("nobody feeds")
	}
	before, err := m.pool.Stats()
	require.NoError(t, err)
	err = m.plan(s, feeds...)
	for _, ms := range of {
		if tooLong == nil {
			ms.settled(t, ms.seq, err == nil)
		}
	}
	if err != nil {
		if tooLong != nil {
			require.ErrorIs(t, err, tooLong)
		} else {
			require.ErrorIs(t, err, ErrOutOfBlocks{})
		}
		after, err := m.pool.Stats()
		require.NoError(t, err)
		require.LessOrEqual(t, after.Reserved, before.Reserved)
		return
	}
	require.NoError(t, tooLong)
	if rapid.IntRange(0, 9).Draw(t, "fate") > 0 {
		m.write(s, feeds...)
	}
	if rapid.IntRange(0, 4).Draw(t, "abandon") == 0 {
		require.NoError(t, m.step.Reset())
		return
	}
	m.write(s, feeds...)
	require.NoError(t, m.step.Commit())
	for i, ms := range of {
		ms.ids = append(slices.Clip(ms.ids), feeds[i].ids...)
		ms.rounds = append(slices.Clip(ms.rounds), make([]int, len(feeds[i].ids))...)
		ms.settled(t, ms.seq, false) // as far as there were blocks
	}
}

func (m *tierMachine) Fork(t *rapid.T) {
	ms := m.pick(t)
	if len(m.seqs) >= 5 {
		t.Skip("enough sequences")
	}
	child, err := ms.seq.Fork()
	require.NoError(t, err)
	m.seqs = append(m.seqs, &tieredSeq{child, &tiered{slices.Clip(ms.ids), slices.Clone(ms.rounds), ms.sealed}})
}

// Truncate cuts anywhere: in the window, or in the quantized tokens.
func (m *tierMachine) Truncate(t *rapid.T) {
	ms := m.pick(t)
	n := rapid.IntRange(-1, len(ms.ids)+1).Draw(t, "keep")
	if err := ms.seq.Truncate(n); n < 0 || n > len(ms.ids) {
		require.ErrorIs(t, err, backend.ErrShape{})
	} else {
		require.NoError(t, err)
		ms.ids, ms.rounds, ms.sealed = ms.ids[:n], slices.Clone(ms.rounds[:n]), min(ms.sealed, n)
	}
}

func (m *tierMachine) Reserve(t *rapid.T) {
	ms := m.pick(t)
	err := m.pool.Reserve(Reservation[buffer]{ms.seq, rapid.IntRange(0, m.pool.cfg.Capacity).Draw(t, "tokens")})
	if err != nil {
		require.ErrorIs(t, err, ErrOutOfBlocks{})
	}
}

func (m *tierMachine) Release(t *rapid.T) {
	ms := m.pick(t)
	require.NoError(t, ms.seq.Release())
	require.ErrorIs(t, ms.seq.Release(), ErrReleased)
	m.seqs = slices.DeleteFunc(m.seqs, func(o *tieredSeq) bool { return o == ms })
}

func (m *tierMachine) Read(t *rapid.T) {
	ms := m.pick(t)
	m.t = t
	m.expectTiers(m.stream(t), ms.seq, ms.tiered)
}

func (m *tierMachine) check(t *rapid.T) {
	require.NoError(t, m.pool.Check())
	for _, ms := range m.seqs {
		require.Equal(t, len(ms.ids), ms.seq.Len())
		require.Equal(t, len(ms.ids), ms.seq.Next())
		require.Equal(t, ms.sealed, ms.seq.len)
	}
}

func (m *tierMachine) finish(t *rapid.T) {
	m.t = t
	for _, ms := range m.seqs {
		m.expectTiers(m.streams[0], ms.seq, ms.tiered)
		require.NoError(t, ms.seq.Release())
	}
	for _, s := range m.streams {
		require.NoError(t, s.Sync())
	}
	require.NoError(t, m.step.Reset())
	for _, p := range []*Pool[buffer]{m.pool, m.pool.recent} {
		st, err := p.Stats()
		require.NoError(t, err)
		require.Zero(t, st.Held+st.Reserved+st.Sequences+st.Retired+st.Logical)
		require.Equal(t, st.Blocks, st.Free)
	}
	require.NoError(t, m.pool.Close())
	for _, s := range m.streams {
		require.NoError(t, s.Close())
	}
}

func runTiers(t *rapid.T, be backend.Backend[buffer], cfg Config, streams int) {
	m := &tierMachine{rig: newRig(t, be, cfg)}
	m.streams = []backend.Stream{m.s}
	for len(m.streams) < streams {
		s, err := be.NewStream()
		require.NoError(t, err)
		m.streams = append(m.streams, s)
	}
	t.Repeat(map[string]func(*rapid.T){
		"open": m.Open, "step": m.Step, "step again": m.Step, "step and again": m.Step, "fork": m.Fork, "truncate": m.Truncate,
		"reserve": m.Reserve, "release": m.Release, "read": m.Read, "": m.check,
	})
	m.finish(t)
}

// Every history of sequences whose tokens lie in two places reads as lists do: exact what
// is in the window, within the format's bound what is older.
func TestResidualAgainstLists(t *testing.T) {
	be := openDevice(t)
	formats := residualFormats(backend.F32)
	if len(formats) == 0 {
		t.Skip("the device has no format for it")
	}
	anyConfig := func(t *rapid.T) Config {
		cfg := residualConfig(rapid.SampledFrom(formats).Draw(t, "format"))
		cfg.Residual = rapid.SampledFrom([]int{1, 4, 6, 9}).Draw(t, "window")
		if testDevice().HeadDims == nil {
			cfg.HeadDim, cfg.VHeadDim = 4, 6
		}
		cfg.Blocks = rapid.SampledFrom([]int{6, 20, 80}).Draw(t, "blocks")
		cfg.MaxSeqs = rapid.IntRange(1, 4).Draw(t, "recent")
		return cfg
	}
	t.Run("device", leavesNothing(be, func(t *rapid.T) {
		runTiers(t, be, anyConfig(t), rapid.IntRange(1, 2).Draw(t, "streams"))
	}))
	t.Run("late", leavesNothing(be, func(t *rapid.T) {
		dev := newLateDevice(be, backendtest.LateOptions{Seed: rapid.Uint64().Draw(t, "seed")})
		runTiers(t, dev, anyConfig(t), 2)
		require.NoError(t, dev.late.Drain())
	}))
	require.NoError(t, be.Close())
}
