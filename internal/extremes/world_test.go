package extremes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv"
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
	"github.com/ferrumkv/ferrumkv/kvcache/states"
	"github.com/stretchr/testify/require"
)

const heads, dim = 2, 8

// tiny is the configuration of the pools.
func tiny() kvcache.Config {
	return kvcache.Config{
		Model:     kvcache.Model{Layers: 2, QHeads: heads, KVHeads: heads, HeadDim: dim, Digest: []byte("tiny"), RoPE: &backend.RoPE{}},
		Storage:   kvcache.Storage{K: backend.F32},
		Memory:    kvcache.Memory{Layout: kvcache.Paged, BlockSize: 4, Capacity: 64, MaxSeqs: 8, Blocks: 96},
		Attention: kvcache.Attention{Scores: true},
		Tiers:     config.Tiers{HostBytes: 1 << 16},
	}
}

// device is a device with a pool and its stream.
type device struct {
	be     *cpu.Backend
	pool   *kvcache.Pool[buffer]
	stream backend.Stream
}

func openDevice(t require.TestingT) *device {
	be, err := cpu.Open(cpu.Options{Threads: 1, MaxBytes: 1 << 30})
	require.NoError(t, err)
	pool, err := kvcache.NewPool(be, tiny())
	require.NoError(t, err)
	stream, err := be.NewStream()
	require.NoError(t, err)
	return &device{be, pool, stream}
}

func (d *device) close() error {
	return errors.Join(d.pool.Close(), d.stream.Close(), d.be.Close())
}

// world is what arguments are made of: a device, another one, and a closed one; and a sequence whose bits must stay.
type world struct {
	t                   *testing.T
	live, other, closed *device
	stored              states.ID
	saved               string    // a snapshot of a sequence
	bits                []float32 // of a prompt's attention
	undo                []func()  // of what was made for one call
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, live: openDevice(t), other: openDevice(t), closed: openDevice(t)}
	require.NoError(t, w.closed.close())
	s := w.sequence(w.live)
	var file bytes.Buffer
	require.NoError(t, w.live.pool.Save(&file, kvcache.Saved[buffer]{Sequences: []*kvcache.Sequence[buffer]{s}}, snapshot.Options{}))
	w.saved = file.String()
	w.tidy(nil)
	var err error
	w.bits, err = w.live.attend(nil)
	require.NoError(t, err)
	require.NoError(t, w.check(true))
	return w
}

func (w *world) close() {
	require.NoError(w.t, w.live.close())
	require.NoError(w.t, w.other.close())
}

// later undoes what was made for a call. Errors do not matter: the call may have undone it.
func (w *world) later(undo func()) { w.undo = append(w.undo, undo) }

// tidy releases what was made for a call, and what it returned.
func (w *world) tidy(results []reflect.Value) {
	for _, r := range results {
		w.release(r)
	}
	for range 2 { // a sequence that is in a step is released after it
		for _, undo := range slices.Backward(w.undo) {
			undo()
		}
	}
	w.undo = nil
}

func (w *world) release(r reflect.Value) {
	if !r.IsValid() || !r.CanInterface() || (r.Kind() == reflect.Pointer || r.Kind() == reflect.Interface) && r.IsNil() {
		return
	}
	switch v := r.Interface().(type) {
	case *kvcache.Sequence[buffer]:
		v.Release()
	case *kvcache.Standalone[buffer]:
		v.Release()
	case *ferrumkv.Sequence:
		v.Release()
	case kvcache.Saved[buffer]:
		for _, s := range v.Sequences {
			s.Release()
		}
	case *prefix.Lease:
		w.live.pool.Unpin(v)
	case *prefix.Subscription:
		w.live.pool.Unwatch(v)
	case buffer:
		w.live.be.Free(v) // of the device, or it is refused
	case *snapshot.Writer: // which may have nowhere to write
	case *cpu.Backend:
		if v != w.live.be && v != w.other.be {
			v.Close()
		}
	case *kvcache.Pool[buffer]:
		if v != w.live.pool && v != w.other.pool {
			v.Close()
		}
	case backend.Backend[backend.AnyBuffer], backend.Backend[buffer], backend.HostAccess[buffer]: // of a device of the world, or of package backend, which closes none
	case *ferrumkv.Cache, *ferrumkv.Step, *kvcache.Batch[buffer], backend.HostMemory, backend.BlockSet, backend.Stream, interface{ Close() error }:
		v.(interface{ Close() error }).Close()
	}
}

