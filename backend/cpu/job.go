package cpu

import (
	"runtime"
	"sync/atomic"
)

// job is one dispatch. Its memory serves the next dispatch of the same goroutine, also
// while a worker still looks at it: all that such a worker can do is to join that one.
type job struct {
	task   task
	parts  int
	failed atomic.Pointer[any]
	done   chan struct{} // receives when a caller that sleeps has nothing left to wait for

	_    apart
	open atomic.Uint64 // parts that nobody has taken, and seat for each worker that may still join
	_    apart
	left atomic.Int64 // parts that have not finished, and callerSleeps
	_    apart
}

const (
	seat         = 1 << 48
	callerSleeps = 1 << 62
)

func newJob() *job { return &job{done: make(chan struct{}, 1)} }

// begin opens a job to its caller and up to the given number of workers.
func (j *job) begin(t task, parts, workers int) {
	j.task, j.parts = t, parts
	j.left.Store(int64(parts))
	j.open.Store(uint64(workers)*seat + uint64(parts))
}

// take takes the next part, and with it the seat of a worker that joins; otherwise as is 0.
func (j *job) take(as uint64) (part int, ok bool) {
	for {
		open := j.open.Load()
		free := open % seat
		if free == 0 || open < as {
			return 0, false
		}
		if j.open.CompareAndSwap(open, open-as-1) {
			return j.parts - int(free), true
		}
	}
}

// room is how many workers may still join and would have something to do.
func (j *job) room() int {
	open := j.open.Load()
	return int(min(open/seat, open%seat))
}

// work is a worker's share of a job: a part that it has taken, and what it can take after it.
func (j *job) work(part int, w *scratch) {
	done := 0
	for ok := true; ok; part, ok = j.take(0) {
		j.runPart(part, w)
		done++
	}
	if j.left.Add(-int64(done)) == callerSleeps {
		j.done <- struct{}{}
		runtime.Gosched() // the caller is next in line here; elsewhere a processor must wake first
	}
}

func (j *job) runPart(i int, w *scratch) {
	defer func() {
		if r := recover(); r != nil {
			reason := r // allocated on this path only
			j.failed.Store(&reason)
		}
	}()
	j.task.part(i, w)
}

// wait returns when all parts have finished, given how many the caller did.
func (j *job) wait(done int) {
	finished := j.left.Add(-int64(done)) == 0 ||
		spin(func() bool { return j.left.Load() == 0 }) ||
		j.left.Add(callerSleeps) == callerSleeps
	if !finished {
		<-j.done
	}
}

// end drops the task, so that its operands are not kept alive.
func (j *job) end() (failed *any) {
	j.task = nil
	return j.failed.Swap(nil)
}
