package kvcache

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/internal/race"
	"github.com/ferrumkv/ferrumkv/internal/testsize"
)

// TestMain makes property tests run hundreds of histories unless told otherwise, and
// fewer where each takes long.
func TestMain(m *testing.M) {
	findWait = time.Hour // on a busy machine anything takes its time
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
