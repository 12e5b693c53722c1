//go:build cgo && !nometal && (darwin || metalsimt)

package mtl

import (
	_ "embed"
	"encoding/binary"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

//go:embed testdata/affine.metal
var affineSource string

// device returns the first device until the test's end.
func device(t testing.TB) *Device {
	devices, err := Devices()
	if err != nil {
		require.ErrorIs(t, err, backend.ErrUnavailable{})
		t.Skip(err)
	}
	for _, d := range devices[1:] {
		d.Release()
	}
	t.Cleanup(devices[0].Release)
	if !devices[0].Info.Apple7 || !devices[0].Info.Metal3 { // as that of a virtual Mac, which runs kernels as it likes
		t.Skipf("%s is no GPU that the backend takes", devices[0].Info.Name)
	}
	return devices[0]
}

func newQueue(t testing.TB, d *Device) *Queue {
	q, err := d.NewQueue()
	require.NoError(t, err)
	t.Cleanup(q.Close)
	return q
}

// words returns a buffer of n zeros, and the host's view of it.
func words(t testing.TB, d *Device, n int) (Buffer, []uint32) {
	b, err := d.NewBuffer(4 * n)
	require.NoError(t, err)
	t.Cleanup(b.Release)
	view := unsafe.Slice((*uint32)(b.Describe().Contents), n)
	clear(view)
	return b, view
}

// affine returns a launch of testdata's kernel over n elements of out.
func affine(t testing.TB, d *Device, out Buffer, n int, constants uint32) *Launch {
	l, err := d.NewLibrary(affineSource, false)
	require.NoError(t, err)
	defer l.Release()
	p, err := d.NewPipeline(l, "affine", constants, 2)
	require.NoError(t, err)
	t.Cleanup(p.Release)
	require.GreaterOrEqual(t, p.Threads, 64)
	require.Positive(t, p.Width)
	require.LessOrEqual(t, p.Memory, 256)
	launch := &Launch{Pipeline: p.ID, Grid: [3]uint32{uint32(n+63) / 64, 1, 1}, Threads: 64, Count: 2, Size: 16}
	launch.Buffers[0] = uintptr(out)
	binary.LittleEndian.PutUint32(launch.Args[0:], uint32(n))
	return launch
}

// set chooses what a launch does to each element: x*factor + add.
func (l *Launch) set(factor, add uint32) *Launch {
	binary.LittleEndian.PutUint32(l.Args[4:], factor)
	binary.LittleEndian.PutUint32(l.Args[8:], add)
	return l
}

func commit(t testing.TB, q *Queue) Mark {
	m, err := q.Commit()
	require.NoError(t, err)
	t.Cleanup(m.Release)
	return m
}

func requireAll(t testing.TB, want uint32, view []uint32) {
	t.Helper()
	for i, v := range view {
		require.Equal(t, want, v, "element %d", i)
	}
}

func TestDevicesDescribeThemselves(t *testing.T) {
	info := device(t).Info
	require.NotEmpty(t, info.Name)
	require.Regexp(t, `^\d+\.\d+$`, info.OS)
	require.GreaterOrEqual(t, info.Major, 11)
	require.Positive(t, info.WorkingSet)
	require.Positive(t, info.MaxBuffer)
	require.GreaterOrEqual(t, info.Cores, 0)
	require.False(t, info.BFloat && info.Major < 14)
}

func TestBuffers(t *testing.T) {
	d := device(t)
	b, err := d.NewBuffer(1000)
	require.NoError(t, err)
	info := b.Describe()
	require.Equal(t, d.Info.Registry, info.Registry)
	require.EqualValues(t, 1000, info.Length)
	require.NotNil(t, info.Contents)
	require.GreaterOrEqual(t, d.Allocated(), int64(1000))
	b.Retain()
	b.Release()
	require.Equal(t, info, b.Describe())
	b.Release()

	for _, size := range []int{1 << 62, int(d.Info.MaxBuffer) + 1} {
		_, err = d.NewBuffer(size)
		require.ErrorIs(t, err, backend.ErrOutOfMemory{})
		require.NotErrorIs(t, err, backend.ErrLost)
		require.ErrorContains(t, err, "largest buffer")
	}
}

func TestCompilersErrorsAreComplete(t *testing.T) {
	d := device(t)
	long := "// " + strings.Repeat("long ", 4000) + "\n"
	_, err := d.NewLibrary("#include <metal_stdlib>\n"+long+"nonsense here;\n", false)
	var failed Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "newLibraryWithSource", failed.Call)
	require.Equal(t, "MTLLibraryErrorDomain", failed.Domain)
	require.EqualValues(t, 3, failed.Code)
	require.Contains(t, failed.Text, "nonsense")
	require.Contains(t, failed.Text, ":3:")
	require.NotErrorIs(t, err, backend.ErrLost)

	_, err = d.NewLibrary("// \xff", false)
	require.ErrorContains(t, err, "UTF-8")
	_, err = d.LoadLibrary(nil)
	require.ErrorContains(t, err, "empty")
	_, err = d.LoadLibrary([]byte("no metallib"))
	require.ErrorContains(t, err, "newLibraryWithData")
}

