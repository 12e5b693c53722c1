package kvcache

import (
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// After Close whatever asks the pool, a sequence or a batch something is told so: there are no
// numbers of before, and nothing is found to be corrupt.
func TestClosedPoolAnswersNothing(t *testing.T) {
	r := deviceRig(t, small(Paged))
	seq, watched := r.open(), prefix.Scope{Salt: []byte("a")}
	require.NoError(t, r.feed2(seq, sequence(1, 9)))
	lease, err := r.pool.Pin(sequence(1, 9), time.Hour, OpenOptions{})
	require.NoError(t, err)
	layers, err := seq.Layers(r.s)
	require.NoError(t, err)
	require.NoError(t, r.s.Sync())
	require.NoError(t, r.pool.Close())
	p, b := r.pool, r.step
	for name, ask := range map[string]func() error{
		"check":         p.Check,
		"stats":         func() error { _, err := p.Stats(); return err },
		"salt stats":    func() error { _, err := p.SaltStats(watched); return err },
		"match":         func() error { _, err := p.Match(sequence(1, 9), OpenOptions{}); return err },
		"open":          func() error { _, _, err := p.Open(nil, OpenOptions{}); return err },
		"reserve":       func() error { return p.Reserve(Reservation[buffer]{seq, 20}) },
		"layer":         func() error { _, _, err := p.Layer(0); return err },
		"watch":         func() error { _, _, err := p.Watch(1); return err },
		"pin":           func() error { _, err := p.Pin(sequence(1, 9), time.Hour, OpenOptions{}); return err },
		"unpin":         func() error { return p.Unpin(lease) },
		"limit":         func() error { return p.Limit(watched, prefix.Limits{Quota: 1}) },
		"clear":         func() error { return p.Clear(true) },
		"close":         p.Close,
		"err":           seq.Err,
		"fork":          func() error { _, err := seq.Fork(); return err },
		"truncate":      func() error { return seq.Truncate(1) },
		"shift":         func() error { return seq.Shift(r.s, 0, 1) },
		"keep":          func() error { return seq.Retain(r.s, [][]int{{0}}, RetainOptions{}) },
		"scores":        func() error { return seq.Scores(r.s, 0, nil) },
		"clear scores":  func() error { return seq.ClearScores(r.s) },
		"layers":        func() error { _, err := seq.Layers(r.s); return err },
		"fence":         func() error { return seq.Fence(r.s) },
		"positions":     func() error { _, err := seq.Positions(nil, 0); return err },
		"release":       seq.Release,
		"gather":        func() error { return seq.Gather(r.s, 0, layers[0].K, layers[0].V) },
		"add":           func() error { return b.Add(seq, []uint32{1}) },
		"plan":          func() error { return b.Plan(r.s) },
		"index":         func() error { _, err := b.Metadata(0); return err },
		"fix":           func() error { return b.FixShape(1, 1) },
		"capture":       func() error { return b.Capture(func() error { return nil }) },
		"replay":        b.Replay,
		"commit":        b.Commit,
		"reset":         b.Reset,
		"close a batch": b.Close,
		"a new batch":   func() error { return p.NewBatch().Add(seq, []uint32{1}) },
	} {
		require.ErrorIs(t, ask(), ErrClosed, name)
	}
	require.NoError(t, r.s.Close())
	require.NoError(t, r.be.Close())
}

// A released sequence has no positions to tell.
func TestReleasedSequenceAnswersNothing(t *testing.T) {
	r := deviceRig(t, small(Paged))
	seq := r.open()
	require.NoError(t, r.feed2(seq, sequence(1, 3)))
	require.NoError(t, seq.Err())
	require.NoError(t, seq.Release())
	_, err := seq.Positions(nil, 0)
	require.ErrorIs(t, err, ErrReleased)
	require.ErrorIs(t, seq.Err(), ErrReleased)
	require.Zero(t, seq.Len())
	require.Empty(t, seq.Blocks(nil))
	r.close()
}
