package backendtest

import (
	"bytes"
	"errors"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/stretchr/testify/require"
)

// blockSetChecks are those of blocks that go to host memory and back.
func blockSetChecks[B backend.Buffer]() []check[B] {
	return []check[B]{
		{"there and back", checkBlockSet[B]},
		{"order of a stream", checkBlockSetOrder[B]},
		{"fences", checkBlockSetFences[B]},
		{"closing at once", checkBlockSetClose[B]},
		{"several goroutines", checkBlockSetGoroutines[B]},
		{"bad input", checkBlockSetRefuses[B]},
		{"by the host", checkBlockAccess[B]},
	}
}

// planes are planes of every storage type, each with blocks of another size, as regions and as a set.
func (r *rig[B]) planes(blocks int) (regions []*region[B], planes []backend.BlockPlane[B]) {
	for dt := range backend.NumDTypes {
		if dt.Bits() == 0 {
			continue
		}
		each := 8 * (1 + int(dt)%5)
		reg := r.exact(dt.String(), dt, blocks*each)
		copy(reg.image, r.bytes(len(reg.image)))
		regions = append(regions, reg)
		planes = append(planes, backend.BlockPlane[B]{Buf: reg.buf, Each: each})
	}
	return regions, planes
}

// of is what a block holds, by the images of regions.
func blockOf[B backend.Buffer](regions []*region[B], block, blocks int) (out []byte) {
	for _, reg := range regions {
		n := len(reg.image) / blocks
		out = append(out, reg.image[block*n:][:n]...)
	}
	return out
}

func (r *rig[B]) hostMemory(n int64) backend.HostMemory {
	m, err := backend.HostAlloc(r.be, n)
	require.NoError(r, err)
	require.Len(r, m.Bytes(), int(n))
	return m
}

// checkBlockSet packs some blocks, in no order and one of them twice, into the middle of host memory, and unpacks them
// elsewhere: no byte around them changes.
func checkBlockSet[B backend.Buffer](r *rig[B]) {
	const blocks, lead = 7, 24
	regions, planes := r.planes(blocks)
	r.push()
	set, err := backend.NewBlockSet(r.be, planes)
	require.NoError(r, err)
	each := int64(len(blockOf(regions, 0, blocks)))
	require.Equal(r, each, set.BlockBytes())

	from, to := []uint32{5, 0, 6, 5}, []uint32{1, 6, 2, 3}
	host := r.hostMemory(lead + 4*each + 8)
	want := bytes.Repeat([]byte{0xa5}, len(host.Bytes()))
	copy(host.Bytes(), want)
	require.NoError(r, set.Pack(r.s, from, host, lead))
	require.NoError(r, r.s.Sync())
	for i, block := range from {
		copy(want[lead+int64(i)*each:], blockOf(regions, int(block), blocks))
	}
	require.Equal(r, want, host.Bytes())
	r.verify()

	require.NoError(r, set.Unpack(r.s, to, host, lead))
	require.NoError(r, r.s.Sync())
	for i, block := range to {
		packed := want[lead+int64(i)*each:]
		for _, reg := range regions {
			n := len(reg.image) / blocks
			copy(reg.image[int(block)*n:][:n], packed)
			packed = packed[n:]
		}
	}
	r.verify()
	require.NoError(r, set.Pack(r.s, nil, host, int64(len(want))), "no blocks, at the end")
	require.NoError(r, set.Close())
	require.NoError(r, host.Close())
}

// checkBlockSetOrder packs behind work of the stream, and works behind an unpacking.
func checkBlockSetOrder[B backend.Buffer](r *rig[B]) {
	const blocks, each = 3, 16
	reg := r.exact("plane", backend.F32, blocks*each)
	r.push()
	set, err := backend.NewBlockSet(r.be, []backend.BlockPlane[B]{{Buf: reg.buf, Each: each}})
	require.NoError(r, err)
	host := r.hostMemory(set.BlockBytes())
	require.NoError(r, r.be.Fill(r.s, reg.buf, each, each, 2))
	require.NoError(r, set.Pack(r.s, []uint32{1}, host, 0))
	require.NoError(r, r.be.Fill(r.s, reg.buf, 0, blocks*each, 3))
	require.NoError(r, set.Unpack(r.s, []uint32{2}, host, 0))
	require.NoError(r, r.be.Fill(r.s, reg.buf, 0, each, 4))
	require.NoError(r, r.s.Sync())
	for i := range blocks * each {
		v := []float32{4, 3, 2}[i/each]
		copy(reg.image[4*i:], backend.BytesOf([]float32{v}))
	}
	r.verify()
	require.NoError(r, set.Close())
	require.NoError(r, host.Close())
}

