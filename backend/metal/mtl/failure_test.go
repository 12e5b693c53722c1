//go:build cgo && !nometal && metalsimt

package mtl

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/standin/metalsimt"
)

// alive is how many objects somebody has yet to give back.
func alive() uint64 { return metalsimt.Count().Live() }

// requireLost requires the failure of a command buffer.
func requireLost(t testing.TB, err error) {
	t.Helper()
	require.ErrorIs(t, err, backend.ErrLost)
	require.ErrorContains(t, err, "MTLCommandBufferErrorDomain")
}

// idleLaunch is a launch that may be repeated: it writes what was there.
func idleLaunch(t testing.TB, d *Device) *Launch {
	out, _ := words(t, d, 64)
	return affine(t, d, out, 64, 0).set(1, 0)
}

func TestFailureIsKeptUntilSync(t *testing.T) {
	d := device(t)
	q := newQueue(t, d)
	l := idleLaunch(t, d)
	metalsimt.FailCommands(1, metalsimt.Internal)
	require.NoError(t, q.Launch(l))
	m := commit(t, q)
	requireLost(t, m.Wait())
	done, err := m.Done()
	requireLost(t, err)
	require.False(t, done)
	require.False(t, q.Idle())

	requireLost(t, q.Launch(l))
	requireLost(t, q.WaitFor(m))
	_, err = q.Commit()
	requireLost(t, err)
	require.Zero(t, q.Pending())
	requireLost(t, q.Sync())
	require.NoError(t, q.Sync(), "it was told")
	requireLost(t, m.Wait())
}

// What is enqueued after a failure, as long as nobody has seen it, goes out all the same.
func TestFirstFailureIsTold(t *testing.T) {
	d := device(t)
	q := newQueue(t, d)
	l := idleLaunch(t, d)
	metalsimt.FailCommands(2, metalsimt.OutOfMemory)
	var err error
	for range 4 {
		if err = q.Launch(l); err != nil {
			requireLost(t, err)
			break
		}
		commit(t, q)
	}
	if err == nil {
		err = q.Launch(l) // open when Sync looks
	}
	err = errors.Join(err, q.Sync())
	requireLost(t, err)
	require.ErrorIs(t, err, backend.ErrOutOfMemory{})
	require.True(t, q.Idle(), "it was told")
	require.NoError(t, q.Launch(l))
	require.NoError(t, q.Sync())
}

// That the system ignores the process is told also where a failure came first, and by the command buffer
// that says so first. The same code of another domain says nothing.
func TestRevokedAccessIsTold(t *testing.T) {
	t.Cleanup(func() {
		metalsimt.FailCommands(0, 0)
		revoked.Store(false)
	})
	err := failures(t, metalsimt.Internal, metalsimt.Foreign+metalsimt.AccessRevoked)
	require.ErrorContains(t, err, "(MTLCommandBufferErrorDomain 1, internal: ")
	require.False(t, revoked.Load())
	err = failures(t, metalsimt.Internal, metalsimt.AccessRevoked, 0)
	require.ErrorIs(t, err, errRevoked)
	require.ErrorContains(t, err, "a test asked for this failure")
}

// failures is what a queue tells of command buffers that fail with these codes, as of what happened before for 0.
func failures(t *testing.T, codes ...int) error {
	d := device(t)
	q, gate := newQueue(t, d), newQueue(t, d)
	l := idleLaunch(t, d)
	open := func() Mark {
		require.NoError(t, gate.Launch(l))
		return commit(t, gate)
	}
	// Each waits until the gate opens once more: all are enqueued before the first fails.
	var marks []Mark
	closed := open()
	require.NoError(t, gate.Sync())
	for range codes {
		closed.value++
		require.NoError(t, q.WaitFor(closed))
		require.NoError(t, q.Launch(l))
		marks = append(marks, commit(t, q))
	}
	for i, code := range codes {
		if code != 0 {
			metalsimt.FailCommands(2, code) // the gate's is the first
		}
		open()
		require.ErrorIs(t, marks[i].Wait(), backend.ErrLost)
	}
	_ = gate.Sync()
	return q.Sync()
}

