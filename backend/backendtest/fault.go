package backendtest

import (
	"slices"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Op is a kind of call that a Faulty device can refuse. It is the operation's name in error texts.
type Op string

// The calls of a device, of its streams and of its events, beside the operations. Free, Handle and Close are not
// among them: a device that cannot give back is a lost one (Faulty.Lose).
const (
	OpAlloc        Op = "alloc"
	OpImport       Op = "import"
	OpSubBuffer    Op = "sub-buffer"
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
	// Stream is the stream of the call; for a call of an event, the stream that recorded it last.
	// nil when there is none.
	Stream backend.Stream
}

// A Fault decides whether a call fails: it returns the call's error, or nil when the call is to be
// made. It is called by the goroutines that make the calls, and may use the device itself.
type Fault func(Call) error

// Nth makes the n-th call of the given kinds fail, counted from 1; without kinds, of all calls. A
// test that tries n = 1, 2, … until nothing fails has tried every place where its program can fail.
func Nth(n int, err error, ops ...Op) Fault {
	return counting(err, ops, func(i int) bool { return i == n })
}

// After makes all calls of the given kinds fail, except the first n.
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
