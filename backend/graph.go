package backend

var _ Capturer = erased[AnyBuffer]{}

// Graph is work that was captured from a stream and can be enqueued again at the cost
// of one launch. It is used by one goroutine at a time, the one that uses its stream.
type Graph interface {
	// Launch enqueues the work on the stream that it was captured from, with the
	// arguments that it was captured with. It allocates nothing. A buffer that the work
	// uses and that was freed since is ErrFreed, imported ones included.
	Launch() error
	// Close waits for the stream's work and gives the graph back. Closing the stream, or
	// the device, closes its graphs.
	Close() error
}

// Capturer is the ability of devices that can capture. Programs call Capture.
type Capturer interface {
	// Capture is called by Capture.
	Capture(s Stream, record func() error) (Graph, error)
}

// Capture makes a graph of the operations that record enqueues on s: Copy, Fill, and all that
// are told what to do by parameters, as Append and Attend are. They are checked as ever and none
// of them runs. A device that cannot capture is ErrUnsupported.
//
// The arguments are frozen: buffers, sizes, scalars, and how many items an AttendPlan has. With
// AttendShape.Fixed that is the same for all contexts. What changes from step to step are the
// contents of buffers: slots, positions, block tables, lengths, and the Work of such a plan, are
// uploaded to the same buffers before each Launch.
//
// While record runs, its goroutine has s. What cannot be repeated is refused there:
// Upload, Download, a Copy that overlaps itself, events, Sync, Close, Launch and another
// Capture on s are ErrCapture. Other streams, and Alloc, Free and PlanAttend, work as
// ever. An error of record is returned and leaves no graph; so is ErrFreed, of a buffer
// that was recorded and freed before record returned. s can be used after any error.
//
// Values that cannot be quantized are reported after each Launch as they are after
// Append itself: by the next Sync.
func Capture[B Buffer](be Backend[B], s Stream, record func() error) (Graph, error) {
	c, ok := be.(Capturer)
	if !ok {
		return nil, ErrUnsupported{Op: "capture", Why: "the device has no graphs; call the operations in each step"}
	}
	return c.Capture(s, record)
}

func (e erased[B]) Capture(s Stream, record func() error) (Graph, error) {
	return Capture(e.be, s, record)
}
