package backendtest

import (
	"slices"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Op is a kind of call that a Faulty device can refuse. It reads as in the device's errors.
type Op string

// The calls of a device, of its streams and of its events, beside the operations. Free, Handle and Close are not
// among them: a device that cannot give back is a lost one (Faulty.Lose).
const (
	OpAlloc        Op = "alloc"
	OpImport       Op = "import"
	OpNewStream    Op = "new stream"
	OpImportStream Op = "import stream"
	OpNewEvent     Op = "new event"
	OpUpload       Op = "upload"
	OpDownload     Op = "download"
	OpCopy         Op = "copy"
	OpFill         Op = "fill"
	OpPlanAttend   Op = "plan attend"
	OpSync         Op = "sync"       // Stream.Sync
	OpRecord       Op = "record"     // Stream.Record
	OpWait         Op = "wait"       // Stream.Wait
	OpEventDone    Op = "event done" // Event.Done, of a mark that was reached
	OpEventSync    Op = "event sync" // Event.Sync, once it has waited
)

// Enqueues reports whether calls of this kind put work into a stream.
func (op Op) Enqueues() bool {
	switch op {
	case OpUpload, OpCopy, OpFill, OpRecord, OpWait:
		return true
	}
	return slices.Contains(operations[:], op)
}

// Call is one call of a Faulty device.
type Call struct {
	Op Op
	// Stream is the one that the call is for: of an event, that of its last mark. nil where
	// there is none.
	Stream backend.Stream
}

// A Fault says of a call what is wrong: the error that the call returns instead of
// being made, nil where it is to be made. Faults are asked by the goroutines that make the
// calls, and may use the device themselves.
type Fault func(Call) error

// Nth lets the n-th call fail, from 1 on, of the kinds that are named, of all if
// none is. All others are made. A test that goes through n = 1, 2, … until nothing fails has met
// every place where its program can fail.
func Nth(n int, err error, ops ...Op) Fault {
	return counting(err, ops, func(i int) bool { return i == n })
}

// After lets calls fail as Nth does: all but the first n.
func After(n int, err error, ops ...Op) Fault {
	return counting(err, ops, func(i int) bool { return i > n })
}

func counting(err error, ops []Op, fails func(i int) bool) Fault {
	var mu sync.Mutex
	i := 0
	return func(c Call) error {
		if len(ops) > 0 && !slices.Contains(ops, c.Op) {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if i++; fails(i) {
			return err
		}
		return nil
	}
}
