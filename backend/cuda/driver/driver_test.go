//go:build linux && cgo && !nocuda

package driver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	cudakernels "github.com/ferrumkv/ferrumkv/kernels/cuda"
)

// openLibrary opens the library that FERRUM_CUDA_DRIVER names or the system's, or
// skips the test.
func openLibrary(t testing.TB) *Library {
	path := "libcuda.so.1"
	if name := os.Getenv("FERRUM_CUDA_DRIVER"); name != "" {
		path = name
	}
	lib, err := Open(path)
	if errors.Is(err, backend.ErrUnavailable{}) {
		t.Skip(err)
	}
	require.NoError(t, err)
	return lib
}

// retain takes the first device's context for the length of the test.
func retain(t testing.TB) *Context {
	ctx, err := openLibrary(t).Retain(0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ctx.Release()) })
	return ctx
}

func TestOpenSaysWhatIsMissing(t *testing.T) {
	text := filepath.Join(t.TempDir(), "libtext.so")
	require.NoError(t, os.WriteFile(text, []byte("no library"), 0o600))
	for path, words := range map[string]string{
		"/nonexistent/libcuda.so.1": "/nonexistent/libcuda.so.1 not found; it comes with the NVIDIA driver",
		text:                        "cannot open " + text,
		"libc.so.6":                 "driver too old: libc.so.6 has no cuInit, need CUDA 12.0 (driver 525) or newer",
	} {
		_, err := Open(path)
		var why backend.ErrUnavailable
		require.ErrorAs(t, err, &why)
		require.Equal(t, "cuda", why.Backend)
		require.Contains(t, why.Why, words)
	}
}

// Each code stands for the error of package backend that a caller acts on.
func TestErrorKinds(t *testing.T) {
	kinds := map[int]error{2: backend.ErrOutOfMemory{},
		214: backend.ErrLost, 220: backend.ErrLost, 700: backend.ErrLost, 702: backend.ErrLost, 709: backend.ErrLost,
		710: backend.ErrLost, 714: backend.ErrLost, 715: backend.ErrLost, 716: backend.ErrLost, 717: backend.ErrLost, 718: backend.ErrLost,
		719: backend.ErrLost, 810: backend.ErrLost, 911: backend.ErrLost,
		34: backend.ErrUnavailable{}, 46: backend.ErrUnavailable{}, 100: backend.ErrUnavailable{}, 101: backend.ErrUnavailable{}, 802: backend.ErrUnavailable{},
		803: backend.ErrUnavailable{}, 804: backend.ErrUnavailable{},
		900: backend.ErrCapture{}, 901: backend.ErrCapture{}, 905: backend.ErrCapture{}, 906: backend.ErrCapture{}, 907: backend.ErrCapture{}}
	for code := range 1200 {
		err := fmt.Errorf("wrapped: %w", Error{Call: "cuCall", Code: code, Name: "CUDA_ERROR_X", Text: "words"})
		for _, kind := range []error{backend.ErrOutOfMemory{}, backend.ErrLost, backend.ErrUnavailable{}, backend.ErrCapture{}} {
			require.Equal(t, kinds[code] == kind, errors.Is(err, kind), "code %d, %v", code, kind)
		}
	}
	require.ErrorIs(t, Error{Call: "cuCtxPushCurrent_v2", Code: 201}, backend.ErrLost, "our own context is invalid")
	require.EqualError(t, Error{Call: "cuCall", Code: 1, Name: "CUDA_ERROR_INVALID_VALUE", Text: "invalid argument"},
		"cuCall: invalid argument (CUDA_ERROR_INVALID_VALUE)")
	require.EqualError(t, Error{Call: "cuCall", Code: 9999}, "cuCall returned 9999, an error unknown to the driver")
}

