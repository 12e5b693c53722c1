package backendtest

import (
	"errors"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

func streamChecks[B backend.Buffer]() []check[B] {
	return []check[B]{
		{"work is done in order", checkOrder[B]},
		{"events order streams", checkEvents[B]},
		{"an event that was never recorded is done", checkUnrecorded[B]},
		{"a closed stream", checkClosedStream[B]},
		{"the default queue", checkDefaultQueue[B]},
		{"goroutines with a stream each", checkGoroutines[B]},
	}
}

func (r *rig[B]) stream() backend.Stream {
	s, err := r.be.NewStream()
	require.NoError(r, err)
	return s
}

// checkOrder queues work of which each piece overwrites what the next reads.
func checkOrder[B backend.Buffer](r *rig[B]) {
	const n = 1 << 16
	a, b := r.region("a", backend.U32, 0, n), r.region("b", backend.U32, 0, n)
	r.push()
	for i := range 20 {
		require.NoError(r, r.be.Fill(r.s, a.buf, 0, n, float64(i)))
		require.NoError(r, r.be.Copy(r.s, b.buf, i, a.buf, 0, n-i))
	}
	for i := range n {
		a.set(i, backend.BytesOf([]uint32{19}))
		b.set(i, backend.BytesOf([]uint32{uint32(min(i, 19))}))
	}
	r.verify()
}

// checkEvents passes a buffer between two streams, there and back.
func checkEvents[B backend.Buffer](r *rig[B]) {
	const n = 1 << 16
	a, b := r.region("a", backend.U32, 0, n), r.region("b", backend.U32, 0, n)
	r.push()
	other := r.stream()
	there, err := r.be.NewEvent()
	require.NoError(r, err)
	back, err := r.be.NewEvent()
	require.NoError(r, err)
	require.NoError(r, r.s.Record(there))
	for i := range 10 {
		require.NoError(r, r.be.Fill(r.s, a.buf, 0, n, float64(i)))
		require.NoError(r, r.s.Record(there)) // replaces the earlier mark
		require.NoError(r, other.Wait(there))
		require.NoError(r, r.be.Copy(other, b.buf, i, a.buf, i, 1))
		require.NoError(r, other.Record(back))
		require.NoError(r, r.s.Wait(back))
		b.set(i, backend.BytesOf([]uint32{uint32(i)}))
	}
	require.NoError(r, back.Sync())
	done, err := back.Done()
	require.NoError(r, err)
	require.True(r, done, "an event is done after its Sync")
	for i := range n {
		a.set(i, backend.BytesOf([]uint32{9}))
	}
	require.NoError(r, other.Sync())
	r.verify()
	require.NoError(r, there.Close())
	require.NoError(r, back.Close())
	require.NoError(r, other.Close())
}

func checkUnrecorded[B backend.Buffer](r *rig[B]) {
	e, err := r.be.NewEvent()
	require.NoError(r, err)
	done, err := e.Done()
	require.NoError(r, err)
	require.True(r, done)
	require.NoError(r, e.Sync())
	require.NoError(r, r.s.Wait(e))
	require.NoError(r, r.s.Sync())
	require.NoError(r, e.Close())
}

// checkClosedStream closes a stream that has work: the work is done, and the
// stream takes no more.
func checkClosedStream[B backend.Buffer](r *rig[B]) {
	reg := r.region("buffer", backend.U32, 0, 1)
	r.push()
	require.NoError(r, r.s.Sync())
	s := r.stream()
	e, err := r.be.NewEvent()
	require.NoError(r, err)
	require.NoError(r, r.be.Fill(s, reg.buf, 0, 1, 3))
	require.NoError(r, s.Close())
	reg.set(0, backend.BytesOf([]uint32{3}))
	for name, err := range map[string]error{
		"fill":     r.be.Fill(s, reg.buf, 0, 1, 4),
		"download": r.be.Download(s, make([]byte, 4), reg.buf, 0),
		"record":   s.Record(e),
		"wait":     s.Wait(e),
		"sync":     s.Sync(),
		"close":    s.Close(),
	} {
		require.ErrorIs(r, err, backend.ErrClosed, name)
	}
	r.verify()
	require.NoError(r, e.Close())
}

// checkDefaultQueue imports the device's default queue, and a stream's own.
func checkDefaultQueue[B backend.Buffer](r *rig[B]) {
	reg := r.region("buffer", backend.U32, 0, 2)
	r.push()
	require.NoError(r, r.s.Sync())
	for i, h := range []backend.Handle{{}, r.s.Handle()} {
		s, err := r.be.ImportStream(h)
		require.NoError(r, err)
		require.NoError(r, r.be.Fill(s, reg.buf, i, 1, 8))
		require.NoError(r, s.Sync())
		require.NoError(r, s.Close())
		reg.set(i, backend.BytesOf([]uint32{8}))
	}
	r.verify()
}

// checkGoroutines runs checks of memory, moving, converting and attention at the same time.
func checkGoroutines[B backend.Buffer](r *rig[B]) {
	f := r.plain()
	runs := []func(r *rig[B]){
		func(r *rig[B]) { checkCopy(r, backend.F32) },
		func(r *rig[B]) { r.moved(f, false).moveSlots(r, gaps(48)) },
		func(r *rig[B]) { r.moved(r.quantized(), true).moveSlots(r, gaps(48)) },
		checkConvertBack[B],
	}
	for _, output := range outputAxis {
		s := small("concurrent "+output.name, sequence{1, 700}, sequence{20, 60})
		s.format, s.output = f, output
		runs = append(runs, func(r *rig[B]) { checkAttend(r, s) })
	}
	errs := make([]error, 2*len(runs))
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = r.onStream(runs[i%len(runs)]) })
	}
	wg.Wait()
	for _, err := range errs {
		var skip skipped
		if !errors.As(err, &skip) {
			require.NoError(r, err)
		}
	}
}