func TestPipelineErrors(t *testing.T) {
	d := device(t)
	l, err := d.NewLibrary(affineSource, false)
	require.NoError(t, err)
	defer l.Release()
	for name, words := range map[string]string{"nothing": "newFunctionWithName", "\xff": "UTF-8"} {
		p, err := d.NewPipeline(l, name, 0, 2)
		require.ErrorContains(t, err, words)
		require.Zero(t, p)
	}
	_, err = d.NewPipeline(l, "affine", 0, 33)
	require.ErrorContains(t, err, "more than 32")
}

func TestLaunchesAreInOrder(t *testing.T) {
	d := device(t)
	q := newQueue(t, d)
	out, view := words(t, d, 100)
	l := affine(t, d, out, 90, 0)
	require.NoError(t, q.Launch(l.set(1, 1)))
	l.set(0, 0) // Metal has its copy
	require.NoError(t, q.Launch(l.set(10, 2)))
	l.Offsets[0] = 4 * 10
	require.NoError(t, q.Launch(l.set(10, 3)))
	require.Equal(t, 3, q.Pending())
	require.NoError(t, q.Sync())
	require.Zero(t, q.Pending())
	requireAll(t, 12, view[:10])
	requireAll(t, 123, view[10:90])
	requireAll(t, 3, view[90:])
}

func TestFunctionConstants(t *testing.T) {
	d := device(t)
	q := newQueue(t, d)
	out, view := words(t, d, 70)
	more, addends := words(t, d, 70)
	for i := range addends {
		addends[i] = 100
	}
	for constants, want := range []uint32{7, 14, 107, 114} {
		l := affine(t, d, out, 70, uint32(constants)).set(0, 7)
		if constants&2 != 0 {
			l.Buffers[1] = uintptr(more)
		}
		require.NoError(t, q.Launch(l))
		require.NoError(t, q.Sync())
		requireAll(t, want, view)
	}
}

// Two pipelines take turns in one encoder, so each launch sets its own again.
func TestPipelinesTakeTurns(t *testing.T) {
	d := device(t)
	q := newQueue(t, d)
	out, view := words(t, d, 64)
	once, twice := affine(t, d, out, 64, 0).set(1, 1), affine(t, d, out, 64, 1).set(1, 1)
	for _, l := range []*Launch{once, twice, twice, once} {
		require.NoError(t, q.Launch(l))
	}
	require.NoError(t, q.Sync())
	requireAll(t, 11, view) // ((0+1+1)*2 + 1)*2 + 1
}

