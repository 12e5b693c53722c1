//go:build linux && cgo && metalsimt && !nometal

package kvcache

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/standin/metalsimt"
)

func init() {
	failingDevices["metal"] = func() (failing, bool) {
		return failing{
			failures: []failure{{"allocation", metalsimt.FailBuffer, backend.ErrOutOfMemory{}}, {"call", metalsimt.FailCall, nil}},
			injected: func() uint64 { return metalsimt.Count().Injected },
			live:     func() uint64 { return metalsimt.Count().Live() },
			loads:    func() uint64 { return metalsimt.Calls("newComputePipelineStateWithFunction:error:") },
			plans:    true,
			lose:     func(device int) { metalsimt.Lose(device) },
			restore:  func(device int) { metalsimt.Find(device) },
			misuse:   func() (uint64, string) { return 0, "" }, // it ends the process
		}, true
	}
}
