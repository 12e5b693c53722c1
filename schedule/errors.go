package schedule

import (
	"errors"
	"fmt"
)

// ErrQueueFull is a Submit while Options.MaxWaiting requests wait: try again later.
type ErrQueueFull struct{ Waiting int }

func (e ErrQueueFull) Error() string {
	return fmt.Sprintf("schedule: %d requests are waiting, and no more may; try again later", e.Waiting)
}

// Is matches any ErrQueueFull with errors.Is(err, ErrQueueFull{}).
func (e ErrQueueFull) Is(target error) bool {
	t, ok := target.(ErrQueueFull)
	return ok && (t == e || t == ErrQueueFull{})
}

var (
	// ErrDraining is a Submit after Drain, or after Run has returned.
	ErrDraining = errors.New("schedule: no more requests are taken; submit to another scheduler")
	// ErrRunning is a second Run of a scheduler.
	ErrRunning = errors.New("schedule: Run was called before; make another scheduler with New")
)
