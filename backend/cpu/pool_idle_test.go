package cpu

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// asleep runs a test of a pool whose workers do not look for work for long, on a clock that
// stands still while any goroutine runs. There synctest.Wait returns when all workers are asleep;
// a goroutine that waits for what does not come, or that is left at the end, ends the
// test, without a deadline.
func asleep(t *testing.T, threads int, test func(t *testing.T, p *pool, w *scratch)) {
	before := patience
	patience = -1
	defer func() { patience = before }()
	synctest.Test(t, func(t *testing.T) {
		processors(t, threads)
		p, w := newTestPool(t, threads)
		synctest.Wait()
		require.EqualValues(t, threads-1, p.asleep.Load())
		test(t, p, w)
	})
}

// An idle pool costs no processor time: its workers wait for the bell, before the first
// call and after any.
func TestPoolIdleSleeps(t *testing.T) {
	asleep(t, 4, func(t *testing.T, p *pool, w *scratch) {
		for range 10 {
			require.NoError(t, p.run(taskFunc(func(int, *scratch) {}), 100, wakeWork, w))
			synctest.Wait()
			require.EqualValues(t, 3, p.asleep.Load())
			require.Zero(t, p.looking.Load())
		}
	})
}

// Closing a device ends its workers.
func TestCloseLeavesNoGoroutine(t *testing.T) {
	before := patience
	patience = -1
	defer func() { patience = before }()
	synctest.Test(t, func(t *testing.T) { // fails while there is another goroutine
		for range 5 {
			be, err := Open(Options{Threads: 8})
			require.NoError(t, err)
			require.NoError(t, be.Close())
		}
	})
}
