package pack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Finish lets processes, one after the other, run a pack until nothing is left to do of it: a driver gives no new device to a
// process whose kernel broke one, and no process can end a kernel that does not return. Each part is a Run in a process of its own that
// goes on from the file of results. It is ended when nothing was written there for as long as patience. The error says why what is left
// cannot be done.
func Finish(path string, patience time.Duration, part func(context.Context) error, progress io.Writer) (Results, error) {
	for before := 0; ; {
		err := watched(path, patience, part)
		r, unread := ReadResults(path)
		if unread != nil {
			return r, errors.Join(err, unread)
		}
		if !r.Left() {
			return r, nil
		}
		if err == nil {
			err = errors.New("the process ended early")
		}
		now := r.known()
		if now <= before {
			return r, fmt.Errorf("a process ended and nothing was learned: %w", err)
		}
		before = now
		fmt.Fprintf(progress, "another process goes on: %v\n", err)
	}
}

// watched runs a part, and cancels its context where it does not go on.
func watched(path string, patience time.Duration, part func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	go func() {
		var seen time.Time
		for changed := time.Now(); time.Since(changed) < patience; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(patience / 20):
			}
			if info, err := os.Stat(path); err == nil && info.ModTime() != seen {
				seen, changed = info.ModTime(), time.Now()
			}
		}
		stop(fmt.Errorf("nothing was learned for %v", patience))
	}()
	err := part(ctx)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// known counts what was learned.
func (r Results) known() (n int) {
	for _, v := range r.Variants {
		n += len(v.Shapes)
		if v.Conform == passed {
			n++
		}
		if v.Done {
			n++
		}
	}
	return n
}
