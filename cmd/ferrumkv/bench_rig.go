package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/ferrumkv/ferrumkv/backend"
)

type anyBackend = backend.Backend[backend.AnyBuffer]

// maxLayers bounds the buffers that a small shape is spread over.
const maxLayers = 1024

// rig is a shape set up on a device. Its calls take turns on layers that together
// exceed the processor's caches, as those of a model do. Blocks of a sequence lie
// in random order, as they do in a pool that has been used for a while.
type rig struct {
	shape
	footprint int64
	be        anyBackend
	stream    backend.Stream
	kv, act   backend.DType
	owned     []backend.AnyBuffer
	layers    []backend.CacheView[backend.AnyBuffer]
	ids       []uint32 // block table [batch, blocksPerSeq]
	table     backend.AnyBuffer
	turn      int
}

// newRig allocates and fills layers of footprint bytes together. input is the
// bytes that the kernels' operands will need in addition.
func newRig(be anyBackend, stream backend.Stream, s shape, footprint, input int64) (*rig, error) {
	layers, err := affordable(be, s, footprint, input)
	if err != nil {
		return nil, err
	}
	r := &rig{shape: s, footprint: footprint, be: be, stream: stream}
	if r.kv, r.act, err = s.storage(); err != nil {
		return nil, err
	}
	if err := r.allocate(layers); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *rig) allocate(layers int) (err error) {
	blocks := r.Batch * r.blocksPerSeq()
	for range layers {
		view := backend.CacheView[backend.AnyBuffer]{Blocks: blocks, KVHeads: r.KVHeads, BlockSize: r.slots()}
		for _, plane := range []*backend.Plane[backend.AnyBuffer]{&view.K, &view.V} {
			plane.Dim = r.HeadDim
			if plane.Data, err = r.filled(r.kv, r.planeLen()); err != nil {
				return err
			}
		}
		r.layers = append(r.layers, view)
	}
	for _, id := range rand.New(rand.NewPCG(1, 2)).Perm(blocks) {
		r.ids = append(r.ids, uint32(id))
	}
	r.table, err = uploaded(r, backend.U32, r.ids)
	return err
}

// affordable is how many layers there is memory for. A quarter of what is free is
// left alone.
func affordable(be anyBackend, s shape, footprint, input int64) (int, error) {
	kv, _, err := s.storage()
	if err != nil {
		return 0, err
	}
	plane, _ := kv.Size(s.planeLen()) // the shape was checked
	layer, spare := 2*plane, int64(math.MaxInt64)
	if free := be.Info().FreeMemory; free > 0 {
		spare = free / 4 * 3
	}
	if layer+input > spare {
		return 0, fmt.Errorf("--batch %d --context %d: one layer and its operands need %s, and %s has %s to spare; lower them",
			s.Batch, s.Context, byteSize(layer+input), be.Info().Name, byteSize(spare))
	}
	wanted := (footprint-1)/layer + 1
	return int(max(1, min(wanted, maxLayers, (spare-input)/layer))), nil
}

// next is the layer whose turn it is.
func (r *rig) next() backend.CacheView[backend.AnyBuffer] {
	r.turn++
	return r.layers[r.turn%len(r.layers)]
}

// own keeps b until the rig is closed.
func (r *rig) own(b backend.AnyBuffer, err error) (backend.AnyBuffer, error) {
	if err == nil {
		r.owned = append(r.owned, b)
	}
	return b, err
}

// filled allocates n elements of a harmless value: no zeros, which some memory
// does not really hold, and no denormal numbers, which some processors are slow on.
func (r *rig) filled(dt backend.DType, n int) (backend.AnyBuffer, error) {
	b, err := r.own(r.be.Alloc(dt, n))
	if err != nil {
		return b, err
	}
	return b, r.be.Fill(r.stream, b, 0, n, 0.25)
}

func uploaded[T backend.Number](r *rig, dt backend.DType, values []T) (backend.AnyBuffer, error) {
	return r.own(backend.AllocFrom(r.be, r.stream, dt, values))
}

func (r *rig) close() {
	for _, b := range r.owned {
		_ = r.be.Free(b) // ours and live: a failure means the device is gone, and Close will say so
	}
	r.owned = nil
}
