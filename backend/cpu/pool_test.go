package cpu

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
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
					giveBack(p, c, &c.copy)
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
	asleep(t, threads, func(t *testing.T, p *pool, w *scratch) {
		for range 50 {
			synctest.Wait()
			var met sync.WaitGroup
			met.Add(threads)
			meet := taskFunc(func(int, *scratch) {
				met.Done()
				met.Wait()
			})
			require.NoError(t, p.run(meet, threads, wakeWork, w))
		}
	})
}

// Work that is done before help arrives wakes nobody.
func TestPoolLetsWorkersSleep(t *testing.T) {
	asleep(t, 4, func(t *testing.T, p *pool, w *scratch) {
		others := 0
		count := taskFunc(func(_ int, by *scratch) {
			if by != w {
				others++
			}
		})
		require.NoError(t, p.run(count, 1000, wakeWork-1, w))
		require.Zero(t, others)
		require.EqualValues(t, 3, p.asleep.Load())
	})
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
	asleep(t, 2, func(t *testing.T, p *pool, first *scratch) {
		second := p.borrow(extent{}).scratch
		var begun atomic.Int32
		gate, ended, helped := make(chan struct{}), make(chan error), make(chan struct{})
		go func() {
			ended <- p.run(taskFunc(func(int, *scratch) { begun.Add(1); <-gate }), 2, wakeWork, first)
		}()
		synctest.Wait()
		require.EqualValues(t, 2, begun.Load(), "the worker is busy")
		var once sync.Once // the worker may take two parts
		task := taskFunc(func(i int, w *scratch) {
			switch {
			case w != second:
				once.Do(func() { close(helped) })
			case i == 0:
				close(gate)
				require.NoError(t, <-ended)
			case i == 1:
				<-helped
			}
		})
		require.NoError(t, p.run(task, 3, wakeWork, second))
	})
}

// A dispatch allocates nothing, also where it wakes workers. (testing.AllocsPerRun leaves one
// processor, so that a call would have no helpers.)
func TestPoolRunDoesNotAllocate(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	asleep(t, 4, func(t *testing.T, p *pool, w *scratch) {
		var helped atomic.Bool
		task := task(taskFunc(func(_ int, by *scratch) {
			if by != w {
				helped.Store(true)
			}
			runtime.Gosched()
		}))
		const runs = 1000
		allocated := func(before func()) uint64 {
			defer debug.SetGCPercent(debug.SetGCPercent(-1))
			var from, to runtime.MemStats
			runtime.ReadMemStats(&from)
			for range runs {
				before()
				_ = p.run(task, 8, wakeWork, w)
			}
			runtime.ReadMemStats(&to)
			return (to.Mallocs - from.Mallocs) / runs // rounded down: the runtime allocates at times
		}
		allocated(func() {})
		require.Zero(t, allocated(func() {}))
		require.Zero(t, allocated(func() {
			for p.asleep.Load() < 3 {
				runtime.Gosched()
			}
		}))
		require.True(t, helped.Load())
	})
}
