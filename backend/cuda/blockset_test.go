//go:build linux && cgo && !nocuda

package cuda

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest/gputest"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
)

// plane is a plane of bytes, and what it has to hold.
type plane struct {
	buf   *Buffer
	each  int
	image []byte
}

// scenery is planes on a device, with a stream.
type scenery struct {
	t      rapid.TB
	be     *Backend
	s      backend.Stream
	planes []plane
	blocks int
}

// newScenery makes planes whose blocks have so many bytes, and which begin shift bytes behind a multiple of 256.
func newScenery(t rapid.TB, be *Backend, blocks, shift int, each ...int) *scenery {
	s, err := be.NewStream()
	require.NoError(t, err)
	c := &scenery{t: t, be: be, s: s, blocks: blocks}
	for i, n := range each {
		whole, err := be.Alloc(backend.Int8, shift+blocks*n)
		require.NoError(t, err)
		part, err := be.SubBuffer(whole, int64(shift), backend.Int8, blocks*n)
		require.NoError(t, err)
		p := plane{part, n, make([]byte, blocks*n)}
		random := rand.New(rand.NewPCG(uint64(i), uint64(n)))
		for j := range p.image {
			p.image[j] = byte(random.Uint32())
		}
		require.NoError(t, be.Upload(s, part, 0, p.image))
		c.planes = append(c.planes, p)
	}
	return c
}

// set is the planes as a set that stages so much at once.
func (c *scenery) set(staged, listed int) *blockSet {
	var planes []backend.BlockPlane[*Buffer]
	for _, p := range c.planes {
		planes = append(planes, backend.BlockPlane[*Buffer]{Buf: p.buf, Each: p.each})
	}
	set, err := c.be.newBlockSet(planes, staged, listed)
	require.NoError(c.t, err)
	return set.(*blockSet)
}

func (c *scenery) host(n int64) *hostMemory {
	h, err := c.be.HostAlloc(n)
	require.NoError(c.t, err)
	return h.(*hostMemory)
}

// block is what a block holds.
func (c *scenery) block(id uint32) (out []byte) {
	for _, p := range c.planes {
		out = append(out, p.image[int(id)*p.each:][:p.each]...)
	}
	return out
}

// write makes the images those of an unpacked block.
func (c *scenery) write(id uint32, data []byte) {
	for _, p := range c.planes {
		copy(p.image[int(id)*p.each:][:p.each], data)
		data = data[p.each:]
	}
}

// verify compares the planes with their images.
func (c *scenery) verify() {
	for i, p := range c.planes {
		got := make([]byte, len(p.image))
		require.NoError(c.t, c.be.Download(c.s, got, p.buf, 0))
		require.True(c.t, bytes.Equal(p.image, got), "plane %d", i)
	}
}

// close frees all of it.
func (c *scenery) close() {
	for _, p := range c.planes {
		require.NoError(c.t, c.be.Free(p.buf))
	}
	require.NoError(c.t, c.s.Close())
}

// Whatever is staged at once, of planes of any sizes and places, in memory of either kind: host memory and planes hold what a
// model does.
func TestBlockSetHistories(t *testing.T) {
	be := open(t)
	limit := be.host.use.Limit
	defer func() { be.host.use.Limit = limit }()
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.OneOf(rapid.IntRange(1, 40), rapid.SampledFrom([]int{16, 64, 256, 4096}), rapid.IntRange(1, 3000))
		blocks := rapid.IntRange(1, 9).Draw(rt, "blocks")
		c := newScenery(rt, be, blocks, rapid.SampledFrom([]int{0, 0, 4, 1, 15}).Draw(rt, "shift"), rapid.SliceOfN(size, 1, 5).Draw(rt, "bytes")...)
		set := c.set(rapid.SampledFrom([]int{1, 16, 17, 48, 4096, stagingBytes}).Draw(rt, "staged"), rapid.SampledFrom([]int{2, 3, maxListed}).Draw(rt, "listed"))
		each := set.BlockBytes()
		be.host.use.Limit = rapid.SampledFrom([]int64{0, limit}).Draw(rt, "limit")
		host := c.host(12*each + 8)
		require.Equal(rt, be.host.use.Limit > 0, host.Pinned())
		image := make([]byte, len(host.Bytes()))
		for range rapid.IntRange(1, 6).Draw(rt, "calls") {
			at := rapid.Int64Range(0, 8).Draw(rt, "offset")
			if rapid.Bool().Draw(rt, "pack") {
				list := rapid.SliceOfN(rapid.Uint32Range(0, uint32(blocks-1)), 0, 12).Draw(rt, "list")
				require.NoError(rt, set.Pack(c.s, list, host, at))
				for i, id := range list {
					copy(image[at+int64(i)*each:], c.block(id))
				}
				continue
			}
			list := rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(blocks-1)), 0, blocks, rapid.ID).Draw(rt, "list")
			require.NoError(rt, set.Unpack(c.s, list, host, at))
			for i, id := range list {
				c.write(id, image[at+int64(i)*each:])
			}
		}
		require.NoError(rt, c.s.Sync())
		require.True(rt, bytes.Equal(image, host.Bytes()))
		c.verify()
		require.NoError(rt, host.Close())
		require.NoError(rt, set.Close())
		c.close()
	})
}

