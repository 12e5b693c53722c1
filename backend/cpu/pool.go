package cpu

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// What makes a call worth sharing, in bytes that its parts read and write. A core gets
// through about 10 bytes a nanosecond, or 50 multiply-adds; both the figures and the
// estimates that they are compared with are orders of magnitude.
const (
	// smallWork is 3 µs for each that takes part: several times what it takes processors to
	// hand a job and its end to each other.
	smallWork = 1 << 15
	// wakeWork is 100 µs. Waking a sleeping worker costs the caller a system call of 2 to
	// 15 µs, and the worker begins 10 to 60 µs later: the small figures are those of a bare
	// machine, the large ones those of a virtual one, whose idle processor the host has
	// taken away. Less work is done before help arrives.
	wakeWork = 1 << 20
)

// task is work of independent parts. Parts write disjoint memory, so that the
// result does not depend on which worker runs which part.
type task interface {
	part(i int, w *scratch)
}

// pool is the workers of a device. Calls are safe for concurrent use; one that
// finds the workers busy runs on its own goroutine until some are free.
//
// The calls of a decode step are microseconds apart, and a goroutine takes longer to wake.
// So workers look for the next job for a while before they sleep (see patience), and a
// caller that finds them awake only writes its job where they look. Nobody waits for a
// worker that has not begun: it may as well find nothing left.
type pool struct {
	threads int // workers and the goroutine that calls
	running sync.WaitGroup
	scratch []atomic.Pointer[scratch] // of each worker
	bell    chan struct{}             // receives once for each worker that is woken

	last  atomic.Pointer[call] // that was given back, if it was not taken since
	mu    sync.Mutex
	calls []*call // and others that were; reused: a warm dispatch allocates nothing
	size  extent  // of every scratch

	_       apart
	offered atomic.Pointer[job] // where workers look
	_       apart
	looking atomic.Int32 // workers that look for a job, or are woken to do so
	asleep  atomic.Int32 // workers that wait for the bell
}

// apart keeps what some goroutines write off the cache lines that others poll. Processors
// fetch lines in pairs.
type apart [2 * cacheLine]byte

func newPool(threads int) *pool {
	p := &pool{threads: threads, scratch: make([]atomic.Pointer[scratch], threads-1), bell: make(chan struct{}, threads)}
	for i := range p.scratch {
		p.looking.Add(1)
		p.running.Go(func() { p.serve(&p.scratch[i]) })
	}
	return p
}

// close ends the workers. No dispatch may be running.
func (p *pool) close() {
	close(p.bell)
	p.running.Wait()
}

// run runs all parts of t and returns when they have finished. cost is that of the
// whole, in bytes as above. A panic in a part becomes an error: it means that
// memory was changed by somebody else in the middle of the call.
func (p *pool) run(t task, parts, cost int, w *scratch) error {
	if parts == 0 {
		return nil
	}
	workers := p.helpers(parts, cost)
	if workers == 0 {
		return runAlone(t, parts, w)
	}
	j, done := w.job, 0
	j.begin(t, parts, workers)
	for i, ok := j.take(0); ok; i, ok = j.take(0) {
		p.offer(j, cost >= wakeWork)
		j.runPart(i, w)
		done++
	}
	j.wait(done)
	if failed := j.end(); failed != nil {
		return errChanged(*failed)
	}
	return nil
}

// runAlone is run for work that is not worth sharing: of a small step the words that
// goroutines would hand each other take longer than the work.
func runAlone(t task, parts int, w *scratch) (err error) {
	for i := 0; i < parts; i++ { // again after a part that panics
		if e := runFrom(&i, t, parts, w); e != nil {
			err = e
		}
	}
	return err
}

// runFrom runs the parts from i on, which it leaves at the last one that it ran.
func runFrom(i *int, t task, parts int, w *scratch) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errChanged(r)
		}
	}()
	for ; *i < parts; *i++ {
		t.part(*i, w)
	}
	return nil
}

func errChanged(reason any) error {
	return fmt.Errorf("cpu: operands changed during the call: %v", reason)
}

// helpers is how many workers a call is shared with at most.
func (p *pool) helpers(parts, cost int) int {
	n := min(parts, p.threads, cost/smallWork)
	if n < 2 {
		return 0
	}
	return min(n, runtime.GOMAXPROCS(0)) - 1
}

// offer puts a job that has room for workers where they look, unless another one is there
// that has, and wakes as many as are missing.
func (p *pool) offer(j *job, wake bool) {
	room := j.room()
	if room == 0 {
		return
	}
	if other := p.offered.Load(); other != j {
		if other != nil && other.room() > 0 || !p.offered.CompareAndSwap(other, j) {
			return
		}
	}
	if missing := room - int(p.looking.Load()); wake && missing > 0 {
		p.wake(missing)
	}
}

// wake wakes up to n workers.
func (p *pool) wake(n int) {
	woken := 0
	for woken < n && p.rouse() {
		p.bell <- struct{}{}
		woken++
	}
	if woken > 0 {
		// The goroutine that was made ready last is kept for this processor, which is busy:
		// an idle one takes it only after a delay of 50 µs. Let that be one with nothing to do.
		go func() {}()
	}
}

// rouse counts a worker that sleeps as one that looks, if there is any.
func (p *pool) rouse() bool {
	for {
		n := p.asleep.Load()
		if n == 0 {
			return false
		}
		if p.asleep.CompareAndSwap(n, n-1) {
			p.looking.Add(1)
			return true
		}
	}
}
