package kvcache

import (
	"errors"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// Sinks and a recent window of whole blocks stay the blocks that they are: nothing is quantized twice, nor
// moved. A path of the prefix tree that others use stays whole, and they read what they did.
func TestWindowKeepsWholeBlocks(t *testing.T) {
	for _, shared := range []bool{false, true} {
		r := windowRig(t, openDevice(t), nil)
		c := r.pool.Config()
		a := r.open()
		w := &remembered{}
		r.grown(a, w, 5*c.Memory.BlockSize+c.Memory.BlockSize/2, 3*c.Memory.BlockSize)
		var fork *Sequence[buffer]
		wf := w.clone()
		if shared {
			var err error
			fork, err = a.Fork()
			require.NoError(t, err)
		}
		var kept []int
		for i := range a.Len() { // a block of sinks; blocks 1 and 2 go
			if i < c.Memory.BlockSize || i >= 3*c.Memory.BlockSize {
				kept = append(kept, i)
			}
		}
		pos := w.pos
		old := a.Blocks(nil)
		require.NoError(t, a.Retain(r.s, [][]int{kept}, RetainOptions{}))
		require.NoError(t, r.pool.Check())
		w.keep(c, a, kept, func(i int) int { return pos[kept[i]] })
		for i := range w.kept { // as they were
			w.kept[i] = 1
		}
		r.expectWindow(r.s, a, w)
		for i, id := range a.Blocks(nil)[1:] {
			require.Equal(t, shared, id != old[i+3], "block %d is copied for those who share it, and else the same", i+1)
		}
		r.grown(a, w, 1, c.Memory.BlockSize)
		r.expectWindow(r.s, a, w)
		if shared {
			r.expectWindow(r.s, fork, wf)
			require.NoError(t, fork.Release())
		}
		require.NoError(t, a.Release())
		r.close()
	}
}

// Layers may keep different tokens, quantized ones and recent ones.
func TestWindowKeepsByLayer(t *testing.T) {
	for _, f := range windowFormats(backend.F32) {
		cfg := windowConfig(f)
		r := deviceRig(t, cfg)
		c := r.pool.Config()
		a := r.open()
		w := &remembered{}
		n := 8*c.Memory.BlockSize + 1
		r.grown(a, w, n-1, 1)
		lists := [][]int{nil, nil}
		for i := range n / 2 {
			lists[0], lists[1] = append(lists[0], 2*i), append(lists[1], n-n/2+i)
		}
		require.NoError(t, a.Retain(r.s, lists, RetainOptions{Reposition: true}))
		require.NoError(t, r.pool.Check())
		require.Equal(t, n/2, a.NextPosition())
		for l, list := range lists {
			k, err := r.be.Alloc(backend.F32, c.Model.KVHeads*len(list)*c.Model.HeadDim)
			require.NoError(t, err)
			v, err := r.be.Alloc(backend.F32, c.Model.KVHeads*len(list)*c.Model.VHeadDim)
			require.NoError(t, err)
			require.NoError(t, a.Gather(r.s, l, k, v))
			require.NoError(t, r.s.Sync())
			keys, values := r.download(k), r.download(v)
			for h := range c.Model.KVHeads {
				for i, at := range list {
					for d, x := range (token{w.ids[at], i - at}).key(l, h, c.Model.HeadDim) {
						require.InDelta(t, x, keys[(h*len(list)+i)*c.Model.HeadDim+d], 2*2.2*rounding(c.Storage.K)+1e-4, "layer %d token %d", l, at)
					}
					for d := range c.Model.VHeadDim {
						require.InDelta(t, element(w.ids[at], l, h, d, true), values[(h*len(list)+i)*c.Model.VHeadDim+d], 2.2*rounding(c.Storage.V)+1e-4, "layer %d token %d", l, at)
					}
				}
			}
			r.free(k, v)
		}
		require.NoError(t, r.feed(feed[buffer]{a, sequence(900, 3)}))
		require.NoError(t, a.Release())
		r.close()
	}
}

// Whatever operation of the device fails, a sequence in two stores is as it was, and can be shifted again:
// all of it is written to new blocks.
func TestWindowShiftFailure(t *testing.T) {
	be := openDevice(t)
	for after := 0; ; after++ {
		dev := newLateDevice(be, backendtest.LateOptions{Seed: uint64(after), OnlyWaits: true})
		r := windowRig(t, dev, func(c *Config) { c.Memory.Prefix = prefix.Off })
		c := r.pool.Config()
		a := r.open()
		w := &remembered{}
		r.grown(a, w, 6*c.Memory.BlockSize, 1)
		require.NoError(t, r.pool.Reserve(Reservation[buffer]{a, a.Len() + 1}))
		before := r.stats()
		n, boom := after, false
		dev.SetFault(enqueued(func(backendtest.Op) error {
			if n--; n < 0 && !boom {
				boom = true
				return errBoom
			}
			return nil
		}))
		err := a.Shift(r.s, 2, c.Memory.BlockSize+3)
		dev.SetFault(nil)
		if err == nil {
			require.False(t, boom, "operation %d: an error of the device was lost", after)
			require.NoError(t, a.Release())
			closeLate(t, r, dev, be)
			break
		}
		require.ErrorIs(t, err, errBoom, "operation %d", after)
		require.NoError(t, a.Err())
		require.Equal(t, before.Reserved, r.stats().Reserved, "operation %d", after)
		require.NoError(t, r.pool.Check())
		r.expectWindow(r.s, a, w)
		require.NoError(t, a.Shift(r.s, 2, c.Memory.BlockSize+3))
		require.Equal(t, len(w.ids)-c.Memory.BlockSize-1, a.Len())
		require.NoError(t, errors.Join(a.Release(), r.s.Sync(), r.step.Reset()))
		require.NoError(t, errors.Join(r.pool.Close(), dev.late.Drain()))
		require.Zero(t, be.Info().Buffers, "operation %d", after)
	}
}
