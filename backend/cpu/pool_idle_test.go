//go:build unix

package cpu

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An idle pool costs no processor time.
func TestPoolIdleSleeps(t *testing.T) {
	processors(t, 4)
	p, w := newTestPool(t, 4)
	for range 10 {
		require.NoError(t, p.run(taskFunc(func(int, *scratch) {}), 100, wakeWork, w))
	}
	awaitSleep(t, p)
	used := []time.Duration{}
	for range 5 { // the runtime has work of its own at times
		before := cpuTime()
		time.Sleep(50 * time.Millisecond)
		used = append(used, cpuTime()-before)
	}
	require.Less(t, slices.Min(used), 5*time.Millisecond)
}

// cpuTime is the processor time that the process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
