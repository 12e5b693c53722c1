package tier_test

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/tiertest"
)

// descriptors is how many files the process has open, and resident the bytes of memory that it has, where Linux says so: addresses
// without memory are also what Go and C set aside for each thread.
func descriptors() int {
	entries, _ := os.ReadDir("/proc/self/fd")
	return len(entries)
}

func resident() int64 {
	debug.FreeOSMemory()
	var addresses, pages int64
	text, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		_, err = fmt.Sscan(string(text), &addresses, &pages)
	}
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// Close in the middle of transfers leaves no goroutine, descriptor or mapping: the memory of the tiers goes back, and no file
// of the directory is held.
func TestCloseInMidTransfer(t *testing.T) {
	const payload, blocks, fast, low = 256 << 10, 24, 96, 96
	var chains [][]tier.Block
	for i := range 8 {
		chains = append(chains, tiertest.Chain("left", fmt.Sprint(i), blocks, payload))
	}
	room := make([]byte, len(chains)*blocks*payload) // of all loads: what the Go heap takes does not change
	dir := t.TempDir()
	inFlight := 0
	round := func(i int) {
		s := openStack(t, dir, fast, low, 4*blocks, payload)
		var ended sync.WaitGroup
		for n := range 3 * len(chains) {
			c := append([]tier.Block(nil), chains[(n+i)%len(chains)]...)
			do := s.Store
			if n%3 == 2 {
				do = s.Load
				for i := range c {
					c[i].Bytes = room[(n/3*blocks+i)*payload:][:payload]
				}
			}
			ended.Add(2)
			require.NoError(t, do(ctx, tier.Job{Sequence: uint64(n % 5), Blocks: c, Done: func(tier.Result) { ended.Done() }, Release: ended.Done}))
		}
		time.Sleep(time.Duration(i) * 2 * time.Millisecond)
		inFlight += s.Stats().Jobs
		s.close(t)
		ended.Wait()
	}
	round(0) // what a process has once
	goroutines, files, memory := runtime.NumGoroutine(), descriptors(), resident()
	const rounds = 12
	for i := range rounds {
		round(i)
	}
	require.Greater(t, inFlight, rounds, "jobs were on their way")
	for range 1000 { // a goroutine that has done all it had to may take a moment to end
		if runtime.NumGoroutine() <= goroutines {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
	require.LessOrEqual(t, descriptors(), files)
	if !race.Enabled { // which has the tiers' memory from Go's heap
		require.Less(t, resident()-memory, int64(rounds*(fast+low)*payload/4), "bytes of memory that the process still has")
	}
	maps, _ := os.ReadFile("/proc/self/maps")
	require.NotContains(t, string(maps), dir)
	open, _ := os.ReadDir("/proc/self/fd")
	for _, f := range open {
		to, _ := os.Readlink("/proc/self/fd/" + f.Name())
		require.False(t, strings.HasPrefix(to, dir), to)
	}
}
