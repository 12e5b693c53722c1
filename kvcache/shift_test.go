package kvcache

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/stretchr/testify/require"
)

// A Shift that fails before it has changed anything in place leaves the sequence,
// its blocks and its reservation as they were; afterwards the sequence can only be
// released, and says so.
func TestShiftFailure(t *testing.T) {
	for _, c := range []struct {
		op    backendtest.Op
		after int
		lost  bool // the content
	}{
		{backendtest.OpAlloc, 0, false}, {backendtest.OpAlloc, 2, false}, {backendtest.OpUpload, 0, false}, {backendtest.OpUpload, 3, false}, {backendtest.OpWait, 0, false},
		{backendtest.OpCopyBlocks, 1, false}, {backendtest.OpMoveSlots, 0, false}, {backendtest.OpMoveSlots, 1, true}, {backendtest.OpRotate, 0, true}, {backendtest.OpRecord, 0, true},
	} {
		r, dev, be := lateRig(t, small(Paged))
		s2, err := dev.NewStream()
		require.NoError(t, err)
		a := r.open()
		require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 7)}))
		b, err := a.Fork()
		require.NoError(t, err)
		require.NoError(t, r.pool.Reserve(Reservation[buffer]{a, 20}))
		before := r.stats()
		dev.failOn(c.op, c.after)
		require.ErrorIs(t, a.Shift(s2, 1, 3), errBoom, c.op)
		dev.SetFault(nil)
		after := r.stats()
		after.Peak = before.Peak
		require.Equal(t, before, after, "%s after %d", c.op, c.after)
		r.expect(r.s, b, tokens(sequence(1, 7)...))
		if c.lost {
			require.ErrorIs(t, a.Truncate(0), errBoom)
		} else {
			r.expect(r.s, a, tokens(sequence(1, 7)...))
			require.NoError(t, a.Shift(s2, 1, 3))
			r.expect(s2, a, []token{{1, 0}, {4, -2}, {5, -2}, {6, -2}, {7, -2}})
		}
		require.NoError(t, errors.Join(a.Release(), b.Release(), s2.Sync()))
		closeLate(t, r, dev, be)
	}
}

// Dropping the end of a sequence moves no key, so it takes no blocks, not even
// where the last one is shared.
func TestShiftOfTheEndTakesNoBlocks(t *testing.T) {
	cfg := small(Paged)
	cfg.Memory.Blocks = 2
	r := deviceRig(t, cfg)
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 7)}))
	b, err := a.Fork()
	require.NoError(t, err)
	require.NoError(t, b.Shift(r.s, 5, 7))
	r.expect(r.s, a, tokens(sequence(1, 7)...))
	r.expect(r.s, b, tokens(sequence(1, 5)...))
	require.NoError(t, errors.Join(a.Release(), b.Release()))
	r.close()
}

