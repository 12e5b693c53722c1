package kvcache

import (
	"bytes"
	"io"
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// signed is cfg of weights with a digest, which what outlives its process has.
func signed(cfg Config) Config {
	if cfg.Model.Digest == nil {
		cfg.Model.Digest = []byte("weights")
	}
	return cfg
}

// save is what some sequences have, as a stream.
func (r *rig[B]) save(seqs ...*Sequence[B]) []byte {
	r.t.Helper()
	var b bytes.Buffer
	var before []error
	for _, s := range seqs {
		if before = append(before, s.Err()); s.runs.Suspended == nil {
			require.NoError(r.t, s.Err())
		}
	}
	require.NoError(r.t, r.pool.Save(&b, Saved[B]{Sequences: seqs}, snapshot.Options{}))
	require.NoError(r.t, r.pool.Check())
	for i, s := range seqs {
		require.Equal(r.t, before[i], s.Err())
	}
	return b.Bytes()
}

// family is a sequence, and forks of it that are longer and shorter.
func (r *rig[B]) family() (x, y, z *Sequence[B]) {
	r.t.Helper()
	x = r.open()
	require.NoError(r.t, r.feed(feed[B]{x, sequence(1, 37)}))
	y, err := x.Fork()
	require.NoError(r.t, err)
	require.NoError(r.t, r.feed(feed[B]{y, sequence(100, 5)}))
	z, err = x.Fork()
	require.NoError(r.t, err)
	require.NoError(r.t, z.Truncate(10))
	return x, y, z
}

// load loads a stream, none of which is left.
func (r *rig[B]) load(stream []byte) []*Sequence[B] {
	r.t.Helper()
	in := bytes.NewReader(append(bytes.Clone(stream), "behind"...))
	s, err := r.pool.Load(in, snapshot.Options{})
	require.NoError(r.t, err)
	require.Equal(r.t, len("behind"), in.Len())
	require.NoError(r.t, r.pool.Check())
	return s.Sequences
}

// refuse loads what cannot be loaded, from a file and from a connection: nothing changes.
func (r *rig[B]) refuse(stream []byte) (err error) {
	r.t.Helper()
	for _, from := range []io.Reader{bytes.NewReader(stream), connection(stream)} {
		before := r.stats()
		var s Saved[B]
		s, err = r.pool.Load(from, snapshot.Options{})
		require.Error(r.t, err)
		require.Empty(r.t, s)
		require.NoError(r.t, r.pool.Check())
		after := r.stats()
		before.Peak, after.Peak = 0, 0
		require.Equal(r.t, before, after)
	}
	return err
}

// connection is a stream that cannot be read twice.
func connection(stream []byte) io.Reader { return struct{ io.Reader }{bytes.NewReader(stream)} }

// mismatch loads what the pool cannot use, and returns the field that it names.
func (r *rig[B]) mismatch(stream []byte) string {
	r.t.Helper()
	var e snapshot.ErrMismatch
	require.ErrorAs(r.t, r.refuse(stream), &e)
	return e.Field
}

// requireSame compares what two sequences of two pools have, bit for bit.
func requireSame(r, o *rig[buffer], a, b *Sequence[buffer]) {
	r.t.Helper()
	require.Equal(r.t, a.Len(), b.Len())
	require.Equal(r.t, a.NextPosition(), b.NextPosition())
	for l := range r.pool.cfg.Model.Layers {
		if !r.pool.attends(l) {
			continue
		}
		wantAt, err := a.Positions(nil, l)
		require.NoError(r.t, err)
		at, err := b.Positions(nil, l)
		require.NoError(r.t, err)
		require.Equal(r.t, wantAt, at)
		if a.Len() == 0 {
			continue
		}
		want, have := r.gathered(a, l), o.gathered(b, l)
		require.Equal(r.t, bitsOf(want.k), bitsOf(have.k), "keys of layer %d", l)
		require.Equal(r.t, bitsOf(want.v), bitsOf(have.v), "values of layer %d", l)
	}
}

func bitsOf(x []float32) []uint32 {
	out := make([]uint32, len(x))
	for i, v := range x {
		out[i] = math.Float32bits(v)
	}
	return out
}

// release ends sequences.
func (r *rig[B]) release(seqs ...*Sequence[B]) {
	r.t.Helper()
	for _, s := range seqs {
		require.NoError(r.t, s.Release())
	}
}

// reborn is a sequence that is saved, while it is suspended or not, released and loaded again; false: there are no blocks for it.
func (r *rig[B]) reborn(seq *Sequence[B], suspended bool) (*Sequence[B], bool) {
	r.t.Helper()
	if suspended {
		require.NoError(r.t, seq.Suspend())
	}
	stream := r.save(seq)
	require.NoError(r.t, seq.Release())
	again, err := r.pool.ReadSequence(bytes.NewReader(stream))
	require.NoError(r.t, r.pool.Check())
	if err != nil {
		require.ErrorIs(r.t, err, ErrOutOfBlocks{})
		return nil, false
	}
	return again, true
}

func (m *machine[B]) Save(t *rapid.T) {
	ms := m.pick(t)
	m.t = t
	again, ok := m.reborn(ms.seq, rapid.Bool().Draw(t, "suspended"))
	if ms.seq = again; !ok {
		m.seqs = slices.DeleteFunc(m.seqs, func(o *modelSeq[B]) bool { return o == ms })
	}
}

func (m *windowMachine) Save(t *rapid.T) {
	ms := m.pick(t)
	m.t = t
	again, ok := m.reborn(ms.seq, rapid.Bool().Draw(t, "suspended"))
	if ms.seq = again; !ok {
		m.seqs = slices.DeleteFunc(m.seqs, func(o *windowedSeq) bool { return o == ms })
	}
}
