package backend

var _ Capturer = (*erased[AnyBuffer])(nil)

// Graph is work that was captured from a stream and can be enqueued again as one launch. It may be
// used by one goroutine at a time, the one that uses its stream.
type Graph interface {
	// Launch enqueues the work on the stream that it was captured from, with the arguments of the
	// capture. It allocates nothing. ErrFreed when a buffer of the captured work was freed since,
	// imported ones included.
	Launch() error
	// Close waits for the stream's work and releases the graph. Closing the stream or the device
	// also closes its graphs.
	Close() error
}

// Capturer is implemented by devices that have graphs. Programs call the function Capture.
type Capturer interface {
	// Capture is called by the function Capture.
	Capture(s Stream, record func() error) (Graph, error)
}

// Capture makes a graph of the operations that record enqueues on s: Copy, Fill, and all operations
// that take a parameter struct, such as Append and Attend. They are checked as usual, and none of
// them runs. ErrUnsupported when the device has no graphs.
//
// The arguments are fixed at capture: buffers, sizes, scalars, and the Items of an AttendPlan,
// which are the same for all contexts with AttendShape.Fixed. What changes from step to step are
// the contents of buffers: slots, positions, block tables, lengths, and the Work of such a plan are
// uploaded to the same buffers before each Launch.
//
// While record runs, only its goroutine may use s. Upload, Download, a Copy that overlaps itself,
// events, Sync, Close, Launch and another Capture on s are ErrCapture there. Other streams, and
// Alloc, Free and PlanAttend, work as usual. An error that record returns is returned, and there is
// no graph; so is ErrFreed, when a recorded buffer was freed before record returned. s can be used
// after any error.
//
// Values that cannot be quantized are reported after each Launch as after Append: by the next Sync.
func Capture[B Buffer](be Backend[B], s Stream, record func() error) (Graph, error) {
	c, ok := be.(Capturer)
	if !ok {
		return nil, ErrUnsupported{Op: "capture", Why: "the device has no graphs; call the operations in each step"}
	}
	return c.Capture(s, record)
}

func (e *erased[B]) Capture(s Stream, record func() error) (Graph, error) {
	return Capture(e.be, s, record)
}
