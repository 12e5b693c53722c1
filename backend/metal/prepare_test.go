//go:build linux && cgo && !nometal && metalsimt

package metal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/backend/internal/device"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// What compiles is told apart from what is there, so that nothing compiles under the device's lock, and a
// kernel that somebody waits for keeps nobody from freeing.
func TestNothingWaitsForACompile(t *testing.T) {
	be := open(t)
	s := newStream(t, be)
	b, other := newBuffer(t, be, 64, 1), newBuffer(t, be, 64, 2)
	gone, err := be.Alloc(backend.U32, 64)
	require.NoError(t, err)
	_, err = be.modules.of(&launch.Call{Kernel: launch.Kernel{Op: launch.OpFill}})
	var missing *device.Missing
	require.ErrorAs(t, err, &missing)

	compiling, release := make(chan struct{}), make(chan struct{})
	own := library
	t.Cleanup(func() { library = own })
	library = func() ([]byte, bool) { // is asked for by the first kernel that compiles
		close(compiling)
		<-release
		return own()
	}
	filled := make(chan error, 1)
	go func() { filled <- be.Fill(s, b, 0, 64, 7) }()
	<-compiling
	require.NoError(t, be.Free(gone), "waits for the lock that operations hold")
	require.NoError(t, newStream(t, be).Sync())
	close(release)
	require.NoError(t, <-filled)
	require.NoError(t, be.Copy(s, b, 1, b, 0, 32), "overlaps: its kernels come before its first launch")
	require.NoError(t, be.Upload(s, other, 0, make([]byte, 256)), "behind work, so by a kernel")
	require.NoError(t, s.Sync())
	requireAll(t, 7, words(t, be, b))
	requireAll(t, 0, words(t, be, other))
}

// A mask that was prepared for is compiled by a plan, with its kinds, and no plain one.
func TestPlansKnowThePreparedMasks(t *testing.T) {
	be := open(t)
	f := launch.Formats[0]
	p := backend.Preparation{Formats: []backend.Format{f}, QHeads: 8, KVHeads: 2, KDim: 64, VDim: 64,
		Masks: []backend.MaskUse{{ALiBi: true, SoftCap: true}, {SinkLogits: true}}}
	require.NoError(t, be.Prepare(p))
	before := emulator().Found()
	require.NoError(t, be.Prepare(p), "again")
	require.Equal(t, before, emulator().Found())
	s := backend.AttendShape{QHeads: 8, KVHeads: 2, KDim: 64, VDim: 64, BlockSize: 16, Format: f, ContextLens: []uint32{40}, QueryLens: []uint32{1}, TableStride: 3}
	_, err := be.PlanAttend(s)
	require.NoError(t, err)
	require.Equal(t, before, emulator().Found(), "a decode step was prepared")
	s.QueryLens[0] = 40
	_, err = be.PlanAttend(s)
	require.NoError(t, err)
	require.EqualValues(t, 4, emulator().Found()-before, "a kind, for two masks, split and whole")

	masks := be.masksOf(&s)
	require.ElementsMatch(t, []uint32{1<<abi.WithALiBi | 1<<abi.WithSoftcap, 1 << abi.WithSinks}, masks)
	s.KDim = 128
	require.Equal(t, plain, be.masksOf(&s))
	p.Residual, p.KDim = true, 128
	be.masks.add(&p)
	s.Part = backend.OlderKeys
	require.ElementsMatch(t, []uint32{1<<abi.WithALiBi | 1<<abi.WithSoftcap, 0}, be.masksOf(&s), "its sinks count once")
}