// A list goes in as few copies as there is room to stage for.
func TestBlockSetCopies(t *testing.T) {
	control := control(t)
	be := open(t)
	c := newScenery(t, be, 8, 0, 48, 16)
	host := c.host(8 * 64)
	all := []uint32{7, 6, 5, 4, 3, 2, 1, 0}
	for _, want := range []struct{ staged, listed, blocks, copies int }{
		{512, 8, 8, 1}, {496, 8, 8, 2}, {512, 8, 1, 1}, {128, 8, 2, 1}, {128, 8, 3, 2}, {127, 8, 2, 1}, {112, 8, 2, 2}, {512, 2, 4, 2}, {512, 2, 5, 3}, {16, 8, 1, 4},
		{512, 8, 0, 0},
	} {
		set := c.set(want.staged, want.listed)
		packed, launched := control.Calls("cuMemcpyDtoHAsync_v2"), control.Calls("cuLaunchKernel")
		require.NoError(t, set.Pack(c.s, all[:want.blocks], host, 0))
		require.EqualValues(t, want.copies, control.Calls("cuMemcpyDtoHAsync_v2")-packed, "%+v", want)
		require.EqualValues(t, want.copies, control.Calls("cuLaunchKernel")-launched, "%+v", want)
		unpacked := control.Calls("cuMemcpyHtoDAsync_v2")
		require.NoError(t, set.Unpack(c.s, all[:want.blocks], host, 0))
		require.EqualValues(t, 2*want.copies, control.Calls("cuMemcpyHtoDAsync_v2")-unpacked, "and one of the list, %+v", want)
		require.NoError(t, set.Close())
	}
	c.verify()
	require.NoError(t, host.Close())
}

// Memory that is staged is not more than the planes have, and not more than the bound.
func TestBlockSetMemory(t *testing.T) {
	be := open(t)
	c := newScenery(t, be, 8, 0, 48, 17)
	for staged, want := range map[int]int64{1: 16, 16: 16, 17: 32, 8 * 65: 528, 8*65 + 100: 528} {
		before := be.Info()
		set := c.set(staged, maxListed)
		require.Equal(t, want, set.out.staging.Bytes(), "%d", staged)
		require.Equal(t, want, set.in.staging.Bytes(), "%d", staged)
		require.NoError(t, set.Close())
		after := be.Info()
		require.Equal(t, before.Allocated, after.Allocated)
		require.Equal(t, before.Buffers, after.Buffers)
	}
}

// Nothing is waited for: what is enqueued with pinned memory happens when somebody waits.
func TestBlockSetWaitsForNothing(t *testing.T) {
	control := control(t)
	be := open(t)
	c := newScenery(t, be, 4, 0, 4096)
	require.NoError(t, c.s.Sync())
	set, host := c.set(stagingBytes, maxListed), c.host(4*4096)
	waited, spun := control.Calls("cuEventSynchronize"), control.Counts().Spins
	require.NoError(t, set.Pack(c.s, []uint32{3, 1}, host, 0))
	require.NoError(t, set.Unpack(c.s, []uint32{0}, host, 0))
	require.Equal(t, waited, control.Calls("cuEventSynchronize"))
	require.Equal(t, spun, control.Counts().Spins)
	require.Equal(t, make([]byte, 4*4096), host.Bytes())
	require.NoError(t, c.s.Sync())
	require.Equal(t, c.block(3), host.Bytes()[:4096])
	c.write(0, c.block(3))
	c.verify()
	require.NoError(t, set.Close())
	require.NoError(t, host.Close())
}

func TestBlockSetAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	be := open(t)
	c := newScenery(t, be, 9, 0, 4096, 64)
	set := c.set(10000, maxListed)
	list := []uint32{3, 1, 8, 0, 2, 7, 5, 4}
	limit := be.host.use.Limit
	for _, be.host.use.Limit = range []int64{limit, 0} {
		host := c.host(8 * set.BlockBytes())
		for name, call := range map[string]func(backend.Stream, []uint32, backend.HostMemory, int64) error{"pack": set.Pack, "unpack": set.Unpack} {
			require.NoError(t, call(c.s, list, host, 0))
			require.Zero(t, testing.AllocsPerRun(10, func() {
				if call(c.s, list, host, 0) != nil {
					t.Fail()
				}
			}), "%s, pinned %v", name, host.Pinned())
		}
		require.NoError(t, host.Close())
	}
	require.NoError(t, set.Close())
}

// Two streams take turns in the memory that is staged, in which order ever they run.
func TestBlockSetOnTwoStreams(t *testing.T) {
	be := open(t)
	c := newScenery(t, be, 6, 0, 300, 20)
	set := c.set(200, maxListed)
	host := c.host(6 * set.BlockBytes())
	other, err := be.NewStream()
	require.NoError(t, err)
	require.NoError(t, c.s.Sync())
	for i := range uint32(6) {
		on := []backend.Stream{c.s, other}[i%2]
		require.NoError(t, set.Pack(on, []uint32{5 - i}, host, int64(i)*set.BlockBytes()))
	}
	require.NoError(t, other.Sync())
	require.NoError(t, c.s.Sync())
	for i := range uint32(6) {
		require.True(t, bytes.Equal(c.block(5-i), host.Bytes()[int64(i)*set.BlockBytes():][:set.BlockBytes()]))
	}
	require.NoError(t, other.Close(), "the set was used on it last")
	require.NoError(t, set.Pack(c.s, []uint32{0}, host, 0))
	require.NoError(t, set.Close())
	require.NoError(t, host.Close())
}

// A call of the driver that fails is the error of Pack or Unpack; the next ones work, nothing is left, and memory
// can be closed at once, whatever was enqueued before the failure.
func TestBlockSetFailures(t *testing.T) {
	control := control(t)
	const invalid = 1
	before := control.Counts()
	for _, function := range []string{"cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2", "cuLaunchKernel", "cuEventRecord", "cuStreamWaitEvent"} {
		for n := 1; n <= 3; n++ {
			be := openNow(t)
			c := newScenery(t, be, 4, 0, 64, 16)
			other, err := be.NewStream()
			require.NoError(t, err)
			set, host := c.set(96, maxListed), c.host(4*80)
			require.NoError(t, set.Pack(c.s, []uint32{0}, host, 0))
			require.NoError(t, set.Unpack(c.s, []uint32{0}, host, 0))
			require.NoError(t, c.s.Sync())
			injected := control.Counts().Injected
			control.FailFunction(function, n, invalid)
			failed := set.Pack(other, []uint32{3, 2, 1}, host, 0)
			if failed == nil {
				failed = set.Unpack(other, []uint32{3, 2, 1}, host, 0) // the same blocks
			}
			control.FailFunction(function, 0, 0)
			if n == 1 || control.Counts().Injected > injected {
				var refused driver.Error
				require.ErrorAs(t, failed, &refused, "%s %d", function, n)
				require.Equal(t, invalid, refused.Code)
				require.ErrorContains(t, failed, be.dev.Name()+": ")
			} else {
				require.NoError(t, failed)
			}
			second := c.host(4 * 80)
			require.NoError(t, host.Close())
			require.NoError(t, set.Pack(c.s, []uint32{3, 0}, second, 0))
			require.NoError(t, set.Unpack(c.s, []uint32{3, 0}, second, 0))
			require.NoError(t, c.s.Sync())
			require.NoError(t, other.Sync())
			require.True(t, bytes.Equal(append(c.block(3), c.block(0)...), second.Bytes()[:160]), "%s %d", function, n)
			require.NoError(t, set.Close())
			require.NoError(t, second.Close())
			c.verify()
			require.NoError(t, be.Close())
		}
	}
	after := control.Counts()
	require.Equal(t, before.Live(), after.Live())
	require.Equal(t, before.Misuse, after.Misuse, control.Report())
	require.Equal(t, before.Abandoned, after.Abandoned)
}

