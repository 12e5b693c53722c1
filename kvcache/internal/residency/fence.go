package residency

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Fence is the end of a step on the device. Sequences hold the fence of the last
// step that used them; blocks they give back are held until it is reached. nil is a fence that
// has been reached.
type Fence struct {
	event  backend.Event
	stream backend.Stream
	refs   int
	done   bool
	err    error // of the device, found when asking whether the fence was reached
}

// Reached reports whether the device is past the fence. A device error counts as
// reached: the work will never run again.
func (f *Fence) Reached() bool {
	if f == nil || f.done {
		return true
	}
	done, err := f.event.Done()
	f.done, f.err = done || err != nil, err
	return f.done
}

// wait blocks until the device is past the fence.
func (f *Fence) wait() error {
	if f == nil || f.done {
		return nil
	}
	f.done, f.err = true, f.event.Sync()
	return f.err
}

// Order makes work enqueued on s from here on run after the fence.
func (f *Fence) Order(s backend.Stream) error {
	if f == nil || f.done || f.stream == s {
		return nil // one stream is in order by itself
	}
	return nameStream(s.Wait(f.event))
}

// Hold returns f with one more holder.
func (f *Fence) Hold() *Fence {
	if f != nil {
		f.refs++
	}
	return f
}

// nameStream names what is of another device: the stream, for events are the pool's own.
func nameStream(err error) error {
	if errors.Is(err, backend.ErrOtherDevice) {
		return fmt.Errorf("stream %w", backend.ErrOtherDevice)
	}
	return err
}

// Drain waits for a stream on which no fence could be recorded and returns what
// went wrong there. A stream that was closed has done its work.
func Drain(s backend.Stream) error {
	if err := s.Sync(); !errors.Is(err, backend.ErrClosed) {
		return err
	}
	return nil
}

// Fences makes the fences of a pool and uses them again once nobody holds them, so that a warm
// step creates no event, and knows whether the device is lost. The zero value has none.
type Fences struct {
	all  []*Fence
	idle []*Fence
	lost error // the device failed: nothing on it is trusted any more
	// OnLost, if any, is called once when that is known, under the guard. It must not block.
	OnLost func(error)
	trees  []*prefix.Tree // of what lies on it

	guard   sync.Locker // of the pool; it is held whenever its fences are used
	away    int         // who gave up the guard for a while
	back    *sync.Cond  // somebody has it again
	loans   []*loan     // those of them who give back some of what they hold
	awaited *Fence      // held: after it blocks come back that something lacked
	waits   []*Fence    // what Retry waits for
	lacking int         // who waits for what others borrowed
}

// loan is blocks that somebody holds until work without the guard is done.
type loan struct{ _ byte }

// Lost is why nothing on the device is trusted any more, nil while it is.
func (fs *Fences) Lost() error { return fs.lost }

// Observe passes on an error of the device. One that says that the device is lost empties the trees.
func (fs *Fences) Observe(err error) error {
	if err != nil && errors.Is(err, backend.ErrLost) && fs.lost == nil {
		fs.lost = fmt.Errorf("what is on the device is no longer trusted: %w", err)
		if fs.OnLost != nil {
			fs.OnLost(err)
		}
		for _, t := range fs.trees {
			_ = t.Clear(true) // by force it cannot fail
		}
	}
	return err
}

// Guarded says which lock guards the pool.
func (fs *Fences) Guarded(by sync.Locker) { fs.guard, fs.back = by, sync.NewCond(by) }

// Apart does, without the guard, what takes a device long; the caller holds the guard before and after. Others
// use the pool meanwhile, so that what it works with has to be the caller's alone. Who closes the pool waits
// for the call that it is part of: see Quiet.
func (fs *Fences) Apart(do func() error) error {
	fs.away++
	fs.guard.Unlock()
	defer func() {
		fs.guard.Lock()
		fs.away--
		fs.back.Broadcast()
	}()
	return do()
}

// Lend is Apart of a call that then gives back some of the blocks that it holds: who lacks blocks meanwhile
// waits for them.
func (fs *Fences) Lend(do func() error) error {
	l := &loan{}
	fs.loans = append(fs.loans, l)
	defer func() { fs.loans = slices.DeleteFunc(fs.loans, func(other *loan) bool { return other == l }) }()
	return fs.Apart(do)
}