func TestLaunchRefusesWhatMetalDoesNot(t *testing.T) {
	d := device(t)
	q := newQueue(t, d)
	out, _ := words(t, d, 64)
	good := affine(t, d, out, 64, 0)
	for name, bad := range map[string]func(l *Launch){
		"no pipeline":        func(l *Launch) { l.Pipeline = 0 },
		"too many buffers":   func(l *Launch) { l.Count = MaxBuffers + 1 },
		"too many bytes":     func(l *Launch) { l.Size = MaxArgs + 1 },
		"threadgroups":       func(l *Launch) { l.Grid[2] = 0 },
		"without threads":    func(l *Launch) { l.Threads = 0 },
		"more threads in a ": func(l *Launch) { l.Threads = 1 << 20 },
	} {
		broken := *good
		bad(&broken)
		require.ErrorContains(t, q.Launch(&broken), name)
	}
	require.Zero(t, q.Pending())
	require.True(t, q.Idle(), "a refused launch opens nothing")
}

func TestMarks(t *testing.T) {
	d := device(t)
	q := newQueue(t, d)
	require.Equal(t, Mark{}, commit(t, q), "nothing was ever committed")
	done, err := Mark{}.Done()
	require.NoError(t, err)
	require.True(t, done)
	require.NoError(t, Mark{}.Wait())
	require.NoError(t, q.WaitFor(Mark{}))
	require.True(t, q.Idle())

	out, view := words(t, d, 64)
	require.NoError(t, q.Launch(affine(t, d, out, 64, 0).set(1, 1)))
	require.False(t, q.Idle())
	require.Equal(t, 1, q.Pending())
	m := commit(t, q)
	require.Zero(t, q.Pending())
	require.Equal(t, m, commit(t, q), "nothing was committed since")
	require.NoError(t, m.Retain().Wait())
	m.Release()
	requireAll(t, 1, view)
	done, err = m.Done()
	require.NoError(t, err)
	require.True(t, done)
	require.True(t, q.Idle())
}

// Polling alone comes to an end too.
func TestDoneAndIdleComeTrue(t *testing.T) {
	d := device(t)
	q := newQueue(t, d)
	out, view := words(t, d, 64)
	l := affine(t, d, out, 64, 0).set(1, 1)
	require.NoError(t, q.Launch(l))
	m := commit(t, q)
	for done := false; !done; {
		var err error
		done, err = m.Done()
		require.NoError(t, err)
	}
	requireAll(t, 1, view)
	require.NoError(t, q.Launch(l))
	commit(t, q)
	for !q.Idle() {
	}
	requireAll(t, 2, view)
}

func TestMarksOutliveTheirQueue(t *testing.T) {
	d := device(t)
	out, view := words(t, d, 64)
	q, err := d.NewQueue()
	require.NoError(t, err)
	l := affine(t, d, out, 64, 0).set(1, 1)
	require.NoError(t, q.Launch(l))
	m := commit(t, q)
	require.NoError(t, q.Launch(l))
	q.Close() // with a launch that was not committed
	requireAll(t, 2, view)
	require.NoError(t, m.Wait())
	other := newQueue(t, d)
	require.NoError(t, other.WaitFor(m))
	require.NoError(t, other.Launch(l))
	require.NoError(t, other.Sync())
	requireAll(t, 3, view)
}

// A chain of launches goes to and fro between two queues, and stays in its order; what is
// open when a queue is told to wait does not have to.
func TestQueuesWaitForEachOther(t *testing.T) {
	d := device(t)
	a, b := newQueue(t, d), newQueue(t, d)
	out, view := words(t, d, 64)
	chain := affine(t, d, out, 64, 0)
	side, sideView := words(t, d, 64)
	count := affine(t, d, side, 64, 0).set(1, 1)
	want := uint32(0)
	for i := range uint32(40) {
		require.NoError(t, a.Launch(chain.set(3, i)))
		want = want*3 + i
		m, err := a.Commit()
		require.NoError(t, err)
		if i%4 == 0 {
			require.NoError(t, b.Launch(count))
		}
		require.NoError(t, b.WaitFor(m))
		m.Release()
		a, b = b, a
	}
	require.NoError(t, b.Sync())
	require.NoError(t, a.Sync())
	requireAll(t, want, view)
	requireAll(t, 10, sideView)
}

