package runner

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// least is the nanoseconds of work that pay for a goroutine, which on another processor begins 10 to 120 µs later where that one sleeps.
const least = 50_000

// parts is how many threads share n units of work: each has the least, or one thread has all.
func parts(threads, n, nanoseconds int) int { return max(min(threads, n, nanoseconds/least), 1) }

// someUnits is the fewest that a thread takes at a time, for what these have in common, such as rows of x that are rounded, is done anew each time.
const someUnits = 4

// split divides n units among parts, which may read from the files of a path, and returns when all are done. It fails where a file cannot be read.
// Each takes a share of what is left, so that one that begins late leaves more to the others, and all end together (guided
// self-scheduling: Polychronopoulos and Kuck, 1987).
func split(path string, parts, n int, f func(from, to int)) {
	if parts == 1 {
		f(0, n)
		return
	}
	var all sync.WaitGroup
	var taken atomic.Int64
	failed := make([]error, parts)
	take := func() (from, to int, some bool) {
		for {
			at := taken.Load()
			left := n - int(at)
			if left <= 0 {
				return 0, 0, false
			}
			size := max(left/(2*parts), min(someUnits, (n+parts-1)/parts, left))
			if taken.CompareAndSwap(at, at+int64(size)) {
				return int(at), int(at) + size, true
			}
		}
	}
	work := func(i int) {
		failed[i] = guarded(path, func() {
			for from, to, some := take(); some; from, to, some = take() {
				f(from, to)
			}
		})
	}
	all.Add(parts - 1)
	for i := 1; i < parts; i++ {
		assist(func() {
			work(i)
			all.Done() // not deferred: a panic ends the program before others go on
		})
	}
	work(0)
	all.Wait()
	check(errors.Join(failed...))
}

// linger is how long a helper looks for more work after its last: longer than most of what one thread does between two products of a step. While it
// looks, the scheduler gives its processor to no goroutine that becomes ready elsewhere, such as the workers of attention.
const linger = 50 * time.Microsecond

// helper is a goroutine that works for whatever is split next, so that its processor need not be woken for each product.
type helper struct{ task atomic.Pointer[func()] }

var idle struct {
	sync.Mutex
	helpers []*helper
}

// assist runs a task on a helper that is idle, or on a new one.
func assist(task func()) {
	idle.Lock()
	defer idle.Unlock()
	if last := len(idle.helpers) - 1; last >= 0 {
		idle.helpers[last].task.Store(&task)
		idle.helpers = slices.Delete(idle.helpers, last, last+1)
		return
	}
	go func() {
		h := new(helper)
		for task != nil {
			task()
			task = h.next()
		}
	}()
}

// next is the task that h receives, or nil after it has lingered.
func (h *helper) next() func() {
	idle.Lock()
	idle.helpers = append(idle.helpers, h)
	idle.Unlock()
	for begin := time.Now(); ; runtime.Gosched() {
		if task := h.task.Swap(nil); task != nil {
			return *task
		}
		if time.Since(begin) > linger && h.leaves() {
			return nil
		}
	}
}

// leaves takes h off the list. If it is not there, it receives a task.
func (h *helper) leaves() bool {
	idle.Lock()
	defer idle.Unlock()
	i := slices.Index(idle.helpers, h)
	if i >= 0 {
		idle.helpers = slices.Delete(idle.helpers, i, i+1)
	}
	return i >= 0
}
