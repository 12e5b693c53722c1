//go:build linux && cgo && !nometal && metalsimt

package metal

import (
	"errors"
	"os"
	"strconv"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest/gputest"
	"github.com/ferrumkv/ferrumkv/backend/metal/mtl"
	"github.com/ferrumkv/ferrumkv/internal/standin/metalsimt"
)

// emulator is the stand-in for the framework. What it does not forgive ends the process.
func emulator() *gputest.Standin {
	refused := func(err error) bool { return errors.As(err, new(mtl.Error)) }
	lost := func(err error) bool { return errors.Is(err, backend.ErrLost) && refused(err) }
	return &gputest.Standin{
		Failures: []gputest.Failure{
			{Name: "out of memory", Next: metalsimt.FailBuffer, Accepted: func(err error) bool { return errors.Is(err, backend.ErrOutOfMemory{}) }},
			{Name: "library", Next: metalsimt.FailLibrary, Accepted: refused},
			{Name: "pipeline", Next: metalsimt.FailPipeline, Accepted: refused},
			{Name: "failed call", Next: metalsimt.FailCall, Accepted: refused},
			{Name: "failed work", Next: func(n int) { metalsimt.FailCommands(n, metalsimt.Internal) }, Accepted: lost},
			{Name: "work that took too long", Next: func(n int) { metalsimt.FailCommands(n, metalsimt.Timeout) }, Accepted: lost},
			{Name: "work without memory", Next: func(n int) { metalsimt.FailCommands(n, metalsimt.OutOfMemory) },
				Accepted: func(err error) bool { return lost(err) && errors.Is(err, backend.ErrOutOfMemory{}) }},
		},
		FailCall: metalsimt.FailCall,
		Injected: func() uint64 { return metalsimt.Count().Injected },
		Live:     func() uint64 { return metalsimt.Count().Live() },
		Launched: func() uint64 { return metalsimt.Count().Dispatches },
		Found:    func() uint64 { return metalsimt.Calls("newComputePipelineStateWithFunction:error:") },
		Waited:   func() uint64 { return metalsimt.Calls("waitUntilCompleted") },
		Lose:     func(device int) { metalsimt.Lose(device) },
		Restore:  func(device int) { metalsimt.Find(device) },
		Loss:     refused,
		LossIs:   "MTLCommandBufferErrorDomain",
		Check:    func(testing.TB, error) {},
	}
}

// inAnyOrder runs a test with several orders of queues, threadgroups and threads.
func inAnyOrder(run func()) {
	for seed := range uint64(4) {
		metalsimt.Seed(seed)
		run()
	}
	chosen, _ := strconv.ParseUint(os.Getenv("FERRUM_SIMT_SEED"), 10, 64)
	metalsimt.Seed(chosen)
}

// pipelines is how many are alive.
func pipelines() (n int, known bool) { return int(metalsimt.Count().Pipelines), true }

// commits is how many command buffers were committed so far.
func commits() (n int, known bool) { return int(metalsimt.Count().Commits), true }