// A runner's own function turns the keys of all layers as Shift does, where the library has no rotation, in two stores, too. What
// it returns is the call's error.
func TestShiftBy(t *testing.T) {
	for name, change := range map[string]func(c *Config){
		"plain": func(*Config) {}, "groups": func(c *Config) {
			c.Model.Groups = []config.Group{{Layers: []int{0}}, {Kind: group.Window, Window: 30, Layers: []int{1}}}
		},
		"residual": func(c *Config) { c.Storage.K, c.Model.Act, c.Storage.Residual = backend.Int8, backend.F32, 8 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := small(Paged)
			cfg.Model.RoPE = nil
			change(&cfg)
			r := deviceRig(t, cfg)
			table, err := backend.RoPE{}.Table(cfg.Model.HeadDim, 40)
			require.NoError(t, err)
			own, err := backend.AllocFrom(r.be, r.s, backend.F32, table)
			require.NoError(t, err)
			a := r.open()
			require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 22)}))
			require.ErrorIs(t, a.Shift(r.s, 1, 4), backend.ErrUnsupported{})
			require.ErrorIs(t, a.ShiftBy(r.s, 1, 4, nil), backend.ErrArgument{})
			layers := map[int]bool{}
			require.NoError(t, a.ShiftBy(r.s, 1, 4, func(turn Turn[buffer]) error {
				layers[turn.Layer] = true
				return r.be.Rotate(r.s, backend.RotateParams[buffer]{Cache: turn.Cache, Slots: turn.Slots, Deltas: turn.Deltas, N: turn.N,
					Rotary: backend.RotaryTable[buffer]{Table: backend.Some(own), Positions: 40, Dims: cfg.Model.HeadDim, Magnitude: 1}})
			}))
			require.Equal(t, map[int]bool{0: true, 1: true}, layers)
			h := newHistory(2)
			for l := range h.layers {
				h.layers[l] = []placed{{token: token{id: 1}}}
				for id := range uint32(18) {
					h.layers[l] = append(h.layers[l], placed{token: token{id: 5 + id, turn: -3}, pos: 1 + int(id), rounds: 1})
				}
			}
			h.next = 19
			r.expectHistory(r.s, a, h)
			require.ErrorIs(t, a.ShiftBy(r.s, 0, 1, func(Turn[buffer]) error { return errBoom }), errBoom)
			require.NoError(t, a.Release())
			r.free(own)
			r.close()
		})
	}
}

// Keys and values at the ends of the activation type's range stay finite when Shift makes them exact, turns the keys out of
// the range, and quantizes them again.
func TestShiftOfTheLargestValues(t *testing.T) {
	for act, top := range map[backend.DType]float32{backend.F16: 65504, backend.F32: math.MaxFloat32} {
		for _, dt := range []backend.DType{backend.Int8, backend.Int8Asym, backend.Int4, backend.MXFP4} {
			if !testDevice().Supports(backend.Format{Act: act, K: dt, V: dt}) {
				continue
			}
			cfg := small(Paged)
			cfg.Model.Act, cfg.Model.RoPE, cfg.Storage = act, nil, Storage{K: dt, V: dt, Residual: 8}
			r := deviceRig(t, cfg)
			table, err := backend.RoPE{}.Table(cfg.Model.HeadDim, 40)
			require.NoError(t, err)
			own, err := backend.AllocFrom(r.be, r.s, backend.F32, table)
			require.NoError(t, err)
			a := r.open()
			require.NoError(t, r.plan(r.s, feed[buffer]{a, sequence(1, 33)}))
			q, k, v, out := r.operands(33)
			var ends [2]buffer
			for side, n := range []int{k.Len(), v.Len()} {
				rows := make([]float32, n)
				for i := range rows {
					rows[i] = top * float32(1-2*(i/3%2))
				}
				ends[side] = r.vector(r.s, rows)
			}
			for l := range cfg.Model.Layers {
				require.NoError(t, r.step.Append(l, kv(ends[0], ends[1])))
			}
			require.NoError(t, r.step.Commit())
			for range 2 {
				require.NoError(t, a.ShiftBy(r.s, 1, 4, func(turn Turn[buffer]) error {
					return r.be.Rotate(r.s, backend.RotateParams[buffer]{Cache: turn.Cache, Slots: turn.Slots, Deltas: turn.Deltas, N: turn.N,
						Rotary: backend.RotaryTable[buffer]{Table: backend.Some(own), Positions: 40, Dims: cfg.Model.HeadDim, Magnitude: 1}})
				}))
				for _, x := range slices.Concat(r.gathered(a, 1).k, r.gathered(a, 1).v) {
					if size := math.Abs(float64(x)); !(size <= min(1.02*float64(top), math.MaxFloat32)) {
						require.Failf(t, "not finite", "%s of %s: %v", dt, act, x)
					}
				}
			}
			r.free(q, k, v, out, ends[0], ends[1], own)
			require.NoError(t, a.Release())
			r.close()
		}
	}
}