// checkBlockSetFences has steps on one stream and copies on another, as a cache does: blocks are packed behind
// the event of a step and are there with the copies' own, behind which another step reads what was unpacked.
func checkBlockSetFences[B backend.Buffer](r *rig[B]) {
	const blocks, each = 4, 1 << 12
	reg := r.exact("plane", backend.U32, blocks*each)
	r.push()
	set, err := backend.NewBlockSet(r.be, []backend.BlockPlane[B]{{Buf: reg.buf, Each: each}})
	require.NoError(r, err)
	host := r.hostMemory(2 * set.BlockBytes())
	copies := r.stream()
	step, packed, unpacked := r.event(), r.event(), r.event()
	for i := range uint32(5) {
		require.NoError(r, r.be.Fill(r.s, reg.buf, 0, each, float64(7*i)))
		require.NoError(r, r.be.Fill(r.s, reg.buf, each, each, float64(7*i+1)))
		require.NoError(r, r.s.Record(step))
		require.NoError(r, copies.Wait(step))
		require.NoError(r, set.Pack(copies, []uint32{1, 0}, host, 0))
		require.NoError(r, copies.Record(packed))
		require.NoError(r, r.s.Wait(packed))
		require.NoError(r, r.be.Fill(r.s, reg.buf, 0, 2*each, 1e6))
		require.NoError(r, packed.Sync())
		require.Equal(r, bytes.Repeat(backend.BytesOf([]uint32{7*i + 1}), each), host.Bytes()[:set.BlockBytes()])
		require.Equal(r, bytes.Repeat(backend.BytesOf([]uint32{7 * i}), each), host.Bytes()[set.BlockBytes():])

		require.NoError(r, set.Unpack(copies, []uint32{2, 3}, host, 0))
		require.NoError(r, copies.Record(unpacked))
		require.NoError(r, r.s.Wait(unpacked))
		require.NoError(r, r.be.Copy(r.s, reg.buf, 0, reg.buf, 2*each, 2*each))
		require.NoError(r, unpacked.Sync())
		clear(host.Bytes())
		for j := range each {
			for k, v := range []uint32{7*i + 1, 7 * i, 7*i + 1, 7 * i} {
				reg.set(k*each+j, backend.BytesOf([]uint32{v}))
			}
		}
		r.verify()
	}
	for _, e := range []backend.Event{step, packed, unpacked} {
		require.NoError(r, e.Close())
	}
	require.NoError(r, copies.Close())
	require.NoError(r, set.Close())
	require.NoError(r, host.Close())
}

func (r *rig[B]) event() backend.Event {
	e, err := r.be.NewEvent()
	require.NoError(r, err)
	return e
}

