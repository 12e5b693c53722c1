//go:build linux && cgo && !nocuda

package kvcache

import (
	"github.com/ferrumkv/ferrumkv/backend"
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
			lose:     func(device int) { c.Lose(device) },
			restore:  func(int) {}, // a context that is retained anew is whole
			misuse:   func() (uint64, string) { return c.Counts().Misuse, c.Report() },
		}, true
	}
}