// A queue whose command buffers are in order begins one with a wait where it has launched something, and only there.
func TestWaitsOfAnOrderedQueue(t *testing.T) {
	d := device(t)
	q, other := newQueue(t, d), newQueue(t, d)
	l := idleLaunch(t, d)
	require.NoError(t, other.Launch(l))
	m := commit(t, other)
	wait := func(commits uint64) {
		t.Helper()
		before := metalsimt.Count().Commits
		require.NoError(t, q.WaitFor(m))
		require.Zero(t, q.Pending())
		require.Equal(t, commits, metalsimt.Count().Commits-before)
	}
	q.Order()
	wait(0)
	require.NoError(t, q.Launch(l))
	require.Equal(t, 1, q.Pending())
	wait(1)
	wait(0)
	require.NoError(t, q.Launch(l))
	require.NoError(t, q.Launch(l))
	require.Equal(t, 2, q.Pending())
	wait(1)
	require.NoError(t, q.Sync())
}

// A queue that waits for work that fails goes on, whichever of the two is asked first.
func TestWaitsForFailedWorkEnd(t *testing.T) {
	for _, waiterFirst := range []bool{false, true} {
		d := device(t)
		a, b := newQueue(t, d), newQueue(t, d)
		out, view := words(t, d, 64)
		l := affine(t, d, out, 64, 0).set(0, 9)
		metalsimt.FailCommands(1, metalsimt.Internal)
		require.NoError(t, a.Launch(idleLaunch(t, d)))
		m := commit(t, a)
		require.NoError(t, b.WaitFor(m))
		require.NoError(t, b.Launch(l))
		if !waiterFirst {
			requireLost(t, a.Sync())
		}
		require.NoError(t, b.Sync())
		requireAll(t, 9, view)
		requireLost(t, m.Wait())
		if waiterFirst {
			requireLost(t, a.Sync())
		}
	}
}

// story uses everything once and closes it again, up to the first error.
func story(d *Device) error {
	buffer, err := d.NewBuffer(64 * 4)
	if err != nil {
		return err
	}
	defer buffer.Release()
	library, err := d.NewLibrary(affineSource, false)
	if err != nil {
		return err
	}
	defer library.Release()
	pipeline, err := d.NewPipeline(library, "affine", 0, 2)
	if err != nil {
		return err
	}
	defer pipeline.Release()
	a, err := d.NewQueue()
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := d.ImportQueue(a.ID())
	if err != nil {
		return err
	}
	defer b.Close()
	l := Launch{Pipeline: pipeline.ID, Grid: [3]uint32{1, 1, 1}, Threads: 64, Count: 2, Size: 16}
	l.Buffers[0] = uintptr(buffer)
	if err := a.Launch(&l); err != nil {
		return err
	}
	m, err := a.Commit()
	if err != nil {
		return err
	}
	defer m.Release()
	if err := b.WaitFor(m); err != nil {
		return err
	}
	if err := b.Launch(&l); err != nil {
		return err
	}
	return b.Sync()
}

// Whichever call fails, the error comes back and everything else is given back.
func TestEveryCallMayFail(t *testing.T) {
	d := device(t)
	require.NoError(t, story(d))
	before := alive()
	calls := map[string]bool{}
	for n := 1; ; n++ {
		metalsimt.FailCall(n)
		err := story(d)
		metalsimt.FailCall(0)
		require.Equal(t, before, alive(), "call %d: %v", n, err)
		if err == nil {
			break
		}
		var failed Error
		require.ErrorAs(t, err, &failed, "call %d", n)
		calls[failed.Call] = true
	}
	for _, call := range []string{"newBufferWithLength", "newLibraryWithSource", "newFunctionWithName", "newComputePipelineStateWithFunction",
		"newCommandQueue", "newSharedEvent", "commandBuffer", "computeCommandEncoder"} {
		require.True(t, calls[call], call)
	}
}

