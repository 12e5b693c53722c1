package kvcache

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// fence is the end of a step on the device. Sequences hold the fence of the last
// step that used them; blocks they give back are held until it is reached.
type fence struct {
	event  backend.Event
	stream backend.Stream
	refs   int
	done   bool
	err    error // of the device, found when asking whether the fence was reached
}

// reached reports whether the device is past the fence. A device error counts as
// reached: the work will never run again.
func (f *fence) reached() bool {
	if f == nil || f.done {
		return true
	}
	done, err := f.event.Done()
	f.done, f.err = done || err != nil, err
	return f.done
}

// wait blocks until the device is past the fence.
func (f *fence) wait() error {
	if f == nil || f.done {
		return nil
	}
	f.done, f.err = true, f.event.Sync()
	return f.err
}

// order makes work enqueued on s from here on run after the fence.
func (f *fence) order(s backend.Stream) error {
	if f == nil || f.done || f.stream == s {
		return nil // one stream is in order by itself
	}
	return foreign(s.Wait(f.event))
}

// foreign names what is of another device: the stream, for events are the pool's own.
func foreign(err error) error {
	if errors.Is(err, backend.ErrForeign) {
		return fmt.Errorf("kvcache: stream %w", backend.ErrForeign)
	}
	return err
}

// fences makes fences and uses them again once nobody holds them, so that a warm
// step creates no event.
type fences struct {
	all  []*fence
	idle []*fence
}

func (fs *fences) record(be interface {
	NewEvent() (backend.Event, error)
}, s backend.Stream) (*fence, error) {
	var f *fence
	if n := len(fs.idle); n > 0 {
		f, fs.idle = fs.idle[n-1], fs.idle[:n-1]
	} else {
		event, err := be.NewEvent()
		if err != nil {
			return nil, err
		}
		f = &fence{event: event}
		fs.all = append(fs.all, f)
	}
	if err := s.Record(f.event); err != nil {
		fs.idle = append(fs.idle, f)
		return nil, foreign(err)
	}
	f.stream, f.done, f.err = s, false, nil
	return f, nil
}

// drain waits for a stream on which no fence could be recorded and returns what
// went wrong there. A stream that was closed has done its work.
func drain(s backend.Stream) error {
	if err := s.Sync(); !errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}

// hold returns f with one more holder.
func (f *fence) hold() *fence {
	if f != nil {
		f.refs++
	}
	return f
}

func (fs *fences) drop(f *fence) {
	if f == nil {
		return
	}
	if f.refs--; f.refs == 0 {
		f.stream = nil
		fs.idle = append(fs.idle, f)
	}
}

// close waits for every fence and gives the events back. It returns the first of
// the errors: on a device that is gone they are all alike.
func (fs *fences) close() error {
	var err error
	for _, f := range fs.all {
		err = firstOf(err, firstOf(f.wait(), f.event.Close()))
	}
	fs.all, fs.idle = nil, nil
	return err
}

// retired are references to blocks that are given up once the device is past a fence.
type retired struct {
	fence  *fence
	blocks []block.Block
}

// retire gives up references to blocks as soon as the device is past f. The slice
// stays the caller's, who holds the lock.
func (p *Pool[B]) retire(f *fence, blocks []block.Block) error {
	if len(blocks) == 0 {
		return nil
	}
	if f.reached() { // and so are those behind which the sequence's other blocks wait
		return errors.Join(p.reclaim(), p.release(blocks))
	}
	p.retired = append(p.retired, retired{f.hold(), append([]block.Block(nil), blocks...)})
	return nil
}

// release takes an owner from each of a sequence's blocks. Those that the prefix
// tree knows stay findable.
func (p *Pool[B]) release(blocks []block.Block) error {
	if p.tree == nil {
		return p.alloc.ReleaseN(blocks, 0)
	}
	return p.tree.Release(blocks)
}

// reclaim gives up the references whose fence was reached. Fences are asked latest
// first: one that is reached has the earlier ones of its sequence behind it, so that
// the end of a path is never given up after its beginning.
func (p *Pool[B]) reclaim() error {
	err := p.settle()
	if p.tree != nil {
		p.tree.Expire()
	}
	var asked *fence
	for i := len(p.retired) - 1; i >= 0; i-- {
		if f := p.retired[i].fence; f != asked { // a step gives up blocks of many sequences
			f.reached()
			asked = f
		}
	}
	kept := p.retired[:0]
	for _, r := range p.retired {
		if !r.fence.done {
			kept = append(kept, r)
			continue
		}
		err = errors.Join(err, p.device(r.fence.err), p.release(r.blocks))
		p.fences.drop(r.fence)
	}
	clear(p.retired[len(kept):])
	p.retired = kept
	return err
}

// patiently tries what may lack blocks. While it does, it waits for the oldest of
// those that the device still uses and tries again, until none are on their way back.
func (p *Pool[B]) patiently(try func() error) error {
	for {
		if err := p.reclaim(); err != nil {
			return err
		}
		err := try()
		if err == nil || len(p.retired) == 0 || !errors.Is(err, ErrOutOfBlocks{}) {
			return err
		}
		_ = p.retired[0].fence.wait() // the fence keeps its error: reclaim reports it
	}
}

// take appends n blocks to dst for sequence s, all or none. When there are too few
// it evicts cached ones, and waits for retired ones before it reports
// ErrOutOfBlocks.
func (p *Pool[B]) take(s *Sequence[B], dst []block.Block, n int) ([]block.Block, error) {
	if err := p.patiently(func() error { return p.makeRoom(s, n) }); err != nil {
		return dst, err
	}
	return p.alloc.AllocateClaimed(&s.claim, dst, n)
}

// makeRoom evicts so many cached blocks that n are free for s, or none and returns
// ErrOutOfBlocks.
func (p *Pool[B]) makeRoom(s *Sequence[B], n int) error {
	free, promised := p.alloc.Free(), s.claim.Blocks()
	if err := p.fits(n, promised); err != nil {
		return err
	}
	short := n - free
	if short <= 0 || p.tree == nil || p.tree.Evict(short, s.root) {
		return nil
	}
	own := p.tree.Evictable(s.root)
	if due := min(short, promised); short-due <= own { // a promise is kept whoever's floor it is
		p.tree.Evict(short-due, s.root)
		p.tree.EvictAny(due)
		return nil
	}
	return ErrOutOfBlocks{Need: n, Free: free + own}
}

// fits reports whether there are n blocks for those who were promised some of them.
func (p *Pool[B]) fits(n, promised int) error {
	if available := p.alloc.Available() + promised; n > available {
		return ErrOutOfBlocks{Need: n, Free: available}
	}
	return nil
}