// Quiet waits until nobody is away who gave up the guard, which is held before and after.
func (fs *Fences) Quiet() {
	for fs.away > 0 {
		fs.back.Wait()
	}
}

// Retry does something under the guard. If it lacks blocks that the device still uses, Retry
// waits for the first of them to come back, without the guard, and does it again, until none are on their
// way; then once more for each of the loans that there were. What fails so must have changed nothing.
func (fs *Fences) Retry(do func() error) error {
	fs.guard.Lock()
	defer fs.guard.Unlock()
	var loans []*loan // since it lacked what nobody had given back
	defer fs.expect(nil)
	for counted := false; ; {
		fs.expect(nil)
		err := do()
		if !errors.Is(err, block.ErrOutOfBlocks{}) {
			return err
		}
		if fs.awaited != nil {
			fs.await()
			continue
		}
		if !counted {
			loans, counted = slices.Clone(fs.loans), true
		}
		out := len(loans)
		loans = slices.DeleteFunc(loans, func(l *loan) bool { return !slices.Contains(fs.loans, l) })
		switch {
		case len(loans) < out: // and what they gave back may be on its way
		case out == 0:
			return err
		default:
			fs.lacking++
			fs.back.Wait()
			if fs.lacking--; fs.lacking == 0 {
				defer fs.back.Broadcast()
			}
		}
	}
}

// Yield waits, as somebody who can wait before he borrows blocks, until those have tried again who lacked some. The guard is
// held, and given up meanwhile.
func (fs *Fences) Yield() {
	for fs.lacking > 0 {
		fs.back.Wait()
	}
}

// expect notes the fence after which blocks come back that something lacked; nil: none. It is held: what
// else is given back before Retry waits for it may be what held it until then.
func (fs *Fences) expect(f *Fence) { fs.Replace(&fs.awaited, f) }

// await waits for the expected fence without the guard.
func (fs *Fences) await() {
	f := fs.awaited
	fs.awaited = nil
	fs.waitFor(f)
}

// waitFor waits without the guard for a fence that the caller holds, and drops it.
func (fs *Fences) waitFor(f *Fence) {
	if f.done {
		fs.Drop(f)
		return
	}
	fs.waits = append(fs.waits, f)
	var failed error
	_ = fs.Apart(func() error { failed = f.event.Sync(); return nil })
	f.done, f.err = true, failed // Reclaim reports it
	at := slices.Index(fs.waits, f)
	fs.waits = slices.Delete(fs.waits, at, at+1)
	fs.Drop(f)
}

// Events makes the events that fences are.
type Events interface {
	NewEvent() (backend.Event, error)
}

// Record makes this point of a stream a fence, which nobody holds yet.
func (fs *Fences) Record(events Events, s backend.Stream) (*Fence, error) {
	var f *Fence
	if n := len(fs.idle); n > 0 {
		f, fs.idle = fs.idle[n-1], fs.idle[:n-1]
	} else {
		event, err := events.NewEvent()
		if err != nil {
			return nil, err
		}
		f = &Fence{event: event}
		fs.all = append(fs.all, f)
	}
	if err := s.Record(f.event); err != nil {
		fs.idle = append(fs.idle, f)
		return nil, nameStream(err)
	}
	f.stream, f.done, f.err = s, false, nil
	return f, nil
}

// Drop takes a holder from a fence.
func (fs *Fences) Drop(f *Fence) {
	if f == nil {
		return
	}
	if f.refs--; f.refs == 0 {
		f.stream = nil
		fs.idle = append(fs.idle, f)
	}
}

// Replace drops the fence at *at and puts f, with one more holder, in its place.
func (fs *Fences) Replace(at **Fence, f *Fence) {
	old := *at
	*at = f.Hold() // first: it may be the same
	fs.Drop(old)
}

// Close waits for every fence and gives the events back. It returns the first of
// the errors: on a device that is gone they are all alike.
func (fs *Fences) Close() error {
	var first error
	for _, f := range fs.all {
		for _, err := range [...]error{f.wait(), f.event.Close()} {
			if first == nil {
				first = err
			}
		}
	}
	fs.all, fs.idle = nil, nil
	return first
}
