package kvcache

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/offload"
)

// TestMain makes property tests run hundreds of histories unless told otherwise, and
// fewer where each takes long.
func TestMain(m *testing.M) {
	findWait, offload.Patience.Ask, offload.Patience.Slow = time.Hour, time.Hour, time.Hour // on a busy machine anything may take long
	switch {
	case strings.HasPrefix(deviceName(), "cpu") && !race.Enabled:
		testsize.Histories(300)
	case emulated(testDevice().Info):
		testsize.Histories(25)
	default:
		testsize.Histories(50)
	}
	os.Exit(m.Run())
}
