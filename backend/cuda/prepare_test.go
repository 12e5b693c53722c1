//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest/gputest"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// prepare loads what a pool of the shape's format asks for.
func prepare(be *Backend, s backend.AttendShape) error {
	return backend.Prepare(be, backend.Preparation{Formats: []backend.Format{s.Format}, QHeads: s.QHeads, KVHeads: s.KVHeads, KDim: s.KDim, VDim: s.VDim})
}

// loadsOf is how many modules do loads.
func loadsOf(t *testing.T, be *Backend, do func() error) int {
	before := len(be.modules.loaded)
	require.NoError(t, do())
	return len(be.modules.loaded) - before
}

func plans(be *Backend, s backend.AttendShape) func() error {
	return func() error {
		_, err := be.PlanAttend(s)
		return err
	}
}

// After Prepare a step finds its kernels, whichever rows it has.
func TestPreparedStepsLoadNothing(t *testing.T) {
	be := open(t)
	require.Positive(t, loadsOf(t, be, func() error { return prepare(be, decodeShape(16)) }))
	require.Zero(t, loadsOf(t, be, plans(be, mixedShape(16))))
	l, err := makeLayer(be, decodeShape(16))
	require.NoError(t, err)
	require.Zero(t, loadsOf(t, be, func() error {
		return errors.Join(be.Append(l.s, l.append), be.Attend(l.s, l.attend), l.s.Sync())
	}))
	unknown := decodeShape(1)
	unknown.KDim = 72
	require.ErrorIs(t, prepare(be, unknown), backend.ErrUnsupported{})
	require.NoError(t, be.Free(l.append.Slots))
}

// Both layouts have the same kernels, and those that nothing asks for are not even looked up.
func TestContiguousCachesPrepareTheirKernels(t *testing.T) {
	c := control(t)
	be := open(t)
	shape := decodeShape(1)
	p := backend.Preparation{Formats: []backend.Format{shape.Format}, QHeads: shape.QHeads, KVHeads: shape.KVHeads, KDim: shape.KDim, VDim: shape.VDim, Contiguous: true}
	before := c.Calls("cuModuleGetFunction")
	require.NoError(t, be.Prepare(p))
	looked := c.Calls("cuModuleGetFunction")
	require.EqualValues(t, len(launch.Prepared(p, true, nil)), looked-before)
	shape.TableStride, shape.ContextLens[0] = 1, uint32(shape.BlockSize)
	_, err := be.PlanAttend(shape)
	require.NoError(t, err)
	require.Equal(t, looked, c.Calls("cuModuleGetFunction"))
}

// A device that is closed prepares nothing.
func TestPrepareOfAClosedDevice(t *testing.T) {
	be := openNow(t)
	require.NoError(t, be.Close())
	require.ErrorIs(t, prepare(be, decodeShape(1)), backend.ErrClosed)
	require.ErrorIs(t, prepare(new(Backend), decodeShape(1)), backend.ErrClosed)
}

// TestChildPreparesWithoutMachineCode is run by TestOnlyWhatIsCertainIsCompiled.
func TestChildPreparesWithoutMachineCode(t *testing.T) {
	if !gputest.InChild() {
		t.Skip("the body of a child process")
	}
	be := open(t)
	require.NoError(t, prepare(be, decodeShape(16)))
	require.Zero(t, loadsOf(t, be, plans(be, decodeShape(16))), "decode steps are certain")
	require.Positive(t, loadsOf(t, be, plans(be, mixedShape(16))), "prompts are not")
	l, err := makeLayer(be, decodeShape(16))
	require.NoError(t, err)
	require.Zero(t, loadsOf(t, be, func() error {
		return errors.Join(be.Append(l.s, l.append), be.Attend(l.s, l.attend), l.s.Sync())
	}))
}

// Where the driver compiles the kernels, only those that every step needs are loaded before they are used.
func TestOnlyWhatIsCertainIsCompiled(t *testing.T) {
	control(t)
	require.Contains(t, gputest.Child(t, "^TestChildPreparesWithoutMachineCode$", "FERRUM_SIMT_CAPABILITY=10.0"), "--- PASS: TestChildPrepares")
}

// What is prepared is what there are kernels for.
func TestPreparedKernelsAreReachable(t *testing.T) {
	reachable := map[launch.Kernel]bool{}
	for _, k := range launch.Reachable() {
		reachable[k] = true
	}
	for _, f := range launch.Formats {
		for _, dims := range launch.HeadDims {
			p := backend.Preparation{Formats: []backend.Format{f, f}, QHeads: 8, KVHeads: 2, KDim: dims[0], VDim: dims[1], Scores: true}
			for i := range 8 {
				p.Residual, p.Hadamard, p.Contiguous = i&1 != 0, i&2 != 0, i&4 != 0
				for _, k := range launch.Prepared(p, true, nil) {
					require.True(t, reachable[k], k.Symbol())
				}
			}
		}
	}
}
