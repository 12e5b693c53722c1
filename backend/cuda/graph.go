//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/device"
)

var _ backend.Capturer = (*Backend)(nil)

// Capture makes a CUDA graph of what record enqueues on s; see backend.Capture. ErrUnsupported on
// the default stream; ErrCapture on an imported stream
// that its owner captures. Work that the program itself enqueues on the CUstream while record runs,
// such as a model's kernels, is part of the graph, too; the program must keep its memory as long as
// the graph.
func (be *Backend) Capture(s backend.Stream, record func() error) (backend.Graph, error) {
	return be.dev.Capture(s, record, func(s *stream) device.Recorder { return recorder{s} })
}

// legacy is CU_STREAM_LEGACY, the default stream by its other name.
const legacy = 1

// recorder captures what is enqueued on a stream.
type recorder struct{ *stream }

// Begin begins a capture that forbids nothing to threads: goroutines have none of their
// own, and other streams go on.
func (r recorder) Begin() error {
	if r.cu <= legacy {
		return backend.ErrUnsupported{Op: "capture", Why: "the default stream; use one of NewStream"}
	}
	if err := r.uncaptured("capture"); err != nil {
		return err
	}
	if err := r.be.ctx.Record(r.tail, r.cu); err != nil { // what Free waits for meanwhile
		return err
	}
	if err := r.be.ctx.BeginCapture(r.cu, driver.Relaxed); err != nil {
		return err
	}
	r.capturing = true
	return nil
}

// End ends the capture.
func (r recorder) End(keep bool) (device.Exec, error) {
	ctx := r.be.ctx
	r.capturing = false
	g, err := ctx.EndCapture(r.cu)
	if err != nil {
		return nil, err
	}
	if !keep {
		return nil, ctx.DestroyGraph(g)
	}
	e, err := ctx.Instantiate(g)
	if dropped := ctx.DestroyGraph(g); err == nil && dropped != nil {
		return nil, errors.Join(dropped, ctx.DestroyExec(e))
	}
	if err != nil {
		return nil, err
	}
	return exec{r.stream, e}, nil
}

// exec is what a stream has captured.
type exec struct {
	*stream
	cu driver.Exec
}

// Launch enqueues it.
func (e exec) Launch() error {
	if err := e.uncaptured("launch graph"); err != nil {
		return err
	}
	return e.be.ctx.LaunchGraph(e.cu, e.stream.cu)
}

// Destroy gives it back.
func (e exec) Destroy() error { return e.be.ctx.DestroyExec(e.cu) }

// uncaptured is ErrCapture while the owner of an imported stream captures it by himself:
// what op does would become part of the runner's graph, or end its capture.
func (s *stream) uncaptured(op string) error {
	if !s.imported {
		return nil
	}
	capturing, err := s.be.ctx.Capturing(s.cu)
	if err != nil {
		return implied(err)
	}
	if capturing {
		return backend.ErrCapture{Op: op, Do: "its owner does that; wait until it is done"}
	}
	return nil
}

// harmless is ErrCapture where the stream is the default one and some stream that waits for it is being
// captured: the driver would refuse work here and end that capture, which a question does not.
func (s *stream) harmless() error {
	if s.cu > legacy {
		return nil
	}
	_, err := s.be.ctx.Capturing(s.cu)
	return implied(err)
}

// implied says what to do about the driver's answer of the default stream.
func implied(err error) error {
	if !errors.Is(err, backend.ErrCapture{}) {
		return err
	}
	return fmt.Errorf("a stream that waits for the default stream is being captured; use one of NewStream, or wait until that is done: %w", err)
}
