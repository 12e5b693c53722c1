package cpu

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// smallWork is the cost, in multiply-adds, below which waking a worker takes
// longer than it saves.
const smallWork = 1 << 16

// task is work of independent parts. Parts write disjoint memory, so that the
// result does not depend on which worker runs which part.
type task interface {
	part(i int, w *scratch)
}

// pool is the workers of a device. Calls are safe for concurrent use; one that
// finds the workers busy runs on its own goroutine.
type pool struct {
	threads int // workers and the goroutine that calls
	jobs    chan *job
	running sync.WaitGroup

	scratch []atomic.Pointer[scratch] // of each worker

	mu    sync.Mutex
	idle  []*job  // reused: a warm dispatch allocates nothing
	calls []*call // reused likewise
	size  extent  // of every scratch
}

// job is one dispatch. It goes back to the pool when the last of those that hold
// it lets go, which may be a worker that found nothing left to do.
type job struct {
	task   task
	parts  int64
	next   atomic.Int64 // the next part to run
	left   atomic.Int64 // parts not finished
	holds  atomic.Int64
	failed atomic.Pointer[any]
	done   chan struct{} // receives once all parts have finished
}

func newJob() *job { return &job{done: make(chan struct{}, 1)} }

func newPool(threads int) *pool {
	p := &pool{threads: threads, jobs: make(chan *job, threads), scratch: make([]atomic.Pointer[scratch], threads-1)}
	for range 2 * threads { // one goroutine's: in the queue, at the workers, and its own
		p.idle = append(p.idle, newJob())
	}
	for i := range p.scratch {
		p.running.Go(func() {
			for j := range p.jobs {
				j.work(p.scratch[i].Load())
				p.release(j)
			}
		})
	}
	return p
}

// close ends the workers. No dispatch may be running.
func (p *pool) close() {
	close(p.jobs)
	p.running.Wait()
}

// run runs all parts of t and returns when they have finished. cost is that of
// the whole in multiply-adds. A panic in a part becomes an error: it means that
// memory was changed by somebody else in the middle of the call.
func (p *pool) run(t task, parts, cost int, w *scratch) error {
	if parts == 0 {
		return nil
	}
	j := p.acquire()
	j.task, j.parts = t, int64(parts)
	j.left.Store(int64(parts))
	helpers := min(parts, p.threads) - 1
	if cost < smallWork {
		helpers = 0
	}
	j.holds.Store(int64(helpers) + 1)
	j.next.Store(0)
	for range helpers {
		select {
		case p.jobs <- j:
		default: // the workers have enough to do
			j.holds.Add(-1)
		}
	}
	j.work(w)
	<-j.done
	failed := j.failed.Load()
	p.release(j)
	if failed != nil {
		return fmt.Errorf("cpu: operands changed during the call: %v", *failed)
	}
	return nil
}

// work runs parts until none is left.
func (j *job) work(w *scratch) {
	for {
		i := j.next.Add(1) - 1
		if i >= j.parts {
			return
		}
		j.runPart(int(i), w)
		if j.left.Add(-1) == 0 {
			j.done <- struct{}{}
		}
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

func (p *pool) acquire() *job {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		j := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return j
	}
	return newJob()
}

func (p *pool) release(j *job) {
	if j.holds.Add(-1) > 0 {
		return
	}
	j.task = nil
	j.failed.Store(nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, j)
}