func TestDevices(t *testing.T) {
	lib := openLibrary(t)
	require.GreaterOrEqual(t, lib.Version(), minVersion)
	require.Regexp(t, `^\d+\.\d+$`, lib.VersionString())
	require.Positive(t, lib.Len())
	for i := range lib.Len() {
		d, err := lib.Device(i)
		require.NoError(t, err)
		require.Equal(t, i, d.Ordinal)
		require.NotEmpty(t, d.Name)
		require.Regexp(t, `^[0-9a-fA-F]+:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d$`, d.Bus)
		require.Positive(t, d.Memory)
		require.Positive(t, d.Major)
		require.Positive(t, d.Units)
		require.GreaterOrEqual(t, d.MaxShared, 48<<10)
	}
	for _, i := range []int{-1, lib.Len()} {
		_, err := lib.Device(i)
		require.ErrorIs(t, err, backend.ErrUnavailable{})
		_, err = lib.Retain(i)
		require.ErrorIs(t, err, backend.ErrUnavailable{})
	}
}

// Bytes go to the device, within it and back, by memory of either kind.
func TestMemory(t *testing.T) {
	ctx := retain(t)
	s, err := ctx.NewStream()
	require.NoError(t, err)
	ours, err := ctx.Owns(s)
	require.NoError(t, err)
	require.True(t, ours)
	host, err := ctx.AllocHost(64)
	require.NoError(t, err)
	a, err := ctx.Alloc(64)
	require.NoError(t, err)
	b := a
	var pool Pool
	if ctx.Device.Pools {
		pool, err = ctx.NewPool(1 << 20)
		require.NoError(t, err)
		b, err = ctx.AllocFrom(pool, 64, s)
		require.NoError(t, err)
		require.NotEqual(t, a, b)
	}
	for _, p := range []Ptr{a, b} {
		require.Zero(t, p%256)
		info, err := ctx.Describe(p)
		require.NoError(t, err)
		require.True(t, info.OnDevice)
		require.False(t, info.Foreign)
		require.Equal(t, ctx.Device.Ordinal, info.Ordinal)
	}
	for i := range host {
		host[i] = byte(i)
	}
	require.NoError(t, ctx.CopyToDevice(a, host, s))
	if a != b {
		require.NoError(t, ctx.Copy(b, a, 64, s))
	}
	require.NoError(t, ctx.Sync(s))
	clear(host)
	require.NoError(t, ctx.CopyToHost(host[:32], b+32, s))
	require.NoError(t, ctx.Sync(s))
	require.EqualValues(t, 63, host[31])
	free, total, err := ctx.MemInfo()
	require.NoError(t, err)
	require.Positive(t, free)
	require.GreaterOrEqual(t, total, free)

	_, err = ctx.Alloc(1 << 50)
	require.ErrorIs(t, err, backend.ErrOutOfMemory{})
	_, err = ctx.Describe(0x10)
	require.Error(t, err)
	if pool != 0 {
		require.NoError(t, ctx.FreeAsync(b, s))
		reserved, err := ctx.Reserved(pool)
		require.NoError(t, err)
		require.GreaterOrEqual(t, reserved, int64(64))
		require.NoError(t, ctx.Sync(s))
		require.NoError(t, ctx.Trim(pool))
		reserved, err = ctx.Reserved(pool)
		require.NoError(t, err)
		require.Zero(t, reserved)
		require.NoError(t, ctx.DestroyPool(pool))
	}
	require.NoError(t, ctx.Free(a))
	require.NoError(t, ctx.FreeHost(host))
	require.NoError(t, ctx.DestroyStream(s))
}

func TestEvents(t *testing.T) {
	ctx := retain(t)
	var events [2]Event
	for i := range events {
		var err error
		events[i], err = ctx.NewEvent(Timing)
		require.NoError(t, err)
		done, err := ctx.Done(events[i])
		require.NoError(t, err)
		require.True(t, done, "never recorded")
	}
	s, err := ctx.NewStream()
	require.NoError(t, err)
	for _, e := range events {
		require.NoError(t, ctx.Record(e, s))
	}
	require.NoError(t, ctx.Wait(0, events[1]))
	require.NoError(t, ctx.SyncEvent(events[1]))
	done, err := ctx.Done(events[0])
	require.NoError(t, err)
	require.True(t, done)
	elapsed, err := ctx.Elapsed(events[0], events[1])
	require.NoError(t, err)
	require.GreaterOrEqual(t, elapsed.Nanoseconds(), int64(0))
	for _, e := range events {
		require.NoError(t, ctx.DestroyEvent(e))
	}
	require.NoError(t, ctx.Sync(0))
	require.NoError(t, ctx.DestroyStream(s))
}

