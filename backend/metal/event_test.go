//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

func newEvent(t testing.TB, be *Backend) backend.Event {
	e, err := be.NewEvent()
	require.NoError(t, err)
	return e
}

// fillSlowly sets elements after as much other work that a stream which did not wait would
// be done before.
func fillSlowly(t testing.TB, be *Backend, s backend.Stream, b *Buffer, off, n int, v float64) {
	for range batch - 1 {
		require.NoError(t, be.Fill(s, b, off, n, 1e6))
	}
	require.NoError(t, be.Fill(s, b, off, n, v))
}

// An event is a point of a stream, whatever is recorded in it later: who waits for it
// waits for the mark that it had then.
func TestEventIsRecordedAgain(t *testing.T) {
	inAnyOrder(func() {
		be := open(t)
		a, b, c := newStream(t, be), newStream(t, be), newStream(t, be)
		e := newEvent(t, be)
		const rounds = 10
		x, y := newBuffer(t, be, rounds, 0), newBuffer(t, be, rounds, 0)
		for i := range rounds {
			fillSlowly(t, be, a, x, i, 1, float64(i+1))
			require.NoError(t, a.Record(e))
			require.NoError(t, b.Wait(e))
			require.NoError(t, be.Copy(b, y, i, x, i, 1))
			require.NoError(t, c.Record(e), "replaces what b waits for")
		}
		done, err := e.Done()
		require.NoError(t, err)
		require.True(t, done, "nothing is on c")
		require.NoError(t, b.Sync())
		for i, v := range words(t, be, y) {
			require.EqualValues(t, i+1, v)
		}
		require.NoError(t, e.Close())
	})
}

// A stream goes on waiting for the mark of an event that was closed.
func TestEventIsClosedWhileWaitedFor(t *testing.T) {
	inAnyOrder(func() {
		be := open(t)
		made, b := newStream(t, be), newStream(t, be)
		x, y := newBuffer(t, be, 1000, 0), newBuffer(t, be, 1000, 0)
		e := newEvent(t, be)
		fillSlowly(t, be, made, x, 0, 1000, 6)
		require.NoError(t, made.Record(e))
		require.NoError(t, b.Wait(e))
		require.NoError(t, be.Copy(b, y, 0, x, 0, 1000))
		require.NoError(t, e.Close())
		require.NoError(t, b.Sync())
		requireAll(t, 6, words(t, be, y))
	})
}

// Goroutines hand a buffer on, each on a stream of its own, and close their events in the
// middle of it.
func TestStreamsOfGoroutines(t *testing.T) {
	be := open(t)
	const workers, rounds, n = 4, 25, 256
	x := newBuffer(t, be, n, 0)
	var turn sync.Mutex
	last := newEvent(t, be)
	var wait sync.WaitGroup
	for w := range workers {
		s := newStream(t, be)
		own := newBuffer(t, be, n, 0)
		wait.Go(func() {
			for range rounds {
				next, err := be.NewEvent()
				if err != nil {
					t.Error(err)
					return
				}
				turn.Lock()
				for _, do := range []func() error{
					func() error { return s.Wait(last) },
					last.Close,
					func() error { return be.Copy(s, own, 0, x, 0, n) },
					func() error { return be.Fill(s, x, w, 1, float64(w)) },
					func() error { return be.Copy(s, x, workers, x, workers-1, n-workers) },
					func() error { return s.Record(next) },
				} {
					if err := do(); err != nil {
						t.Error(err)
					}
				}
				last = next
				turn.Unlock()
			}
			if err := s.Sync(); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	require.NoError(t, last.Sync())
	require.NoError(t, last.Close())
	have := words(t, be, x)
	for w := range uint32(workers) {
		require.Equal(t, w, have[w])
	}
	requireAll(t, workers-1, have[workers:workers+10])
}

// Memory is made and freed in one goroutine while others enqueue, also with that memory.
func TestFreeWhileOthersEnqueue(t *testing.T) {
	be := open(t)
	const workers, rounds, n = 3, 200, 64
	streams, kept := make([]*stream, workers), make([]*Buffer, workers)
	for w := range workers {
		streams[w], kept[w] = newStream(t, be), newBuffer(t, be, n, 0)
	}
	filled := make(chan *Buffer, workers)
	var enqueuing, freeing sync.WaitGroup
	for w := range workers {
		enqueuing.Go(func() {
			s := streams[w]
			for i := range rounds {
				b, err := be.Alloc(backend.U32, n)
				if err == nil {
					err = be.Fill(s, b, 0, n, float64(i))
				}
				if err == nil {
					err = be.Copy(s, kept[w], 0, b, 0, n)
				}
				if err != nil {
					t.Error(err)
					return
				}
				filled <- b // freed before its work is done
			}
		})
	}
	freeing.Go(func() {
		for b := range filled {
			if err := be.Free(b); err != nil {
				t.Error(err)
			}
		}
	})
	enqueuing.Wait()
	close(filled)
	freeing.Wait()
	for w, s := range streams {
		require.NoError(t, s.Sync())
		requireAll(t, rounds-1, words(t, be, kept[w]))
	}
	require.Equal(t, workers, be.Info().Buffers)
}
