// States are copied into the tier in the background, one after another: a Put takes no time of a tier that is slow, or does not answer.

package states

import (
	"context"
	"errors"
	"slices"
	"time"
)

const (
	mostQueued = 256
	closeWait  = 5 * time.Second // for those that wait
)

// offer has a state copied, unless too many wait.
func (c *copies) offer(id ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.queue, id) {
		return
	}
	if c.closing || len(c.queue) >= mostQueued {
		c.count(errors.New("too many wait"))
		return
	}
	c.queue = append(c.queue, id)
	c.changed.Broadcast()
}

func (c *copies) count(err error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if err == nil {
		c.s.stats.Copied++
	} else {
		c.s.stats.NotCopied++
	}
}

// run copies states until the store is closed and none waits, or the time for it is over.
func (c *copies) run() {
	defer close(c.ended)
	for {
		c.mu.Lock()
		for (len(c.queue) == 0 || c.holds > 0) && !c.closing {
			c.changed.Wait()
		}
		if len(c.queue) == 0 || c.base.Err() != nil {
			c.mu.Unlock()
			return
		}
		id := c.queue[0]
		c.queue = c.queue[1:]
		ctx, cancel := context.WithCancel(c.base)
		c.cancel = cancel
		c.mu.Unlock()

		there, err := c.copyOut(ctx, id)
		c.s.clean() // what a state that went meanwhile has left
		if there && (err == nil || ctx.Err() == nil) {
			c.count(err)
		}
		c.mu.Lock()
		if ctx.Err() != nil && !slices.Contains(c.queue, id) { // others had to be alone
			c.queue = append(c.queue, id)
		}
		c.cancel = nil
		c.changed.Broadcast()
		c.mu.Unlock()
		cancel()
	}
}

// alone calls a function while no state is being copied.
func (c *copies) alone(do func()) {
	c.mu.Lock()
	c.holds++
	for c.cancel != nil {
		c.cancel()
		c.changed.Wait()
	}
	c.mu.Unlock()
	do()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds--
	c.changed.Broadcast()
}

// close copies what waits, for a while. The error is a call of the tier that does not return.
func (c *copies) close() error {
	c.mu.Lock()
	c.closing = true
	c.changed.Broadcast()
	c.mu.Unlock()
	late := time.AfterFunc(closeWait, c.stop)
	<-c.ended
	late.Stop()
	c.stop()
	if err := c.mover.Close(); err != nil {
		return ErrCopies{"close", err}
	}
	return nil
}