// fill returns a launch of fkv_fill that sets n bytes of p to a value, on its own
// stream, and gives everything back at the test's end.
func fill(t testing.TB, ctx *Context, p Ptr, n int, value byte) *Launch {
	manifest, err := cudakernels.Load()
	require.NoError(t, err)
	entry, ok := manifest.Find("fkv_fill")
	require.True(t, ok)
	image, err := manifest.Image(entry.Family)
	require.NoError(t, err)
	m, err := ctx.LoadModule(image)
	require.NoError(t, err)
	f, err := ctx.Function(m, "fkv_fill")
	require.NoError(t, err)
	s, err := ctx.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, ctx.Sync(s))
		require.NoError(t, ctx.DestroyStream(s))
		require.NoError(t, ctx.UnloadModule(m))
	})
	l := &Launch{Func: f, Stream: s, Grid: [3]uint32{1, 1, 1}, Block: uint32(entry.Threads), Count: 1}
	l.Buffers[0] = p
	args := abi.FillArgs{LastMask: 0xff, Pattern: uint64(value), Bytes: int64(n), Elem: 1}
	l.Size = uint32(copy(l.Args[:], args.Encode()))
	return l
}

// memory returns device memory until the test's end.
func memory(t testing.TB, ctx *Context, size int) Ptr {
	p, err := ctx.Alloc(size)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ctx.Free(p)) })
	return p
}

func TestLaunch(t *testing.T) {
	ctx := retain(t)
	l := fill(t, ctx, memory(t, ctx, 1000), 999, 7)
	host, err := ctx.AllocHost(1000)
	require.NoError(t, err)
	require.NoError(t, ctx.CopyToDevice(l.Buffers[0], host, l.Stream))
	require.NoError(t, ctx.Launch(l))
	l.Buffers[0]++ // the driver has its copy
	require.NoError(t, ctx.CopyToHost(host, l.Buffers[0]-1, l.Stream))
	require.NoError(t, ctx.Sync(l.Stream))
	for i, v := range host[:999] {
		require.EqualValues(t, 7, v, "byte %d", i)
	}
	require.NoError(t, ctx.FreeHost(host))

	blocks, err := ctx.Occupancy(l.Func, int(l.Block), 0)
	require.NoError(t, err)
	require.Positive(t, blocks)
	require.NoError(t, ctx.AllowShared(l.Func, 64<<10))
	for name, bad := range map[string]func(l *Launch){
		"no block":         func(l *Launch) { l.Grid[0] = 0 },
		"no thread":        func(l *Launch) { l.Block = 0 },
		"too many threads": func(l *Launch) { l.Block = 2048 },
		"too many buffers": func(l *Launch) { l.Count = MaxBuffers + 1 },
		"a long struct":    func(l *Launch) { l.Size = MaxArgs + 1 },
		"too much memory":  func(l *Launch) { l.Shared = 1 << 20 },
	} {
		broken := *l
		bad(&broken)
		var refused Error
		require.ErrorAs(t, ctx.Launch(&broken), &refused, name)
		require.Equal(t, "cuLaunchKernel", refused.Call)
	}
	require.NoError(t, ctx.Sync(l.Stream))
}

func TestModuleErrors(t *testing.T) {
	ctx := retain(t)
	_, err := ctx.LoadModule(nil)
	require.Error(t, err)
	_, err = ctx.LoadModule(make([]byte, 4096))
	require.Error(t, err)
	l := fill(t, ctx, 0, 0, 0)
	require.NotZero(t, l.Func)
	kernels, err := cudakernels.Load()
	require.NoError(t, err)
	image, err := kernels.Image("fill")
	require.NoError(t, err)
	m, err := ctx.LoadModule(image)
	require.NoError(t, err)
	_, err = ctx.Function(m, "fkv_nothing")
	require.ErrorContains(t, err, "cuModuleGetFunction")
	require.NoError(t, ctx.UnloadModule(m))
}

