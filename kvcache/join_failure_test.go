package kvcache

import (
	"cmp"
	"errors"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// Whatever operation of the device fails in a step that a prompt has joined, and whatever ends the step, the sequences are as before and
// can do the same again, with what each would have computed alone.
func TestJoinFails(t *testing.T) {
	for after := 0; ; after++ {
		be := openDevice(t)
		dev := newLateDevice(be, backendtest.LateOptions{Seed: uint64(after), OnlyWaits: true})
		cfg := small(Paged)
		cfg.Memory.Capacity, cfg.Memory.Prefix = 80, prefix.LRU
		r := newRig(t, dev, cfg)
		prompts := together(3)
		var xs []*reader[buffer]
		for _, p := range prompts {
			x, _ := r.read(p, OpenOptions{})
			xs = append(xs, x)
		}
		q, k, v, out := r.operands(67 + 3 + 3)
		require.NoError(t, r.s.Sync())
		n, boom, failed := after, false, backendtest.Op(0)
		step := func() error {
			err := r.step.Reset()
			for _, x := range xs {
				if err == nil {
					x.resume()
					r.join(x)
					err = r.step.Add(x.seq, x.rest)
				}
			}
			if err = cmp.Or(err, r.step.Plan(r.s)); err != nil {
				return err
			}
			for l := range cfg.Model.Layers {
				err = cmp.Or(err, r.step.Append(l, qkv(q, k, v)), r.step.Attend(l, attending(q, out)))
			}
			if err == nil {
				err = r.step.Commit()
			}
			return err
		}
		dev.SetFault(enqueued(func(op backendtest.Op) error {
			if op == backendtest.OpAlloc || r.step.state < stepPlanning {
				return nil
			}
			if n--; n < 0 && !boom {
				boom, failed = true, op
				return errBoom
			}
			return nil
		}))
		err := step()
		dev.SetFault(nil)
		require.NoError(t, errors.Join(r.s.Sync(), r.pool.Check()))
		r.free(q, k, v, out)
		if err != nil {
			require.ErrorIs(t, err, errBoom, "operation %d", after)
			require.NoError(t, r.step.Reset())
			require.NoError(t, r.pool.Check())
			for _, x := range xs {
				require.Zero(t, x.seq.Len(), "operation %d, %v", after, failed)
				require.NoError(t, x.seq.Err())
			}
			for _, x := range xs {
				x.resume()
				r.join(x)
				require.NoError(t, r.step.Add(x.seq, x.rest))
			}
			r.finish(xs...)
			for _, x := range xs {
				r.check(r.s, x)
			}
		}
		for _, x := range xs {
			require.NoError(t, x.seq.Release())
		}
		closeLate(t, r, dev, be)
		if err == nil {
			require.False(t, boom, "operation %d: an error of the device was lost", after)
			require.Greater(t, after, 5)
			break
		}
	}
}

// What ends a step, or the sequence that others have joined, leaves them with what is in the cache.
func TestJoinEnds(t *testing.T) {
	for name, end := range map[string]func(r *rig[buffer]) error{
		"reset":      func(r *rig[buffer]) error { return r.step.Reset() },
		"plan, then": func(r *rig[buffer]) error { return errors.Join(r.step.Plan(r.s), r.step.Reset()) },
		"close": func(r *rig[buffer]) error {
			err := r.step.Close()
			r.step = r.pool.NewBatch()
			return err
		},
		"no blocks": func(r *rig[buffer]) error {
			other := r.open()
			if err := r.pool.Reserve(Reservation[buffer]{other, 20 * 4}); err != nil {
				return err
			}
			if err := r.step.Plan(r.s); !errors.Is(err, ErrOutOfBlocks{}) {
				return errors.Join(err, errors.New("there were blocks"))
			}
			return errors.Join(r.pool.Check(), r.step.Reset(), other.Release())
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := small(Paged)
			cfg.Memory.Capacity, cfg.Memory.Prefix, cfg.Memory.Blocks = 80, prefix.LRU, 24
			r := deviceRig(t, cfg)
			r.cache(sequence(1, 9), OpenOptions{})
			prompts := together(2)
			x, _ := r.read(prompts[0], OpenOptions{})
			y, _ := r.read(prompts[1], OpenOptions{})
			require.Equal(t, 9, x.seq.Len())
			r.join(x)
			require.NoError(t, r.step.Add(x.seq, x.rest))
			require.Equal(t, 64, r.join(y).Cached)
			require.ErrorIs(t, y.seq.Err(), ErrBusy)
			require.ErrorIs(t, y.seq.Release(), ErrBusy)
			_, err := y.seq.Fork()
			require.ErrorIs(t, err, ErrBusy)
			require.ErrorIs(t, r.step.Add(y.seq, []uint32{1}), ErrPrompt{})
			require.NoError(t, r.step.Add(y.seq, y.rest))
			_, err = r.step.Join(y.seq)
			require.ErrorIs(t, err, ErrBusy)
			require.NoError(t, end(r))
			require.NoError(t, r.pool.Check())
			for _, z := range []*reader[buffer]{x, y} {
				require.NoError(t, z.seq.Err())
				z.resume()
				require.Equal(t, 9, len(z.tokens))
			}
			require.NoError(t, x.seq.Release()) // the writer is gone: the other one computes what is left
			require.Zero(t, r.join(y).Pending)
			require.NoError(t, r.step.Add(y.seq, y.rest))
			r.finish(y)
			r.check(r.s, y)
			r.drop(y)
			require.NoError(t, r.step.Close())
			r.close()
		})
	}
}

// A prompt waits for the pieces of another one as long as that goes on, and has what was committed.
func TestJoinFollowsPieces(t *testing.T) {
	r := joinRig(t)
	prompts := together(3)
	x, _ := r.read(prompts[0], OpenOptions{})
	y, m := r.read(prompts[1], OpenOptions{})
	require.Equal(t, 64, m.Pending)
	other := r.pool.NewBatch()
	m, err := other.Join(y.seq)
	require.NoError(t, err)
	require.Zero(t, m.Pending, "nobody has begun")
	for have := 0; have < 48; have += 16 {
		require.NoError(t, r.run(r.s, part[buffer]{x, x.rest[:16]}))
		m, err = other.Join(y.seq)
		require.NoError(t, err)
		require.Equal(t, []int{have + 16, 64 - have - 16}, []int{m.Cached, m.Pending})
	}
	require.NoError(t, r.step.Add(x.seq, x.rest[:17]))
	m, err = other.Join(y.seq)
	require.NoError(t, err)
	require.Equal(t, 16, m.Pending, "a step that is not committed is another one's")
	m, err = r.step.Join(y.seq)
	require.NoError(t, err)
	require.Equal(t, []int{64, 0}, []int{m.Cached, m.Pending}, "all that both have in common is in the step")
	require.NoError(t, r.step.Reset())
	require.NoError(t, x.seq.Release())
	m, err = other.Join(y.seq)
	require.NoError(t, err)
	require.Equal(t, []int{48, 0}, []int{m.Cached, m.Pending}, "it will not come")
	y.resume()
	require.NoError(t, r.prefill(r.s, y))
	r.check(r.s, y)
	r.drop(y)
	require.NoError(t, errors.Join(other.Close(), r.step.Close()))
	r.close()
}
