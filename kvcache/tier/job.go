package tier

import (
	"context"
	"errors"
	"slices"
)

// Job is blocks to store or to load.
type Job struct {
	// Sequence names a sequence: its jobs run one after another, in the order in which they came. 0: in any order.
	Sequence uint64
	// Blocks are in the order of their sequence, with all fields but Sum. A store reads their Bytes, a load writes
	// them, and with MoverOptions.Promote reads them after Done. They are lent from the call until Release; a call that returns an error does not borrow them.
	Blocks []Block
	// Wait is for room, as long as the context lives; otherwise there is ErrBusy.
	Wait bool
	// Done is called once, on another goroutine, when the result is known. The first Result.Blocks of a load may be read from then on. It must not block.
	Done func(Result)
	// Places is, for a load, what Has returned for Blocks: they are read there first, and other tiers are asked for those no longer there.
	// nil: all tiers are asked in their order.
	Places []Place
	// Late is called at most once, on another goroutine, when a tier's call runs longer than MoverOptions.Slow, or at once if the tier's
	// last one did: Release may come much later, or never. It may be called after Release. May be nil.
	Late func()
	// Release is called once, after Done, when the mover and its tiers do not touch Blocks any more. It must not block. May be nil.
	Release func()
}

// Result is what became of a job.
type Result struct {
	Blocks int   // the first of the job's that are whole (loads), or that a tier took (stores)
	By     []int // of each tier: the blocks that came from it, or that it took
	Err    error // why there are not more: nil where tiers just do not have them
}

// job is a Job in a mover.
type job struct {
	Job
	kind   kind
	bytes  int64
	ctx    context.Context // the caller's, and the end of life
	life   context.Context // goes on after Done, for promotion
	stop   context.CancelFunc
	cancel context.CancelFunc
	after  *job // of the same sequence, if it is not done

	queued, worker, done bool          // waits; has a worker; Done is being called. The mover's lock guards them
	late                 bool          // Late was called
	told                 chan struct{} // Done has returned
	freed                chan struct{} // Release has returned
	stuck                chan struct{} // a call for it hangs, by the first error hung
	hung                 error
}

// Store puts blocks into all tiers. Those that a tier has already are not written again.
func (m *Mover) Store(ctx context.Context, j Job) error { return m.submit(ctx, store, j) }

// Load reads the longest beginning of blocks that the tiers have together: from the first one as far as it goes, then from the
// next, and so on. What was read when the context ends is a result.
func (m *Mover) Load(ctx context.Context, j Job) error { return m.submit(ctx, load, j) }

func (m *Mover) submit(ctx context.Context, k kind, given Job) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := &job{Job: given, kind: k, told: make(chan struct{}), freed: make(chan struct{}), stuck: make(chan struct{})}
	j.Blocks = slices.Clone(given.Blocks) // the sums are the job's
	for i := range given.Blocks {
		j.bytes += int64(len(given.Blocks[i].Bytes))
	}
	if err := m.room(ctx, k, j.bytes, given.Wait); err != nil {
		return err
	}
	j.life, j.stop = context.WithCancel(m.base)
	j.ctx, j.cancel = context.WithCancel(ctx)
	context.AfterFunc(j.life, j.cancel)

	m.mu.Lock()
	if m.closed {
		m.lanes[k].bytes -= j.bytes
		m.mu.Unlock()
		j.stop()
		return ErrClosed{Name: "mover"}
	}
	m.jobs++
	m.live[j] = struct{}{}
	if j.Sequence != 0 {
		j.after = m.tails[j.Sequence]
		m.tails[j.Sequence] = j
	}
	j.queued = true
	m.lanes[k].queue = append(m.lanes[k].queue, j)
	m.dispatch()
	m.mu.Unlock()
	context.AfterFunc(j.ctx, func() { m.cancelled(j) })
	return nil
}

// cancelled ends a job that still waits.
func (m *Mover) cancelled(j *job) {
	m.mu.Lock()
	queued := j.queued
	if queued {
		j.queued = false
		q := &m.lanes[j.kind].queue
		*q = slices.Delete(*q, slices.Index(*q, j), slices.Index(*q, j)+1)
	}
	m.mu.Unlock()
	if queued {
		m.deliver(j, Result{By: make([]int, len(m.tiers)), Err: j.ctx.Err()})
		m.release(j)
	}
}

// dispatch starts jobs as far as there are workers, loads first. The lock is held.
func (m *Mover) dispatch() {
	for m.lanes[load].running+m.lanes[store].running < m.o.Workers {
		k := load
		i := m.ready(load)
		if i < 0 && m.lanes[store].running < max(m.o.Workers-1, 1) {
			k = store
			i = m.ready(store)
		}
		if i < 0 {
			return
		}
		l := &m.lanes[k]
		j := l.queue[i]
		l.queue = slices.Delete(l.queue, i, i+1)
		l.running++
		j.queued, j.worker = false, true
		go m.run(j)
	}
}

// ready is the first job of a lane that need not wait for another one of its sequence; −1: there is none.
func (m *Mover) ready(k kind) int {
	return slices.IndexFunc(m.lanes[k].queue, func(j *job) bool { return j.after == nil || j.after.done })
}

// run does a job. The worker is free when it is done, or late.
func (m *Mover) run(j *job) {
	if j.kind == store {
		m.store(j)
		return
	}
	m.load(j)
	m.free(j)
	m.release(j)
}

// late lets others go on without what a job holds.
func (m *Mover) late(j *job) {
	m.mu.Lock()
	first := !j.late
	j.late = true
	m.mu.Unlock()
	m.free(j)
	if first && j.Late != nil {
		j.Late()
	}
}

// free gives the worker of a job to another one.
func (m *Mover) free(j *job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j.worker {
		j.worker = false
		m.lanes[j.kind].running--
		m.dispatch()
	}
}

// deliver tells the result of a job, once.
func (m *Mover) deliver(j *job, r Result) {
	m.mu.Lock()
	if j.done {
		m.mu.Unlock()
		return
	}
	j.done, j.after = true, nil
	if m.tails[j.Sequence] == j {
		delete(m.tails, j.Sequence)
	}
	if j.kind == store {
		m.stats.Stores++
	} else {
		m.stats.Loads++
	}
	if errors.Is(r.Err, context.Canceled) || errors.Is(r.Err, context.DeadlineExceeded) {
		m.stats.Cancelled++
	}
	m.dispatch()
	m.mu.Unlock()
	if j.Done != nil {
		j.Done(r)
	}
	close(j.told)
}

// release gives back what a job was lent.
func (m *Mover) release(j *job) {
	<-j.told
	j.stop() // and with it the context's resources
	m.mu.Lock()
	l := &m.lanes[j.kind]
	l.bytes -= j.bytes
	delete(m.live, j)
	m.grant(l)
	m.mu.Unlock()
	if j.Release != nil {
		j.Release()
	}
	close(j.freed)
	m.leave()
}

func (m *Mover) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobs--
	m.changed.Broadcast()
}
