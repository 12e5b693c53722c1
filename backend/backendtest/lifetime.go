package backendtest

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

func lifetimeChecks[B backend.Buffer]() []check[B] {
	return []check[B]{
		{"double free", checkDoubleFree[B]},
		{"use after free", checkUseAfterFree[B]},
		{"a buffer of another device", checkForeignBuffer[B]},
		{"a stream of another device", checkForeignStream[B]},
		{"use after close", checkUseAfterClose[B]},
		{"no buffer and no stream", checkNothing[B]},
		{"free while work is queued", checkFreeQueued[B]},
		{"scales and mass of another device", checkScalesOfAnother[B]},
	}
}

func checkDoubleFree[B backend.Buffer](r *rig[B]) {
	b, err := r.be.Alloc(backend.F32, 8)
	require.NoError(r, err)
	require.NoError(r, r.be.Free(b))
	live := r.be.Info().Buffers
	require.ErrorIs(r, r.be.Free(b), backend.ErrFreed)
	require.Equal(r, live, r.be.Info().Buffers)

	again, err := r.be.Alloc(backend.F32, 8) // may be given the same memory
	require.NoError(r, err)
	require.ErrorIs(r, r.be.Free(b), backend.ErrFreed)
	require.NoError(r, r.be.Free(again))
}

// probe is what the checks of this file hand to a device beside the buffer that
// must be refused, so that nothing else is wrong with a call.
type probe[B backend.Buffer] struct {
	good, pairs B
	kDim, vDim  int
	block       int
}

// probeLen is the elements of every f32 buffer of a probe.
const probeLen = 1 << 14

// probe allocates one on a device, which the caller frees or closes.
func (r *rig[B]) probe(be backend.Backend[B]) probe[B] {
	p := probe[B]{block: r.blockSize(16)}
	p.kDim, p.vDim = r.dims(64, 64)
	var err error
	p.good, err = be.Alloc(backend.F32, probeLen)
	require.NoError(r, err)
	p.pairs, err = be.Alloc(backend.I64, 2)
	require.NoError(r, err)
	return p
}

// free gives the buffers back.
func (p probe[B]) free(r *rig[B], be backend.Backend[B]) {
	require.NoError(r, be.Free(p.good))
	require.NoError(r, be.Free(p.pairs))
}

// uses is every way to hand a single buffer to a device.
func (p probe[B]) uses(be backend.Backend[B], s backend.Stream, b B) map[string]error {
	_, handle := be.Handle(b)
	_, sub := be.SubBuffer(b, 0, backend.F32, 1)
	return map[string]error{
		"handle":    handle,
		"sub":       sub,
		"free":      be.Free(b),
		"upload":    be.Upload(s, b, 0, make([]byte, 4)),
		"download":  be.Download(s, make([]byte, 4), b, 0),
		"copy to":   be.Copy(s, b, 0, p.good, 0, 1),
		"copy from": be.Copy(s, p.good, 0, b, 0, 1),
		"fill":      be.Fill(s, b, 0, 1, 0),
		"move slots": be.MoveSlots(s, backend.MoveSlotsParams[B]{Cache: backend.CacheView[B]{
			K: backend.Plane[B]{Data: b, Dim: p.kDim}, V: backend.Plane[B]{Data: p.good, Dim: p.vDim},
			Blocks: 1, KVHeads: 1, BlockSize: p.block}, Pairs: p.pairs, N: 1}),
	}
}

func checkUseAfterFree[B backend.Buffer](r *rig[B]) {
	p := r.probe(r.be)
	b, err := r.be.Alloc(backend.F32, probeLen)
	require.NoError(r, err)
	require.NoError(r, r.be.Free(b))
	for name, err := range p.uses(r.be, r.s, b) {
		require.ErrorIs(r, err, backend.ErrFreed, name)
	}
	p.free(r, r.be)
}

