package cpu

import (
	"sync/atomic"
	"time"
)

// patience is how long a worker looks for a job before it sleeps, and a caller waits for the
// last parts of its own before it does. It is about the time that a wake takes, so that no
// pause between two calls costs more than twice the least possible, and it bounds how long a
// goroutine of the rest of the program is kept off a processor by one that only looks. There is
// no runtime.Gosched in the loop: it wakes an idle processor each time. It is a variable for tests
// whose clock stands still.
var patience = 20 * time.Microsecond

// serve is a worker: it joins jobs until the pool closes.
func (p *pool) serve(w *atomic.Pointer[scratch]) {
	for {
		var j *job
		var part int
		joined := spin(func() (ok bool) {
			if j = p.offered.Load(); j != nil {
				part, ok = j.take(seat)
			}
			return ok
		})
		if joined {
			p.looking.Add(-1)
			j.work(part, w.Load())
			p.looking.Add(1)
		} else if !p.sleep() {
			return
		}
	}
}

// sleep waits for the bell. It is false when the pool has closed.
func (p *pool) sleep() bool {
	p.looking.Add(-1)
	p.asleep.Add(1)
	// Callers wake this worker from here on. One that counted on it has offered its job before.
	if j := p.offered.Load(); j != nil && j.room() > 0 && p.rouse() {
		return true
	}
	_, open := <-p.bell
	return open
}

// spin polls until done, as long as patience lasts.
func spin(done func() bool) bool {
	for start := time.Now(); ; {
		for range 50 {
			if done() {
				return true
			}
		}
		if time.Since(start) > patience {
			return false
		}
	}
}
