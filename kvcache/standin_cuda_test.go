//go:build linux && cgo && !nocuda

package kvcache

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/internal/standin"
)

func init() {
	failingDevices["cuda"] = func() (failing, bool) {
		c, ok := standin.Open()
		if !ok {
			return failing{}, false
		}
		return failing{
			failures: []failure{{"allocation", c.FailAlloc, backend.ErrOutOfMemory{}}, {"launch", c.FailLaunch, nil}},
			injected: func() uint64 { return c.Counts().Injected },
			live:     func() uint64 { return c.Counts().Live() },
			loads:    func() uint64 { return c.Calls("cuModuleLoadData") + c.Calls("cuModuleGetFunction") },
			lose:     func(device int) { c.Lose(device) },
			restore:  func(int) {}, // a context that is retained anew is whole
			misuse:   func() (uint64, string) { return c.Counts().Misuse, c.Report() },
		}, true
	}
}

// A runner that captures a stream of its own in the strictest mode keeps its graph, whatever a pool does
// meanwhile on other threads, from NewPool to Close.
func TestPoolsBesideACapture(t *testing.T) {
	if !strings.HasPrefix(deviceName(), "cuda") {
		t.Skip("the test device is no CUDA device")
	}
	standIn(t)
	lib, err := driver.Open(standin.Path())
	require.NoError(t, err)
	ctx, err := lib.Retain(0)
	require.NoError(t, err)
	cu, err := ctx.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, errors.Join(ctx.DestroyStream(cu), ctx.Release())) }()

	runtime.LockOSThread() // a goroutine beside this one has another thread
	defer runtime.UnlockOSThread()
	require.NoError(t, ctx.BeginCapture(cu, driver.Global))
	done := make(chan error, 1)
	go func() {
		be, err := backend.Open(deviceName())
		if err == nil {
			err = errors.Join(story(be), be.Close())
		}
		done <- err
	}()
	err = <-done
	g, broken := ctx.EndCapture(cu)
	require.NoError(t, err)
	require.NoError(t, broken)
	require.NoError(t, ctx.DestroyGraph(g))
}