func checkForeignBuffer[B backend.Buffer](r *rig[B]) {
	other := r.open()
	foreign := r.constantOn(other, 1.5)
	p := r.probe(r.be)
	for name, err := range p.uses(r.be, r.s, foreign) {
		require.ErrorIs(r, err, backend.ErrOtherDevice, name)
	}
	p.free(r, r.be)
	s, err := other.NewStream()
	require.NoError(r, err)
	got := make([]float32, probeLen)
	require.NoError(r, backend.Download(other, s, got, foreign, 0))
	for _, v := range got {
		require.Equal(r, float32(1.5), v, "the other device's memory was written")
	}
	require.NoError(r, s.Close())
	require.NoError(r, other.Free(foreign), "the other device still has its buffer")
	require.NoError(r, other.Close())
}

// constantOn is a buffer of probeLen f32 on a device, all of the value.
func (r *rig[B]) constantOn(be backend.Backend[B], value float64) B {
	s, err := be.NewStream()
	require.NoError(r, err)
	b, err := be.Alloc(backend.F32, probeLen)
	require.NoError(r, err)
	require.NoError(r, be.Fill(s, b, 0, probeLen, value))
	require.NoError(r, s.Close())
	return b
}

func checkForeignStream[B backend.Buffer](r *rig[B]) {
	other := r.open()
	foreign, err := other.NewStream()
	require.NoError(r, err)
	event, err := other.NewEvent()
	require.NoError(r, err)
	good := r.region("good", backend.F32, 0, 64)
	r.push()
	require.ErrorIs(r, r.be.Fill(foreign, good.buf, 0, 1, 0), backend.ErrOtherDevice)
	require.ErrorIs(r, r.be.Upload(foreign, good.buf, 0, make([]byte, 4)), backend.ErrOtherDevice)
	require.ErrorIs(r, r.s.Record(event), backend.ErrOtherDevice)
	require.ErrorIs(r, r.s.Wait(event), backend.ErrOtherDevice)
	r.verify()
	require.NoError(r, event.Close())
	require.NoError(r, foreign.Close())
	require.NoError(r, other.Close())
}

// checkUseAfterClose closes a device with live buffers and a stream: neither may
// be touched again.
func checkUseAfterClose[B backend.Buffer](r *rig[B]) {
	be := r.open()
	p := r.probe(be)
	s, err := be.NewStream()
	require.NoError(r, err)
	require.NoError(r, be.Close())

	errs := p.uses(be, s, p.good)
	_, errs["alloc"] = be.Alloc(backend.F32, 1)
	_, errs["import"] = be.Import(backend.HostHandle(make([]float32, 4)), backend.F32, 4)
	_, errs["new stream"] = be.NewStream()
	_, errs["import stream"] = be.ImportStream(backend.Handle{})
	_, errs["new event"] = be.NewEvent()
	errs["sync"] = s.Sync()
	errs["close"] = be.Close()
	for name, err := range errs {
		require.ErrorIs(r, err, backend.ErrClosed, name)
	}
	require.Zero(r, be.Info().Buffers)
}

// checkNothing hands over the zero value where a buffer or stream belongs.
func checkNothing[B backend.Buffer](r *rig[B]) {
	var none B
	require.Zero(r, none.Len())
	require.Equal(r, backend.Invalid, none.DType())
	require.Zero(r, none.Bytes())
	p := r.probe(r.be)
	errs := p.uses(r.be, r.s, none)
	errs["no stream"] = r.be.Fill(nil, p.good, 0, 1, 0)
	for name, err := range errs {
		require.Error(r, err, name)
	}
	p.free(r, r.be)
}

// checkFreeQueued frees the source of a copy at once: the copy was queued before
// and may still use it.
func checkFreeQueued[B backend.Buffer](r *rig[B]) {
	const n = 1 << 18
	dst := r.region("destination", backend.F32, 0, n)
	src, err := r.be.Alloc(backend.F32, n)
	require.NoError(r, err)
	r.push()
	require.NoError(r, r.be.Fill(r.s, src, 0, n, 4))
	require.NoError(r, r.be.Copy(r.s, dst.buf, 0, src, 0, n))
	require.NoError(r, r.be.Free(src))
	again, err := r.be.Alloc(backend.F32, n)
	require.NoError(r, err)
	require.NoError(r, r.be.Fill(r.s, again, 0, n, 5))
	require.NoError(r, r.be.Free(again))
	four := encode(backend.F32, []float32{4})
	for i := range n {
		dst.set(i, four)
	}
	r.verify()
}