// checkBlockSetClose closes memory and sets while copies may be under way: those are done, and everything after is ErrClosed.
func checkBlockSetClose[B backend.Buffer](r *rig[B]) {
	const blocks = 5
	regions, planes := r.planes(blocks)
	r.push()
	for _, hostFirst := range []bool{true, false} {
		set, err := backend.NewBlockSet(r.be, planes)
		require.NoError(r, err)
		each := set.BlockBytes()
		host, kept := r.hostMemory(2*each), r.hostMemory(each)
		require.NoError(r, set.Pack(r.s, []uint32{3, 4}, host, 0))
		require.NoError(r, set.Unpack(r.s, []uint32{0}, host, 0))
		require.NoError(r, set.Pack(r.s, []uint32{0}, kept, 0))
		for _, reg := range regions {
			n := len(reg.image) / blocks
			copy(reg.image[:n], reg.image[3*n:4*n])
		}
		if hostFirst {
			require.NoError(r, host.Close())
			require.Nil(r, host.Bytes())
			require.ErrorIs(r, set.Pack(r.s, nil, host, 0), backend.ErrClosed)
			require.ErrorIs(r, set.Unpack(r.s, nil, host, 0), backend.ErrClosed)
		}
		require.NoError(r, set.Close())
		require.ErrorIs(r, set.Pack(r.s, []uint32{1}, kept, 0), backend.ErrClosed)
		require.ErrorIs(r, set.Unpack(r.s, []uint32{1}, kept, 0), backend.ErrClosed)
		require.ErrorIs(r, set.Close(), backend.ErrClosed)
		require.Equal(r, blockOf(regions, 0, blocks), kept.Bytes(), "Close waits")
		require.NoError(r, kept.Close())
		if !hostFirst {
			require.NoError(r, host.Close())
		}
		require.ErrorIs(r, host.Close(), backend.ErrClosed)
		r.verify()
	}
	freed, err := r.be.Alloc(backend.F32, blocks)
	require.NoError(r, err)
	set, err := backend.NewBlockSet(r.be, []backend.BlockPlane[B]{planes[0], {Buf: freed, Each: 1}})
	require.NoError(r, err)
	host := r.hostMemory(set.BlockBytes())
	require.NoError(r, r.be.Free(freed))
	require.ErrorIs(r, set.Pack(r.s, []uint32{1}, host, 0), backend.ErrFreed)
	require.Equal(r, make([]byte, set.BlockBytes()), host.Bytes())
	require.ErrorIs(r, set.Unpack(r.s, []uint32{1}, host, 0), backend.ErrFreed)
	r.verify()
	require.NoError(r, set.Close())
	require.NoError(r, host.Close())
}

// checkBlockSetGoroutines has goroutines with a stream each that share a set and memory, of which each has its part.
func checkBlockSetGoroutines[B backend.Buffer](r *rig[B]) {
	const goroutines, each = 4, 3
	regions, planes := r.planes(goroutines * each)
	r.push()
	require.NoError(r, r.s.Sync())
	set, err := backend.NewBlockSet(r.be, planes)
	require.NoError(r, err)
	part := each * set.BlockBytes()
	host := r.hostMemory(goroutines * part)
	errs := make(chan error, goroutines)
	for g := range goroutines {
		s := r.stream()
		go func() {
			var err error
			blocks := make([]uint32, each)
			for round := range 6 {
				for i := range blocks {
					blocks[i] = uint32(g*each + (i+round)%each)
				}
				err = errors.Join(err, set.Pack(s, blocks, host, int64(g)*part), set.Unpack(s, blocks, host, int64(g)*part))
			}
			errs <- errors.Join(err, s.Close())
		}()
	}
	for range goroutines {
		require.NoError(r, <-errs)
	}
	for g := range goroutines {
		for i := range each { // as the last round left them
			at := int64(g)*part + int64(i)*set.BlockBytes()
			want := blockOf(regions, g*each+(i+5)%each, goroutines*each)
			require.True(r, bytes.Equal(want, host.Bytes()[at:at+set.BlockBytes()]), "goroutine %d, block %d", g, i)
		}
	}
	r.verify()
	require.NoError(r, set.Close())
	require.NoError(r, host.Close())
}