// rows is a buffer of the device with numbers.
func (d *device) rows(n int, seed uint32) (buffer, error) {
	x := make([]float32, n)
	for i := range x {
		seed = seed*1664525 + 1013904223
		x[i] = float32(seed>>8)/(1<<23) - 1
	}
	return backend.AllocFrom(d.be, d.stream, backend.F32, x)
}

func (d *device) layerIO(tokens int) (kvcache.LayerIO[buffer], func(), error) {
	var all [4]buffer
	for i := range all {
		var err error
		if all[i], err = d.rows(max(tokens, 1)*heads*dim, uint32(i)); err != nil {
			return kvcache.LayerIO[buffer]{}, func() {}, err
		}
	}
	return kvcache.Dense(all[0], all[1], all[2], all[3]), func() {
		for _, b := range all {
			d.be.Free(b)
		}
	}, nil
}

// step computes tokens of a sequence, and returns the last layer's rows.
func (d *device) step(s *kvcache.Sequence[buffer], tokens []uint32) ([]float32, error) {
	b := d.pool.NewBatch()
	defer b.Close()
	if err := errors.Join(b.Add(s, tokens), b.Plan(d.stream)); err != nil {
		return nil, err
	}
	out := make([]float32, len(tokens)*heads*dim)
	for layer := range 2 {
		io, free, err := d.layerIO(len(tokens))
		defer free()
		io.Rotate = true
		if err := errors.Join(err, b.Append(layer, io), b.Attend(layer, io), backend.Download(d.be, d.stream, out, io.Out.Buf, 0)); err != nil {
			return nil, err
		}
	}
	return out, b.Commit()
}

// attend computes a prompt whole.
func (d *device) attend(bits []float32) ([]float32, error) {
	s, _, err := d.pool.Open([]uint32{9, 8, 7, 6, 5}, kvcache.OpenOptions{NoReuse: true, NoPublish: true})
	if err != nil {
		return nil, err
	}
	out, err := d.step(s, []uint32{9, 8, 7, 6, 5})
	err = errors.Join(err, s.Release())
	if err == nil && bits != nil && !slices.Equal(bits, out) {
		err = fmt.Errorf("attention is %v, was %v", out, bits)
	}
	return out, err
}

// check checks that objects outside the call work as before; their attention, which takes longer, only if asked to.
func (w *world) check(attention bool) error {
	for _, d := range []*device{w.live, w.other} {
		if err := errors.Join(d.stream.Sync(), d.pool.Check()); err != nil {
			return err
		}
		if attention {
			if _, err := d.attend(w.bits); err != nil {
				return err
			}
		}
	}
	return nil
}

// sequence returns a sequence with tokens, or without if a call's sequences fill the pool.
func (w *world) sequence(d *device) *kvcache.Sequence[buffer] {
	if race.Enabled { // a step adds to the scores of shared blocks that are being copied to tiers: whole words, not summed yet
		require.NoError(w.t, d.pool.Flush(background))
	}
	s, m, err := d.pool.Open([]uint32{1, 2, 3, 4, 5, 6}, kvcache.OpenOptions{})
	require.NoError(w.t, err)
	w.later(func() { s.Release() })
	if _, err = d.step(s, []uint32{1, 2, 3, 4, 5, 6}[m.Cached:]); !errors.Is(err, block.ErrOutOfBlocks{}) {
		require.NoError(w.t, err)
	}
	return s
}

var background = context.Background()
