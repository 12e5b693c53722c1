//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest/gputest"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/internal/standin"
)

// gpu is how the tests of all GPUs reach this backend.
func gpu() gputest.Device[*Buffer] {
	d := gputest.Device[*Buffer]{Kind: "cuda", Driver: `^CUDA \d+\.\d+ \(.+\)$`, NoStream: (*stream)(nil), NoEvent: (*event)(nil), Graphs: true,
		Open: func(i int) (backend.Backend[*Buffer], error) {
			be, err := Open(i)
			if err != nil {
				return nil, err
			}
			return be, nil
		},
		Within: func(h backend.Handle, bytes int) backend.Handle {
			h.Addr += uintptr(bytes)
			return h
		}}
	if c, ok := standin.Open(); ok {
		d.Standin = emulator(c)
	}
	return d
}

// emulator is the stand-in for the driver.
func emulator(c *standin.Control) *gputest.Standin {
	before := c.Counts()
	return &gputest.Standin{
		Failures: []gputest.Failure{
			{Name: "out of memory", Next: c.FailAlloc, Accepted: func(err error) bool { return errors.Is(err, backend.ErrOutOfMemory{}) }},
			{Name: "refused launch", Next: c.FailLaunch, Accepted: func(err error) bool {
				var refused driver.Error
				return errors.As(err, &refused) && (refused.Call == "cuLaunchKernel" || refused.Call == "cuGraphLaunch")
			}},
			{Name: "failed call", Next: c.FailCall, Accepted: func(err error) bool {
				return errors.As(err, new(driver.Error)) || errors.Is(err, backend.ErrUnsupported{}) // an image that was refused
			}},
		},
		FailCall: c.FailCall,
		Injected: func() uint64 { return c.Counts().Injected },
		Live:     func() uint64 { return c.Counts().Live() },
		Launched: func() uint64 { return c.Calls("cuLaunchKernel") },
		Found:    func() uint64 { return c.Calls("cuModuleGetFunction") },
		Waited:   func() uint64 { return c.Calls("cuEventSynchronize") },
		Lose:     func(device int) { c.Lose(device) },
		Restore:  func(int) {}, // a context that is retained again is whole
		Loss: func(err error) bool {
			var cause driver.Error
			return errors.As(err, &cause) && cause.Name == "CUDA_ERROR_ECC_UNCORRECTABLE"
		},
		LossIs: "cuEventSynchronize: ",
		Check: func(t testing.TB, err error) {
			now := c.Counts()
			require.Equal(t, before.Misuse, now.Misuse, c.Report())
			if err == nil || !strings.Contains(err.Error(), "cuCtxPushCurrent") { // then even giving back was refused
				require.Equal(t, before.Abandoned, now.Abandoned, "left to the context after %v", err)
			}
			before = now
		},
	}
}

// A CUDA device passes what the backends of all GPUs share.
func TestGPU(t *testing.T) { gputest.Run(t, gpu()) }

// BenchmarkStep64 is the host's part of a step of 64 sequences.
func BenchmarkStep64(b *testing.B) { gputest.BenchmarkStep(b, gpu()) }