// A copy that loses the device is ErrLost, and then all of it can be closed.
func TestBlockSetLosesTheDevice(t *testing.T) {
	control := control(t)
	before := control.Counts().Live()
	be := openNow(t)
	c := newScenery(t, be, 4, 0, 64)
	set, host := c.set(64, maxListed), c.host(4*64)
	require.NoError(t, set.Pack(c.s, []uint32{0, 1}, host, 0))
	require.True(t, control.Lose(0))
	require.ErrorIs(t, c.s.Sync(), backend.ErrLost)
	require.ErrorIs(t, set.Pack(c.s, []uint32{0}, host, 0), backend.ErrLost)
	require.ErrorIs(t, set.Unpack(c.s, []uint32{0}, host, 0), backend.ErrLost)
	require.ErrorIs(t, second(be.HostAlloc(8)), backend.ErrLost)
	require.NoError(t, set.Close())
	require.ErrorIs(t, set.Close(), backend.ErrClosed)
	require.NoError(t, host.Close())
	require.NoError(t, be.Close())
	require.Equal(t, before, control.Counts().Live())
}

// The device may be closed while copies are enqueued, and before what they use.
func TestBlockSetAndTheEndOfTheDevice(t *testing.T) {
	be := openNow(t)
	c := newScenery(t, be, 4, 0, 1000, 16)
	set, host := c.set(600, maxListed), c.host(8*1016)
	began, ended := make(chan struct{}, 4), make(chan error, 4)
	for g := range 4 {
		s, err := be.NewStream()
		require.NoError(t, err)
		go func() {
			began <- struct{}{}
			var err error
			for err == nil {
				err = errors.Join(set.Pack(s, []uint32{uint32(g)}, host, int64(g)*1016), set.Unpack(s, []uint32{uint32(g)}, host, int64(g)*1016))
			}
			ended <- err
		}()
	}
	for range 4 {
		<-began
	}
	require.NoError(t, be.Close())
	for range 4 {
		require.ErrorIs(t, <-ended, backend.ErrClosed)
	}
	require.ErrorIs(t, set.Pack(c.s, []uint32{0}, host, 0), backend.ErrClosed)
	require.Len(t, host.Bytes(), 8*1016)
	require.NoError(t, set.Close())
	require.NoError(t, host.Close())
}

// Without memory pools, and on the legacy default stream, it is all the same.
func TestBlockSetWithoutPools(t *testing.T) {
	control(t)
	require.Contains(t, gputest.Child(t, "^TestBlockSet(Histories|Failures)$", "FERRUM_SIMT_POOLS=0"), "--- PASS: TestBlockSetFailures")
}

// Streams of a runner do too, and are left alone while he captures them.
func TestBlockSetOnImportedStreams(t *testing.T) {
	be := open(t)
	n := newNative(t, be)
	legacy, err := be.ImportStream(backend.Handle{})
	require.NoError(t, err)
	c := newScenery(t, be, 4, 0, 64, 32)
	require.NoError(t, c.s.Sync())
	set, host := c.set(64, maxListed), c.host(4*96)
	for i, s := range []backend.Stream{n.s, legacy} {
		clear(host.Bytes())
		require.NoError(t, set.Pack(s, []uint32{2}, host, 0))
		require.NoError(t, set.Unpack(s, []uint32{uint32(i)}, host, 0))
		require.NoError(t, s.Sync())
		require.Equal(t, c.block(2), host.Bytes()[:96])
		c.write(uint32(i), c.block(2))
	}
	require.NoError(t, be.ctx.BeginCapture(n.cu, driver.Global))
	require.ErrorIs(t, set.Pack(n.s, []uint32{1}, host, 0), backend.ErrCapture{})
	require.ErrorIs(t, set.Unpack(n.s, []uint32{1}, host, 0), backend.ErrCapture{})
	n.repeat(t, 1)
	g, err := be.Capture(c.s, func() error {
		require.ErrorIs(t, set.Pack(c.s, []uint32{1}, host, 0), backend.ErrCapture{})
		require.ErrorIs(t, set.Unpack(c.s, []uint32{1}, host, 0), backend.ErrCapture{})
		return be.Fill(c.s, c.planes[0].buf, 0, 0, 0)
	})
	require.NoError(t, err)
	require.NoError(t, g.Close())
	c.verify()
	require.NoError(t, legacy.Close())
	require.NoError(t, set.Close())
	require.NoError(t, host.Close())
}