// checkBlockSetRefuses asks for what is not there: it is refused, and nothing is copied.
func checkBlockSetRefuses[B backend.Buffer](r *rig[B]) {
	const blocks = 4
	_, planes := r.planes(blocks)
	odd := r.exact("odd", backend.F32, 30)
	r.push()
	two := planes[:2:2]
	for name, bad := range map[string][]backend.BlockPlane[B]{
		"no planes":                nil,
		"no elements":              {{Buf: planes[0].Buf}},
		"a negative count":         {{Buf: planes[0].Buf, Each: -8}},
		"a part of a block":        {{Buf: odd.buf, Each: 16}},
		"planes of other counts":   {two[0], {Buf: odd.buf, Each: 30}},
		"more than there is":       {{Buf: odd.buf, Each: 60}},
		"an overflow of the count": {{Buf: odd.buf, Each: math.MaxInt}},
	} {
		_, err := backend.NewBlockSet(r.be, bad)
		require.ErrorIs(r, err, backend.ErrArgument{}, name)
	}
	set, err := backend.NewBlockSet(r.be, planes)
	require.NoError(r, err)
	host := r.hostMemory(2 * set.BlockBytes())
	before := bytes.Repeat([]byte{0x5a}, len(host.Bytes()))
	copy(host.Bytes(), before)
	for name, call := range map[string]func(func(backend.Stream, []uint32, backend.HostMemory, int64) error) error{
		"a block too far": func(f func(backend.Stream, []uint32, backend.HostMemory, int64) error) error {
			return f(r.s, []uint32{0, blocks}, host, 0)
		},
		"too many blocks": func(f func(backend.Stream, []uint32, backend.HostMemory, int64) error) error {
			return f(r.s, []uint32{0, 1, 2}, host, 0)
		},
		"beyond the memory": func(f func(backend.Stream, []uint32, backend.HostMemory, int64) error) error {
			return f(r.s, []uint32{0}, host, set.BlockBytes()+1)
		},
		"before the memory": func(f func(backend.Stream, []uint32, backend.HostMemory, int64) error) error {
			return f(r.s, []uint32{0}, host, -1)
		},
		"an overflow": func(f func(backend.Stream, []uint32, backend.HostMemory, int64) error) error {
			return f(r.s, []uint32{0}, host, math.MaxInt64)
		},
		"no memory": func(f func(backend.Stream, []uint32, backend.HostMemory, int64) error) error {
			return f(r.s, []uint32{0}, nil, 0)
		},
	} {
		require.ErrorIs(r, call(set.Pack), backend.ErrArgument{}, "pack: "+name)
		require.ErrorIs(r, call(set.Unpack), backend.ErrArgument{}, "unpack: "+name)
	}
	require.ErrorIs(r, set.Unpack(r.s, []uint32{2, 2}, host, 0), backend.ErrArgument{})
	_, err = backend.HostAlloc(r.be, -1)
	require.ErrorIs(r, err, backend.ErrArgument{})
	require.Equal(r, before, host.Bytes())
	r.verify()
	require.NoError(r, set.Close())
	require.NoError(r, host.Close())
}

// checkWarmBlockSet packs and unpacks with a set and memory that exist.
func checkWarmBlockSet[B backend.Buffer](r *rig[B]) {
	if race.Enabled {
		r.skip("the race detector allocates")
	}
	_, planes := r.planes(8)
	r.push()
	set, err := backend.NewBlockSet(r.be, planes)
	require.NoError(r, err)
	blocks := []uint32{6, 1, 3}
	host := r.hostMemory(3 * set.BlockBytes())
	r.warm(map[string]func() error{
		"pack":   func() error { return set.Pack(r.s, blocks, host, 0) },
		"unpack": func() error { return set.Unpack(r.s, blocks, host, 0) },
	})
	require.NoError(r, set.Close())
	require.NoError(r, host.Close())
}

// checkBlockAccess calls a device that copies by the host itself with what no set passes on.
func checkBlockAccess[B backend.Buffer](r *rig[B]) {
	access, ok := r.be.(backend.BlockAccess[B])
	if !ok {
		r.skip("the device has a queue's work for it, or transfers")
	}
	regions, planes := r.planes(4)
	r.push()
	each := len(blockOf(regions, 0, 4))
	host := make([]byte, 2*each)
	require.NoError(r, access.ReadBlocks(r.s, host, planes, []uint32{3, 1}))
	require.Equal(r, append(blockOf(regions, 3, 4), blockOf(regions, 1, 4)...), host)
	require.NoError(r, access.ReadBlocks(r.s, nil, planes, nil))
	require.NoError(r, access.WriteBlocks(r.s, planes, nil, nil))
	for name, call := range map[string]func() error{
		"fewer bytes": func() error { return access.ReadBlocks(r.s, host[:2*each-1], planes, []uint32{3, 1}) },
		"more bytes":  func() error { return access.WriteBlocks(r.s, planes, []uint32{3}, host) },
		"no block":    func() error { return access.WriteBlocks(r.s, planes, []uint32{3, 4}, host) },
		"no planes":   func() error { return access.ReadBlocks(r.s, nil, nil, nil) },
		"no buffer":   func() error { return access.ReadBlocks(r.s, nil, []backend.BlockPlane[B]{{Each: 1}}, nil) },
	} {
		require.ErrorIs(r, call(), backend.ErrArgument{}, name)
	}
	r.verify()
}