// What failed leaves nothing either, nor does what was only looked at.
func TestErrorsLeaveNothing(t *testing.T) {
	d := device(t)
	l := idleLaunch(t, d)
	before := alive()
	devices, err := Devices()
	require.NoError(t, err)
	for _, other := range devices {
		other.Release()
	}
	_, err = d.LoadLibrary([]byte("no metallib"))
	require.Error(t, err)
	_, err = d.NewLibrary("nonsense", false)
	require.Error(t, err)
	q, err := d.NewQueue()
	require.NoError(t, err)
	for range 2 {
		metalsimt.FailCommands(1, metalsimt.Internal)
		require.NoError(t, q.Launch(l))
		requireLost(t, q.Sync())
	}
	metalsimt.FailCommands(1, metalsimt.Internal)
	require.NoError(t, q.Launch(l))
	q.Close()
	require.Equal(t, before, alive())
}

// A launch that found no command buffer or no encoder can be tried again.
func TestRefusedLaunchCanBeRepeated(t *testing.T) {
	d := device(t)
	q := newQueue(t, d)
	out, view := words(t, d, 64)
	l := affine(t, d, out, 64, 0).set(1, 1)
	for n, call := range []string{"commandBuffer", "computeCommandEncoder"} {
		metalsimt.FailCall(n + 1)
		require.ErrorContains(t, q.Launch(l), call)
		require.NoError(t, q.Launch(l))
		require.Equal(t, 1, q.Pending())
		require.NoError(t, q.Sync())
		requireAll(t, uint32(n+1), view)
	}
}

// A device that was removed gives nothing, and what it had under way fails.
func TestRemovedDevice(t *testing.T) {
	d := device(t)
	q := newQueue(t, d)
	l := idleLaunch(t, d)
	require.NoError(t, q.Launch(l))
	require.True(t, metalsimt.Lose(0))
	defer metalsimt.Find(0)
	requireLost(t, q.Sync())
	_, err := d.NewBuffer(64)
	require.ErrorIs(t, err, backend.ErrOutOfMemory{})
	_, err = d.NewQueue()
	require.ErrorContains(t, err, "newCommandQueue")
	require.NoError(t, q.Sync(), "nothing is open")
	require.True(t, metalsimt.Find(0))
	require.NoError(t, q.Launch(l))
	require.NoError(t, q.Sync())
}

// A metallib, which for the stand-in is source after a magic number.
func TestLoadLibrary(t *testing.T) {
	d := device(t)
	before := alive()
	l, err := d.LoadLibrary([]byte("MTLB" + affineSource))
	require.NoError(t, err)
	p, err := d.NewPipeline(l, "affine", 0, 2)
	require.NoError(t, err)
	l.Release()
	p.Release()
	require.Equal(t, before, alive())
}

// Ten thousand steps over two queues leave no object alive.
func TestStepsLeaveNothing(t *testing.T) {
	d := device(t)
	out, view := words(t, d, 64)
	l := affine(t, d, out, 64, 0).set(1, 1)
	before := alive()
	a, err := d.NewQueue()
	require.NoError(t, err)
	b, err := d.NewQueue()
	require.NoError(t, err)
	steps := 10000
	if testing.Short() {
		steps = 500
	}
	for range steps {
		require.NoError(t, a.Launch(l))
		m, err := a.Commit()
		require.NoError(t, err)
		require.NoError(t, b.WaitFor(m))
		m.Release()
		a, b = b, a
	}
	require.NoError(t, b.Sync())
	requireAll(t, uint32(steps), view)
	a.Close()
	b.Close()
	require.Equal(t, before, alive())
}
