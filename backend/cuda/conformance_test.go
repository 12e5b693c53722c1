//go:build linux && cgo && !nocuda

package cuda

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend/backendtest/gputest"
)

// A CUDA device passes the suite that every device passes.
func TestConformance(t *testing.T) { gputest.Conform(t, gpu()) }
