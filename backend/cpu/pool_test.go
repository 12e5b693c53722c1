package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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

func TestPoolRunsEveryPartOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 7} {
		p := newPool(threads)
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				for _, n := range []int{0, 1, 2, 3, 100, 1000} {
					task := &counting{parts: make([]atomic.Int32, n), panicAt: -1}
					c := p.borrow(extent{rows: n})
					if err := p.run(task, n, smallWork*(n%2), c.scratch); err != nil {
						t.Error(err)
					}
					for i := range task.parts {
						if got := task.parts[i].Load(); got != 1 {
							t.Errorf("part %d of %d ran %d times", i, n, got)
						}
					}
					p.giveBack(c)
				}
			})
		}
		callers.Wait()
		p.close()
	}
}

// A part that panics, as one does whose operands change under it, is an error of
// the call, and the pool goes on.
func TestPoolPanicIsAnError(t *testing.T) {
	p := newPool(3)
	defer p.close()
	c := p.borrow(extent{})
	for _, at := range []int{0, 50, 99} {
		task := &counting{parts: make([]atomic.Int32, 100), panicAt: at}
		require.ErrorContains(t, p.run(task, 100, smallWork, c.scratch), "bad index")
	}
	task := &counting{parts: make([]atomic.Int32, 100), panicAt: -1}
	require.NoError(t, p.run(task, 100, smallWork, c.scratch))
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
