package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// counting runs each part once, and panics at one of them.
type counting struct {
	parts   []atomic.Int32
	panicAt int
}

func (c *counting) part(i int, _ *scratch) {
	c.parts[i].Add(1)
	if i == c.panicAt {
		panic("bad index")
	}
}

// taskFunc is a task of a test.
type taskFunc func(i int, w *scratch)

func (f taskFunc) part(i int, w *scratch) { f(i, w) }

// processors sets GOMAXPROCS for a test.
func processors(t testing.TB, n int) {
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

func newTestPool(t testing.TB, threads int) (*pool, *scratch) {
	p := newPool(threads)
	t.Cleanup(p.close)
	return p, p.borrow(extent{}).scratch
}

// await fails a test that waits for long.
func await(t testing.TB, what string, done func() bool) {
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Error("timed out:", what)
			return
		}
	}
}

func awaitSleep(t testing.TB, p *pool) {
	await(t, "workers fall asleep", func() bool { return int(p.asleep.Load()) == p.threads-1 })
}

// Any calls from any number of goroutines run every part once, and a call fails
// if one of its parts panics.
func TestPoolRunsEveryPartOnce(t *testing.T) {
	type dispatch struct{ parts, cost, panicAt, idle int }
	draw := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) dispatch {
		return dispatch{
			parts:   rapid.SampledFrom([]int{0, 1, 2, 3, 8, 100, 1000}).Draw(r, "parts"),
			cost:    rapid.SampledFrom([]int{0, 2 * smallWork, 5 * smallWork, wakeWork}).Draw(r, "cost"),
			panicAt: rapid.IntRange(-30, 99).Draw(r, "panic at"),
			idle:    rapid.SampledFrom([]int{0, 0, 1, 100}).Draw(r, "idle"),
		}
	}), 1, 20)
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	rapid.Check(t, func(r *rapid.T) {
		runtime.GOMAXPROCS(rapid.IntRange(1, 5).Draw(r, "processors"))
		p := newPool(rapid.IntRange(1, 9).Draw(r, "threads"))
		var callers sync.WaitGroup
		for range rapid.IntRange(1, 4).Draw(r, "callers") {
			dispatches := draw.Draw(r, "dispatches")
			callers.Go(func() {
				for _, d := range dispatches {
					task := &counting{parts: make([]atomic.Int32, d.parts), panicAt: d.panicAt}
					c := p.borrow(extent{rows: d.parts})
					err := p.run(task, d.parts, d.cost, c.scratch)
					if failed := d.panicAt >= 0 && d.panicAt < d.parts; failed != (err != nil) {
						t.Errorf("%+v: %v", d, err)
					}
					for i := range task.parts {
						if got := task.parts[i].Load(); got != 1 {
							t.Errorf("%+v: part %d ran %d times", d, i, got)
						}
					}
					p.giveBack(c)
					time.Sleep(time.Duration(d.idle) * time.Microsecond)
				}
			})
		}
		callers.Wait()
		p.close()
	})
}

// A part that panics, as one does whose operands change under it, is an error of
// the call, and the pool goes on.
func TestPoolPanicIsAnError(t *testing.T) {
	p, w := newTestPool(t, 3)
	for _, at := range []int{0, 50, 99} {
		task := &counting{parts: make([]atomic.Int32, 100), panicAt: at}
		require.ErrorContains(t, p.run(task, 100, wakeWork, w), "bad index")
	}
	task := &counting{parts: make([]atomic.Int32, 100), panicAt: -1}
	require.NoError(t, p.run(task, 100, wakeWork, w))
}

// Every worker comes when it is called from its sleep: parts that wait for all the others
// can only end if each has a goroutine.
func TestPoolWakesAllWorkers(t *testing.T) {
	const threads = 5
	processors(t, threads)
	p, w := newTestPool(t, threads)
	for range 50 {
		awaitSleep(t, p)
		var met atomic.Int32
		meet := taskFunc(func(int, *scratch) {
			met.Add(1)
			await(t, "all parts meet", func() bool { return met.Load() == threads })
		})
		require.NoError(t, p.run(meet, threads, wakeWork, w))
	}
}

// Work that is done before help arrives wakes nobody.
func TestPoolLetsWorkersSleep(t *testing.T) {
	processors(t, 4)
	p, w := newTestPool(t, 4)
	awaitSleep(t, p)
	others := 0
	count := taskFunc(func(_ int, by *scratch) {
		if by != w {
			others++
		}
	})
	require.NoError(t, p.run(count, 1000, wakeWork-1, w))
	require.Zero(t, others)
	require.EqualValues(t, 3, p.asleep.Load())
}

// A call has as many helpers as GOMAXPROCS gives it, whatever the pool was opened with.
func TestPoolStaysWithinGOMAXPROCS(t *testing.T) {
	p, _ := newTestPool(t, 6)
	c := p.borrow(extent{rows: 1})
	for _, n := range []int{1, 2, 4, 9} {
		processors(t, n)
		var mu sync.Mutex
		by := map[*scratch]bool{}
		note := taskFunc(func(_ int, w *scratch) {
			mu.Lock()
			by[w] = true
			mu.Unlock()
			runtime.Gosched()
		})
		took := false // part in one of the runs: workers may be faster in others
		for range 20 {
			clear(by)
			require.NoError(t, p.run(note, 200, wakeWork, c.scratch))
			require.LessOrEqual(t, len(by), min(n, 6))
			took = took || by[c.scratch]
		}
		require.True(t, took)
	}
}

// A call that finds the workers busy runs on its own goroutine, and gets them when
// they are free.
func TestPoolBusyWorkersJoinLater(t *testing.T) {
	processors(t, 4)
	p, first := newTestPool(t, 2)
	second := p.borrow(extent{}).scratch
	awaitSleep(t, p)
	var begun atomic.Int32
	gate, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- p.run(taskFunc(func(int, *scratch) { begun.Add(1); <-gate }), 2, wakeWork, first)
	}()
	await(t, "the worker is busy", func() bool { return begun.Load() == 2 })

	var helped atomic.Bool
	task := taskFunc(func(i int, w *scratch) {
		switch {
		case w != second:
			helped.Store(true)
		case i == 0:
			close(gate)
			require.NoError(t, <-ended)
		case i == 1:
			await(t, "the worker joins", helped.Load)
		}
	})
	require.NoError(t, p.run(task, 3, wakeWork, second))
}

func TestPoolRunDoesNotAllocate(t *testing.T) {
	processors(t, 4)
	p, w := newTestPool(t, 4)
	task := task(taskFunc(func(int, *scratch) {}))
	for _, pause := range []time.Duration{0, 100 * time.Microsecond} { // with workers awake, and with workers asleep
		require.Zero(t, testing.AllocsPerRun(200, func() {
			time.Sleep(pause)
			_ = p.run(task, 8, wakeWork, w)
		}))
	}
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 5 {
		be, err := Open(Options{Threads: 8})
		require.NoError(t, err)
		require.NoError(t, be.Close())
	}
	deadline := time.Now().Add(5 * time.Second)
	for runtime.NumGoroutine() > before && time.Now().Before(deadline) { // they have ended, but may still be counted
		time.Sleep(time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
}
