//go:build cgo && !nometal

package metal

import "github.com/ferrumkv/ferrumkv/backend/backendtest/gputest"

// A Mac's own framework cannot be made to fail, and has an order of its own.
func emulator() *gputest.Standin { return nil }

func inAnyOrder(run func()) { run() }

func pipelines() (n int, known bool) { return 0, false }

func commits() (n int, known bool) { return 0, false }
