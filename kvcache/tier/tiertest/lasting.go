package tiertest

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// What was put is found after Close, by another process, where the tier says so; what was forgotten is not, and never other bytes.
func checkLasting(r *rig) {
	o := Options{Bytes: room * (payload + 95), Payload: payload, Dir: r.dir()}
	a, b, c := Chain("lasting", "a", 6, payload), Chain("lasting", "b", 4, payload), Chain("lasting of another", "c", 3, payload)
	in := r.with(o)
	put(r.t, in, a)
	put(r.t, in, b)
	put(r.t, in, c)
	require.NoError(r.t, in.Delete(ctx, keys(a[4:])))
	require.NoError(r.t, in.Clear(ctx, c[0].Root))
	for round := range 3 {
		require.NoError(r.t, in.Close())
		in = r.with(o)
		holds(r.t, in, a[4:], 0) // deleted
		holds(r.t, in, c, 0)     // cleared
		if in.Info().Outlives {
			holds(r.t, in, a, 4)
			holds(r.t, in, b, 4)
			require.Equal(r.t, int64(8), in.Stats().Blocks, "round %d", round)
			require.Equal(r.t, int64(8*payload), in.Stats().Bytes, "round %d", round)
		} else {
			get(r.t, in, keys(a), payload)
		}
	}
	// The next process clears what an earlier one put.
	require.NoError(r.t, in.Clear(ctx, a[0].Root))
	require.NoError(r.t, in.Close())
	in = r.with(o)
	holds(r.t, in, a, 0)
	holds(r.t, in, b, 0)
	// Give up blocks, and look again: slots that had other content.
	for i := range room {
		require.NoError(r.t, in.Put(ctx, Chain("lasting", fmt.Sprint(i), 3, payload)))
	}
	before := in.Stats().Blocks
	require.NoError(r.t, in.Close())
	in = r.with(o)
	found := 0
	for i := range room {
		found += get(r.t, in, keys(Chain("lasting", fmt.Sprint(i), 3, payload)), payload)
	}
	if in.Info().Outlives {
		require.Equal(r.t, before, in.Stats().Blocks)
		require.Positive(r.t, found)
	}
}

// Close leaves no goroutine, descriptor or mapping.
func checkLeaks(r *rig) {
	use := func(i int) {
		o := Options{Bytes: room * (payload + 95), Payload: payload, Dir: r.dir()}
		in := r.with(o)
		a := Chain("leaks", fmt.Sprint(i), room/2, payload)
		put(r.t, in, a)
		get(r.t, in, keys(a), payload)
		require.NoError(r.t, in.Clear(ctx, tier.Key{}))
		require.NoError(r.t, in.Close())
		for _, held := range append(names("/proc/self/fd"), lines("/proc/self/maps")...) {
			require.NotContains(r.t, held, o.Dir, "after Close")
		}
	}
	use(0) // what a process has once, such as the poller of its files
	goroutines, files := runtime.NumGoroutine(), len(names("/proc/self/fd"))
	for i := range 5 {
		use(i)
	}
	settled(r.t, "goroutines", goroutines, runtime.NumGoroutine)
	settled(r.t, "descriptors", files, func() int { return len(names("/proc/self/fd")) })
}

// settled waits until there are no more than before: a goroutine that has done all it had to may take a moment to end.
func settled(t require.TestingT, what string, before int, now func() int) {
	for range 500 {
		if now() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	require.LessOrEqual(t, now(), before, what)
}

// names is what the links in a folder of Linux's /proc lead to; nil elsewhere.
func names(dir string) (out []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if to, err := os.Readlink(dir + "/" + e.Name()); err == nil {
			out = append(out, to)
		}
	}
	return out
}

func lines(file string) []string {
	text, _ := os.ReadFile(file)
	return strings.Split(string(text), "\n")
}
