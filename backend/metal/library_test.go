//go:build linux && cgo && !nometal && metalsimt

package metal

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest/gputest"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/backend/internal/msl"
	"github.com/ferrumkv/ferrumkv/backend/metal/mtl"
	"github.com/ferrumkv/ferrumkv/internal/standin/metalsimt"
	metalkernels "github.com/ferrumkv/ferrumkv/kernels/metal"
)

// embed makes a library of all kernels a part of the program, for a test. What the
// stand-in takes for one is source after four letters.
func embed(t testing.TB, text string) {
	before := library
	library = func() ([]byte, bool) { return []byte(text), true }
	t.Cleanup(func() { library = before })
}

// compiled is how often source was compiled.
func compiled() uint64 { return metalsimt.Calls("newLibraryWithSource:options:error:") }

// A library that was made beforehand is used, and for what it does not have, or when it
// does not load, the source is.
func TestLibraryMadeBeforehand(t *testing.T) {
	blocks, err := msl.Instance(launch.Kernel{Op: launch.OpCopyBlocks}).Source()
	require.NoError(t, err)
	use := func(op launch.Op) uint64 {
		be := open(t)
		before := compiled()
		_, err := be.modules.find(&launch.Call{Kernel: launch.Kernel{Op: op}})
		require.NoError(t, err)
		require.NoError(t, gputest.Exercise[*Buffer](be))
		return compiled() - before
	}
	without := use(launch.OpCopyBlocks)
	require.EqualValues(t, 3, without, "copy_blocks, and the two that the exercise uses")
	embed(t, "MTLB"+blocks)
	require.EqualValues(t, without-1, use(launch.OpCopyBlocks), "in the library")
	require.EqualValues(t, without-1, use(launch.OpMoveSlots), "too")
	require.EqualValues(t, without-1, use(launch.OpFill), "not in the library")
	embed(t, "for a newer system")
	require.EqualValues(t, without, use(launch.OpCopyBlocks))
	embed(t, "")
	require.EqualValues(t, without, use(launch.OpCopyBlocks))
}

// A source that does not compile is an error with the line in the repository, names the
// kernel, and leaves everything usable.
func TestSourceThatDoesNotCompile(t *testing.T) {
	be := open(t)
	call := &launch.Call{Kernel: launch.Kernel{Op: launch.OpCopyBlocks}}
	i := msl.Instance(call.Kernel)
	source, err := i.Source()
	require.NoError(t, err)
	at := strings.LastIndex(source, "\n}\n")
	broken, err := be.gpu.NewLibrary(source[:at]+"\n    nonsense here;"+source[at:], false)
	require.Zero(t, broken)
	var failed mtl.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "newLibraryWithSource", failed.Call)
	require.Regexp(t, `kernels/metal/blocks\.metal:\d+`, failed.Text)

	for name, fail := range map[string]func(int){"library": metalsimt.FailLibrary, "pipeline": metalsimt.FailPipeline} {
		be := open(t)
		fail(1)
		_, err = be.modules.find(call)
		require.ErrorAs(t, err, &failed, name)
		require.ErrorContains(t, err, "kernel fkv_copy_blocks: ")
		require.False(t, be.dev.Lost())
		_, err = be.modules.find(call)
		require.NoError(t, err, "%s: it was not remembered", name)
		require.NoError(t, gputest.Exercise[*Buffer](be))
	}
}

// A family that lacks the kernel is an error, and no other kernel's.
func TestKernelThatIsMissing(t *testing.T) {
	be := open(t)
	be.modules.libraries[metalkernels.Instance{Family: "blocks"}] = emptyLibrary(t, be)
	_, err := be.modules.find(&launch.Call{Kernel: launch.Kernel{Op: launch.OpCopyBlocks}})
	require.ErrorAs(t, err, new(mtl.Error))
	require.ErrorContains(t, err, "kernel fkv_copy_blocks: newFunctionWithName")
	require.NoError(t, gputest.Exercise[*Buffer](be))
}

// A kernel that the system runs with too few threads is refused, and where Metal's validation of
// kernels is on, that is named as a reason.
func TestKernelOfTooFewThreads(t *testing.T) {
	be := open(t)
	be.modules.libraries[metalkernels.Instance{Family: "blocks"}] = libraryOf(t, be,
		"[[max_total_threads_per_threadgroup(64)]] kernel void fkv_copy_blocks() {}\n")
	for value, named := range map[string]bool{"": false, "0": false, "1": true} {
		t.Setenv(shaderValidation, value)
		_, err := be.modules.find(&launch.Call{Kernel: launch.Kernel{Op: launch.OpCopyBlocks}})
		require.ErrorIs(t, err, backend.ErrUnsupported{})
		require.ErrorContains(t, err, "at most 64 threads")
		require.Equal(t, named, strings.Contains(err.Error(), shaderValidation), "%v", err)
	}
}

func emptyLibrary(t testing.TB, be *Backend) mtl.Library { return libraryOf(t, be, "") }

func libraryOf(t testing.TB, be *Backend, source string) mtl.Library {
	l, err := be.gpu.NewLibrary("#include <metal_stdlib>\n"+source, false)
	require.NoError(t, err)
	return l
}