func TestNothingAllocates(t *testing.T) {
	ctx := retain(t)
	l := fill(t, ctx, memory(t, ctx, 64), 64, 1)
	host, err := ctx.AllocHost(64)
	require.NoError(t, err)
	defer func() {
		require.NoError(t, ctx.Sync(l.Stream))
		require.NoError(t, ctx.FreeHost(host))
	}()
	e, err := ctx.NewEvent(Waiting)
	require.NoError(t, err)
	defer func() { require.NoError(t, ctx.DestroyEvent(e)) }()
	for name, call := range map[string]func() error{
		"launch":   func() error { return ctx.Launch(l) },
		"upload":   func() error { return ctx.CopyToDevice(l.Buffers[0], host, l.Stream) },
		"download": func() error { return ctx.CopyToHost(host, l.Buffers[0], l.Stream) },
		"record":   func() error { return ctx.Record(e, l.Stream) },
		"wait":     func() error { return ctx.Wait(l.Stream, e) },
		"done":     func() error { _, err := ctx.Done(e); return err },
		"info":     func() error { _, _, err := ctx.MemInfo(); return err },
		"describe": func() error { _, err := ctx.Describe(l.Buffers[0]); return err },
		"sync":     func() error { return ctx.Sync(l.Stream) },
	} {
		require.Zero(t, testing.AllocsPerRun(20, func() {
			if call() != nil {
				t.Fail()
			}
		}), name)
	}
}

// program compiles a C program of testdata with driver.c and runs it on the library
// under test.
func program(t testing.TB, lib *Library, name string, args ...string) string {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler (cc)")
	}
	binary := filepath.Join(t.TempDir(), "program")
	out, err := exec.Command("cc", "-O2", "-std=gnu99", "-o", binary, "driver.c", filepath.Join("testdata", name), "-ldl").CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(binary, append([]string{lib.Path}, args...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// A model runner's thread keeps its own current context, whatever is called and
// whether it fails.
func TestThreadsKeepTheirContext(t *testing.T) {
	lib := openLibrary(t)
	if lib.Len() < 2 {
		t.Skip("needs two devices")
	}
	require.Empty(t, program(t, lib, "current.c"))
}

// BenchmarkLaunch is what a launch costs the host: through Go, and as a bare call
// of the same C function.
func BenchmarkLaunch(b *testing.B) {
	b.Run("go", func(b *testing.B) {
		ctx := retain(b)
		l := fill(b, ctx, memory(b, ctx, 256), 0, 0)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if err := ctx.Launch(l); err != nil {
				b.Fatal(err)
			}
			if i%1000 == 999 { // the queue is not endless
				b.StopTimer()
				require.NoError(b, ctx.Sync(l.Stream))
				b.StartTimer()
			}
		}
	})
	b.Run("c", func(b *testing.B) {
		const launches = 200000
		kernels, err := cudakernels.Load()
		require.NoError(b, err)
		image, err := kernels.Image("fill")
		require.NoError(b, err)
		file := filepath.Join(b.TempDir(), "fill.fatbin")
		require.NoError(b, os.WriteFile(file, image, 0o644))
		out := program(b, openLibrary(b), "launch.c", file, fmt.Sprint(launches))
		var nanoseconds float64
		_, err = fmt.Sscan(out, &nanoseconds)
		require.NoError(b, err)
		for b.Loop() { // the program has counted
		}
		b.ReportMetric(nanoseconds, "ns/op")
	})
}

// The struct that C reads has its scalars where 8-byte fields may lie.
func TestLaunchIsAligned(t *testing.T) {
	require.Zero(t, unsafe.Offsetof(Launch{}.Buffers)%8)
	require.Zero(t, unsafe.Offsetof(Launch{}.Args)%8)
}