// More command buffers than Metal lets a queue have unfinished.
func TestManyCommits(t *testing.T) {
	d := device(t)
	q := newQueue(t, d)
	out, view := words(t, d, 64)
	l := affine(t, d, out, 64, 0)
	want := uint32(0)
	for i := range uint32(300) {
		require.NoError(t, q.Launch(l.set(3, i)))
		want = want*3 + i
		m, err := q.Commit()
		require.NoError(t, err)
		m.Release()
	}
	require.NoError(t, q.Sync())
	requireAll(t, want, view)
}

// Goroutines wait for marks of a queue that goes on.
func TestMarksOfAQueueInUse(t *testing.T) {
	d := device(t)
	q := newQueue(t, d)
	out, view := words(t, d, 64)
	l := affine(t, d, out, 64, 0).set(1, 1)
	var waiting sync.WaitGroup
	for i := range uint32(100) {
		require.NoError(t, q.Launch(l))
		m, err := q.Commit()
		require.NoError(t, err)
		waiting.Go(func() {
			defer m.Release()
			if err := m.Wait(); err != nil || view[i%64] < i+1 {
				t.Errorf("mark %d: %v, element is %d", i, err, view[i%64])
			}
		})
	}
	waiting.Wait()
	require.True(t, q.Idle())
	requireAll(t, 100, view)
}

func TestImportedQueue(t *testing.T) {
	d := device(t)
	theirs := newQueue(t, d)
	require.Equal(t, d.Info.Registry, QueueDevice(theirs.ID()))
	ours, err := d.ImportQueue(theirs.ID())
	require.NoError(t, err)
	require.Equal(t, theirs.ID(), ours.ID())
	out, view := words(t, d, 64)
	l := affine(t, d, out, 64, 0)
	want := uint32(0)
	for i := range uint32(20) {
		q := ours
		if i%2 == 1 {
			q = theirs
		}
		require.NoError(t, q.Launch(l.set(3, i)))
		want = want*3 + i
		commit(t, q)
	}
	require.NoError(t, ours.Sync())
	require.NoError(t, theirs.Sync())
	requireAll(t, want, view)
	ours.Close()
	require.NoError(t, theirs.Launch(l.set(0, 5)))
	require.NoError(t, theirs.Sync())
	requireAll(t, 5, view)
}

func TestNothingAllocates(t *testing.T) {
	d := device(t)
	a, b := newQueue(t, d), newQueue(t, d)
	out, _ := words(t, d, 64)
	l := affine(t, d, out, 64, 0).set(1, 1)
	require.NoError(t, a.Launch(l))
	m := commit(t, a)
	for name, call := range map[string]func() error{
		"launch": func() error { return a.Launch(l) },
		"commit": func() error { m, err := a.Commit(); m.Release(); return err },
		"step":   func() error { err := a.Launch(l); m, _ := a.Commit(); m.Release(); return err },
		"wait":   func() error { return b.WaitFor(m) },
		"done":   func() error { _, err := m.Done(); return err },
		"retain": func() error { m.Retain().Release(); return nil },
		"reach":  func() error { return m.Wait() },
		"idle":   func() error { a.Idle(); return nil },
		"sync":   func() error { return a.Sync() },
		"buffer": func() error { b, err := d.NewBuffer(64); b.Release(); return err },
		"info":   func() error { out.Describe(); return nil },
	} {
		require.Zero(t, testing.AllocsPerRun(20, func() {
			if call() != nil {
				t.Fail()
			}
		}), name)
	}
}

// BenchmarkLaunch is what a launch costs the host, with a commit every hundred.
func BenchmarkLaunch(b *testing.B) {
	d := device(b)
	q := newQueue(b, d)
	out, _ := words(b, d, 64)
	l := affine(b, d, out, 64, 0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := q.Launch(l); err != nil {
			b.Fatal(err)
		}
		if i%100 == 99 {
			b.StopTimer()
			require.NoError(b, q.Sync())
			b.StartTimer()
		}
	}
}

// The struct that C reads has its scalars where 8-byte fields may lie.
func TestLaunchIsAligned(t *testing.T) {
	require.Zero(t, unsafe.Offsetof(Launch{}.Buffers)%8)
	require.Zero(t, unsafe.Offsetof(Launch{}.Args)%8)
}
