//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend/backendtest/gputest"
)

// A Metal device passes the suite that every device passes.
func TestConformance(t *testing.T) { gputest.Conform(t, gpu()) }
